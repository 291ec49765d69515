#pragma once

#include "text/clip_tokenizer.h"
#include "weights/metadata.h"
#include "weights/weight_file.h"

#include <optional>

// Where a model's tokenizer is.
namespace sam3 {

// From the metadata of a model file, or from the files beside the weights: tokenizer.json, vocab.json with merges.txt,
// or CLIP's own list. Empty when there is none.
std::optional<ClipVocabulary> vocabulary_of(const WeightFile& file);
bool has_vocabulary(const WeightFile& file);  // without reading it

// What vocabulary_of finds in a model file: tokenizer.ggml.model, merges and, where they are not CLIP's own, tokens.
Metadata vocabulary_to_metadata(const ClipVocabulary& vocabulary);

}  // namespace sam3
