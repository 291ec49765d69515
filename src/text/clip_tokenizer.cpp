#include "text/clip_tokenizer.h"

#include "text/clean.h"
#include "text/unicode.h"
#include "util/error.h"

#include <algorithm>
#include <array>
#include <queue>

namespace sam3 {
namespace {

constexpr const char* kWordEnd = "</w>";

struct SpecialNames {
    std::string_view start, end;
};
constexpr SpecialNames kTransformersNames{"<|startoftext|>", "<|endoftext|>"};
constexpr SpecialNames kOriginalNames{"<start_of_text>", "<end_of_text>"};

bool is_printable_latin1(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Byte -> the character that stands for it in vocabulary files: itself where it prints, else from U+0100 on.
std::array<std::string, 256> byte_symbols() {
    std::array<std::string, 256> symbols;
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const char32_t c = is_printable_latin1(byte) ? static_cast<char32_t>(byte) : next++;
        unicode::append_utf8(symbols[static_cast<size_t>(byte)], c);
    }
    return symbols;
}

int32_t special_id(const ClipVocabulary::Ids& vocabulary, std::string_view name, std::string_view other_name) {
    for (const std::string_view candidate : {name, other_name}) {
        const auto found = vocabulary.find(std::string(candidate));
        if (found != vocabulary.end()) return found->second;
    }
    fail("expected a CLIP vocabulary with the token ", name, ", found ", vocabulary.size(),
         " tokens without it: is this the tokenizer of another model?");
}

uint64_t pair_key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32U) | static_cast<uint32_t>(right);
}

// Length of one of 's 't 're 've 'm 'll 'd at text[i]; 0 when there is none.
size_t contraction_length(std::u32string_view text, size_t i) {
    static constexpr std::u32string_view kContractions[] = {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"};
    if (text[i] != '\'') return 0;
    for (const auto contraction : kContractions) {
        if (text.substr(i, contraction.size()) == contraction) return contraction.size();
    }
    return 0;
}

bool is_other(char32_t c) { return !unicode::is_space(c) && !unicode::is_letter(c) && !unicode::is_number(c); }

// Length of the word at text[i], which is not white space: a contraction, letters, one digit, or a run of the rest.
size_t word_length(std::u32string_view text, size_t i) {
    if (const size_t length = contraction_length(text, i)) return length;
    if (unicode::is_number(text[i])) return 1;
    size_t end = i + 1;
    if (unicode::is_letter(text[i])) {
        while (end < text.size() && unicode::is_letter(text[end])) ++end;
    } else {
        while (end < text.size() && is_other(text[end])) ++end;
    }
    return end - i;
}

bool starts_with_ascii(std::u32string_view text, size_t i, std::string_view ascii) {
    return text.size() - i >= ascii.size() &&
           std::equal(ascii.begin(), ascii.end(), text.begin() + static_cast<std::ptrdiff_t>(i),
                      [](char a, char32_t b) { return static_cast<char32_t>(a) == b; });
}

}  // namespace

ClipVocabulary::Merge parse_merge(std::string_view line, size_t number) {
    const size_t space = line.find(' ');
    const bool two = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                     line.find(' ', space + 1) == std::string_view::npos;
    if (!two) {
        fail("expected two symbols with one space between them in merge ", number, ", found '", line.substr(0, 80),
             "': is this a merges file of CLIP's kind?");
    }
    return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

ClipVocabulary ClipVocabulary::from_merges(std::vector<Merge> merges) {
    // CLIP numbers the printable bytes first, then the others.
    const auto symbols = byte_symbols();
    std::vector<std::string> tokens;
    tokens.reserve(merges.size() + 514);
    for (const bool printable : {true, false}) {
        for (int byte = 0; byte < 256; ++byte) {
            if (is_printable_latin1(byte) == printable) tokens.push_back(symbols[static_cast<size_t>(byte)]);
        }
    }
    for (size_t i = 0; i < 256; ++i) tokens.push_back(tokens[i] + kWordEnd);
    for (const auto& [left, right] : merges) tokens.push_back(left + right);
    tokens.emplace_back(kTransformersNames.start);
    tokens.emplace_back(kTransformersNames.end);

    ClipVocabulary vocabulary;
    vocabulary.ids.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) vocabulary.ids[tokens[i]] = static_cast<int32_t>(i);
    vocabulary.merges = std::move(merges);
    return vocabulary;
}

ClipVocabulary ClipVocabulary::from_lists(const Lists& lists) {
    std::vector<Merge> pairs;
    pairs.reserve(lists.merges.size());
    for (size_t i = 0; i < lists.merges.size(); ++i) pairs.push_back(parse_merge(lists.merges[i], i + 1));
    if (lists.tokens.empty()) return from_merges(std::move(pairs));
    ClipVocabulary vocabulary;
    vocabulary.ids.reserve(lists.tokens.size());
    for (size_t i = 0; i < lists.tokens.size(); ++i) vocabulary.ids[lists.tokens[i]] = static_cast<int32_t>(i);
    vocabulary.merges = std::move(pairs);
    return vocabulary;
}

ClipVocabulary::Lists ClipVocabulary::to_lists() const {
    Lists lists;
    for (const auto& [left, right] : merges) lists.merges.push_back(left + " " + right);
    if (ids == from_merges(merges).ids) return lists;
    for (const auto& [token, id] : ids) {
        if (id < 0 || static_cast<size_t>(id) > 2 * ids.size() + 1024)
            fail("expected ids without wide gaps in the vocabulary, found ", id, " for '", token, "'");
        if (static_cast<size_t>(id) >= lists.tokens.size()) lists.tokens.resize(static_cast<size_t>(id) + 1);
        lists.tokens[static_cast<size_t>(id)] = token;
    }
    return lists;
}

ClipTokenizer::ClipTokenizer(const ClipVocabulary& source) {
    const ClipVocabulary::Ids& vocabulary = source.ids;
    const std::vector<ClipVocabulary::Merge>& merges = source.merges;
    start_id_ = special_id(vocabulary, kTransformersNames.start, kOriginalNames.start);
    end_id_ = special_id(vocabulary, kTransformersNames.end, kOriginalNames.end);
    for (const auto& [token, id] : vocabulary) {
        if (id < 0) fail("expected ids from 0 on in the vocabulary, found ", id, " for '", token, "'");
        vocabulary_size_ = std::max(vocabulary_size_, static_cast<size_t>(id) + 1);
    }
    const auto id_or = [&](const std::string& token, int32_t fallback) {
        const auto found = vocabulary.find(token);
        return found != vocabulary.end() ? found->second : fallback;
    };
    const auto symbols = byte_symbols();
    for (size_t byte = 0; byte < symbols.size(); ++byte) {
        byte_ids_[byte] = id_or(symbols[byte], end_id_);
        last_byte_ids_[byte] = id_or(symbols[byte] + kWordEnd, end_id_);
    }
    merges_.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
        const auto& [left, right] = merges[i];
        const int32_t ids[3] = {id_or(left, -1), id_or(right, -1), id_or(left + right, -1)};
        if (std::any_of(std::begin(ids), std::end(ids), [](int32_t id) { return id < 0; })) {
            fail("expected a vocabulary that holds every merge's symbols and result, found merge ", i + 1, " ('", left,
                 "' '", right, "') outside it: do vocabulary and merges belong to the same model?");
        }
        merges_.insert_or_assign(pair_key(ids[0], ids[1]), MergeRule{static_cast<uint32_t>(i), ids[2]});
    }
}

const ClipTokenizer::MergeRule* ClipTokenizer::find_merge(int32_t left, int32_t right) const {
    const auto found = merges_.find(pair_key(left, right));
    return found != merges_.end() ? &found->second : nullptr;
}

// Joins the neighbours of lowest rank, the leftmost first, until no pair has a rule.
void ClipTokenizer::append_word(std::string_view bytes, std::vector<int32_t>& ids) const {
    struct Symbol {
        int32_t id;  // -1: joined to the one before it
        size_t previous, next;
    };
    struct Candidate {
        uint32_t rank;
        size_t left;
        int32_t left_id, right_id;                      // as they were when this was found
        bool operator<(const Candidate& other) const {  // the queue gives the largest first
            return rank != other.rank ? rank > other.rank : left > other.left;
        }
    };
    const size_t count = bytes.size();
    std::vector<Symbol> symbols(count);
    for (size_t i = 0; i < count; ++i) {
        const auto byte = static_cast<uint8_t>(bytes[i]);
        symbols[i] = {i + 1 == count ? last_byte_ids_[byte] : byte_ids_[byte], i - 1, i + 1};
    }
    std::priority_queue<Candidate> queue;
    const auto consider = [&](size_t left) {
        if (left >= count || symbols[left].next >= count) return;  // i - 1 of the first wraps to above count
        const int32_t left_id = symbols[left].id, right_id = symbols[symbols[left].next].id;
        if (const MergeRule* rule = find_merge(left_id, right_id)) queue.push({rule->rank, left, left_id, right_id});
    };
    for (size_t i = 0; i + 1 < count; ++i) consider(i);
    while (!queue.empty()) {
        const Candidate candidate = queue.top();
        queue.pop();
        Symbol& left = symbols[candidate.left];
        if (left.id != candidate.left_id || left.next >= count || symbols[left.next].id != candidate.right_id) continue;
        Symbol& right = symbols[left.next];
        left.id = find_merge(candidate.left_id, candidate.right_id)->result;
        right.id = -1;
        left.next = right.next;
        if (left.next < count) symbols[left.next].previous = candidate.left;
        consider(left.previous);
        consider(candidate.left);
    }
    for (size_t i = 0; i < count; i = symbols[i].next) ids.push_back(symbols[i].id);
}

void ClipTokenizer::append_words(std::u32string_view text, TextRules rules, size_t limit,
                                 std::vector<int32_t>& ids) const {
    const SpecialNames& names = rules == TextRules::original ? kOriginalNames : kTransformersNames;
    for (size_t i = 0; i < text.size() && ids.size() < limit;) {
        if (unicode::is_space(text[i])) {
            ++i;
            continue;
        }
        std::string_view special;
        if (text[i] == '<') {
            if (starts_with_ascii(text, i, names.start)) special = names.start;
            if (starts_with_ascii(text, i, names.end)) special = names.end;
        }
        if (special.empty()) {
            const size_t length = word_length(text, i);
            append_word(unicode::to_utf8(text.substr(i, length)), ids);
            i += length;
        } else if (rules == TextRules::original) {
            ids.push_back(special == names.start ? start_id_ : end_id_);
            i += special.size();
        } else {
            // Hugging Face knows these tokens as they are typed; one that only lower case made so is three words.
            append_word(special.substr(0, 2), ids);
            append_word(special.substr(2, special.size() - 4), ids);
            append_word(special.substr(special.size() - 2), ids);
            i += special.size();
        }
    }
}

void ClipTokenizer::append_phrase(std::string_view phrase, TextRules rules, size_t limit,
                                  std::vector<int32_t>& ids) const {
    if (rules == TextRules::original) {
        append_words(clean_like_original(unicode::from_utf8(phrase)), rules, limit, ids);
        return;
    }
    // Special tokens are taken out of the phrase as typed, before any cleaning.
    while (!phrase.empty() && ids.size() < limit) {
        const size_t start = phrase.find(kTransformersNames.start), end = phrase.find(kTransformersNames.end);
        const size_t special = std::min(start, end);
        append_words(clean_like_transformers(unicode::from_utf8(phrase.substr(0, special))), rules, limit, ids);
        if (special == std::string_view::npos) return;
        ids.push_back(start < end ? start_id_ : end_id_);
        phrase.remove_prefix(special + (start < end ? kTransformersNames.start : kTransformersNames.end).size());
    }
}

Encoding ClipTokenizer::encode(std::string_view phrase, const EncodeOptions& options) const {
    if (options.context_length < 2) {
        fail("expected a context length of at least 2 (the start and the end token), found ", options.context_length);
    }
    const auto length = static_cast<size_t>(options.context_length);
    Encoding encoding;
    encoding.ids.push_back(start_id_);
    append_phrase(phrase, options.rules, length, encoding.ids);  // stops soon after it has one id too many
    encoding.truncated = encoding.ids.size() > length - 1;
    encoding.ids.resize(std::min(encoding.ids.size(), length - 1));
    encoding.ids.push_back(end_id_);
    encoding.count = static_cast<int>(encoding.ids.size());
    encoding.ids.resize(length, options.pad_id);
    return encoding;
}

}  // namespace sam3
