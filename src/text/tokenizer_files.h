#pragma once

#include "text/clip_tokenizer.h"

#include <string>
#include <string_view>

// Readers of the files that CLIP's vocabulary comes in. A file of another kind fails with a sentence; `where` names the
// file in it.
namespace sam3 {

// Hugging Face's tokenizer.json.
ClipVocabulary read_tokenizer_json(std::string_view json, const std::string& where);
// Hugging Face's vocab.json and merges.txt.
ClipVocabulary read_vocab_and_merges(std::string_view vocab_json, std::string_view merges_text,
                                     const std::string& where);
// CLIP's bpe_simple_vocab_16e6.txt, plain or gzip, of which the first 48,894 merges count; or a merges.txt alone, with
// the vocabulary built as CLIP does.
ClipVocabulary read_merges(std::string_view bytes, const std::string& where);

// Any of them by what the file holds: a folder (tokenizer.json, or vocab.json with merges.txt), or one of the files.
ClipVocabulary load_clip_vocabulary(const std::string& path);
ClipTokenizer load_clip_tokenizer(const std::string& path);

}  // namespace sam3
