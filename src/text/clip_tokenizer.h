#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sam3 {

// The two tokenizers that SAM 3's phrases go through. They differ in what they do before the byte pairs: HTML entities,
// curly quotes, and how special tokens are spelt. For a plain phrase their ids are equal.
enum class TextRules {
    transformers,  // Hugging Face's CLIPTokenizer
    original,      // Meta's SimpleTokenizer, cleaning "lower"
};

struct EncodeOptions {
    int context_length = 32;  // ids in the result; at least 2
    int32_t pad_id = 0;       // Meta pads with 0, Hugging Face with the end token
    TextRules rules = TextRules::transformers;
};

struct Encoding {
    std::vector<int32_t> ids;  // [context_length]: start, the phrase, end, padding
    int count = 0;             // ids before the padding, start and end among them
    bool truncated = false;    // the phrase was longer; its end token is kept
};

// What a tokenizer is made of.
struct ClipVocabulary {
    using Merge = std::pair<std::string, std::string>;
    using Ids = std::unordered_map<std::string, int32_t>;

    Ids ids;                    // symbols that are missing become the end token, as Hugging Face has it
    std::vector<Merge> merges;  // best first

    // The ids as CLIP numbers them: 256 byte symbols, the same with </w>, one token per merge, start, end.
    static ClipVocabulary from_merges(std::vector<Merge> merges);
    // As model files hold it: tokens in the order of their ids (none: numbered as CLIP does), merges as "a b".
    struct Lists {
        std::vector<std::string> tokens, merges;
    };
    static ClipVocabulary from_lists(const Lists& lists);
    Lists to_lists() const;  // fails when the ids have wide gaps
};

// CLIP's byte-level byte-pair encoding. Immutable, so several threads may use one.
class ClipTokenizer {
public:
    explicit ClipTokenizer(const ClipVocabulary& vocabulary);

    // Any bytes are accepted; broken UTF-8 counts as U+FFFD. Linear in the length of the phrase, but for a logarithm.
    Encoding encode(std::string_view phrase, const EncodeOptions& options = {}) const;

    int32_t start_id() const { return start_id_; }
    int32_t end_id() const { return end_id_; }
    size_t vocabulary_size() const { return vocabulary_size_; }  // highest id + 1: rows of the embedding table

private:
    struct MergeRule {
        uint32_t rank;
        int32_t result;
    };

    void append_word(std::string_view bytes, std::vector<int32_t>& ids) const;
    void append_words(std::u32string_view text, TextRules rules, size_t limit, std::vector<int32_t>& ids) const;
    void append_phrase(std::string_view phrase, TextRules rules, size_t limit, std::vector<int32_t>& ids) const;
    const MergeRule* find_merge(int32_t left, int32_t right) const;

    int32_t byte_ids_[256] = {};       // id of a byte inside a word
    int32_t last_byte_ids_[256] = {};  // id of a byte that ends a word
    std::unordered_map<uint64_t, MergeRule> merges_;
    int32_t start_id_ = 0;
    int32_t end_id_ = 0;
    size_t vocabulary_size_ = 0;
};

// "a b" -> {"a", "b"}; fails with the line's number on anything else.
ClipVocabulary::Merge parse_merge(std::string_view line, size_t number);

}  // namespace sam3
