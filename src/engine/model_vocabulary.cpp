#include "engine/model_vocabulary.h"

#include "text/tokenizer_files.h"

#include <algorithm>
#include <array>

namespace sam3 {

namespace {

constexpr const char* kModel = "tokenizer.ggml.model";
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kMerges = "tokenizer.ggml.merges";
constexpr std::array kMergeFiles{"bpe_simple_vocab_16e6.txt.gz", "bpe_simple_vocab_16e6.txt", "merges.txt"};

}  // namespace

bool has_vocabulary(const WeightFile& file) {
    return file.metadata().has(kMerges) || file.side_path("tokenizer.json") ||
           std::any_of(kMergeFiles.begin(), kMergeFiles.end(),
                       [&](const char* name) { return file.side_path(name).has_value(); });
}

std::optional<ClipVocabulary> vocabulary_of(const WeightFile& file) {
    if (file.metadata().has(kMerges)) {
        ClipVocabulary::Lists lists;
        lists.merges = file.metadata().get_strings(kMerges);
        if (file.metadata().has(kTokens)) lists.tokens = file.metadata().get_strings(kTokens);
        return ClipVocabulary::from_lists(lists);
    }
    if (const auto json = file.side_file("tokenizer.json"))
        return read_tokenizer_json(*json, *file.side_path("tokenizer.json"));
    const auto vocab = file.side_file("vocab.json");
    const auto merges = file.side_file("merges.txt");
    if (vocab && merges) return read_vocab_and_merges(*vocab, *merges, *file.side_path("merges.txt"));
    for (const char* name : kMergeFiles)
        if (const auto bytes = file.side_file(name)) return read_merges(*bytes, *file.side_path(name));
    return std::nullopt;
}

Metadata vocabulary_to_metadata(const ClipVocabulary& vocabulary) {
    ClipVocabulary::Lists lists = vocabulary.to_lists();
    Metadata metadata;
    metadata.add(kModel, std::string("clip"));
    if (!lists.tokens.empty()) metadata.add(kTokens, MetadataArray{std::move(lists.tokens)});
    metadata.add(kMerges, MetadataArray{std::move(lists.merges)});
    return metadata;
}

}  // namespace sam3
