#include "text/unicode.h"

#include "text/unicode_tables.h"

#include <algorithm>

namespace sam3::unicode {
namespace {

// Hangul syllables are composed by arithmetic (The Unicode Standard, 3.12).
constexpr char32_t kHangul = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28, kSyllables = kLeads * kVowels * kTrails;

// The row whose [first, last] holds c, or null.
template <typename Row>
const Row* find_run(const Table<Row>& table, char32_t c) {
    const Row* row = std::upper_bound(table.begin(), table.end(), c,
                                      [](char32_t value, const Row& candidate) { return value < candidate.first; });
    if (row == table.begin()) return nullptr;
    --row;
    return c <= row->last ? row : nullptr;
}

void append_decomposed(std::u32string& out, char32_t c) {
    if (c >= kHangul && c < kHangul + kSyllables) {
        const char32_t index = c - kHangul;
        out.push_back(kLead + index / (kVowels * kTrails));
        out.push_back(kVowel + index % (kVowels * kTrails) / kTrails);
        if (index % kTrails != 0) out.push_back(kTrail + index % kTrails);
        return;
    }
    const auto* row = std::lower_bound(kDecompositions.begin(), kDecompositions.end(), c,
                                       [](const Decomposition& d, char32_t value) { return d.composed < value; });
    if (c < 0xC0 || row == kDecompositions.end() || row->composed != c) {
        out += c;
        return;
    }
    append_decomposed(out, row->first);
    if (row->second != 0) append_decomposed(out, row->second);
}

// 0 when the pair does not compose.
char32_t composed(char32_t a, char32_t b) {
    if (a >= kLead && a < kLead + kLeads && b >= kVowel && b < kVowel + kVowels) {
        return kHangul + ((a - kLead) * kVowels + (b - kVowel)) * kTrails;
    }
    if (a >= kHangul && a < kHangul + kSyllables && (a - kHangul) % kTrails == 0 && b > kTrail &&
        b < kTrail + kTrails) {
        return a + (b - kTrail);
    }
    const auto before = [](const Composition& c, const Composition& value) {
        return c.first != value.first ? c.first < value.first : c.second < value.second;
    };
    const auto* row = std::lower_bound(kCompositions.begin(), kCompositions.end(), Composition{a, b, 0}, before);
    return row != kCompositions.end() && row->first == a && row->second == b ? row->composed : 0;
}

// Puts every run of combining marks into the order of their classes.
void order_marks(std::u32string& text) {
    for (size_t i = 0; i < text.size();) {
        if (combining_class(text[i]) == 0) {
            ++i;
            continue;
        }
        const size_t begin = i;
        while (i < text.size() && combining_class(text[i]) != 0) ++i;
        const auto at = [&](size_t index) { return text.begin() + static_cast<std::ptrdiff_t>(index); };
        std::stable_sort(at(begin), at(i),
                         [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    }
}

}  // namespace

bool is_letter(char32_t c) {
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return find_run(kLetters, c) != nullptr;
}

bool is_number(char32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    return find_run(kNumbers, c) != nullptr;
}

bool is_space(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

int combining_class(char32_t c) {
    if (c < 0x300) return 0;
    const CombiningRun* run = find_run(kCombining, c);
    return run != nullptr ? run->combining_class : 0;
}

void append_lower(std::u32string& out, char32_t c) {
    if (c < 0x80) {
        out += c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
        return;
    }
    if (c == 0x130) {
        out += U"i\u0307";
        return;
    }
    const CaseRun* run = find_run(kLowerCase, c);
    const bool changes = run != nullptr && (c - run->first) % run->step == 0;
    out += changes ? static_cast<char32_t>(static_cast<int32_t>(c) + run->delta) : c;
}

std::u32string lower(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text) append_lower(out, c);
    return out;
}

std::u32string compose(std::u32string_view text) {
    // Below U+0300 nothing combines and everything is composed already.
    if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x300; })) return std::u32string(text);
    std::u32string parts;
    parts.reserve(text.size());
    for (const char32_t c : text) append_decomposed(parts, c);
    order_marks(parts);

    std::u32string out;
    out.reserve(parts.size());
    size_t starter = std::u32string::npos;  // index in out of the last code point of class 0
    int last_class = -1;                    // class of the last one after the starter; -1: none in between
    for (const char32_t c : parts) {
        const int combining = combining_class(c);
        if (starter != std::u32string::npos && last_class < combining) {
            const char32_t joined = composed(out[starter], c);
            if (joined != 0) {
                out[starter] = joined;
                continue;
            }
        }
        if (combining == 0) {
            starter = out.size();
            last_class = -1;
        } else {
            last_class = combining;
        }
        out += c;
    }
    return out;
}

char32_t ordinary_width(char32_t c) {
    if (c < 0x3000) return c;
    const auto* row = std::lower_bound(kWidths.begin(), kWidths.end(), c,
                                       [](const Pair& pair, char32_t value) { return pair.from < value; });
    return row != kWidths.end() && row->from == c ? row->to : c;
}

}  // namespace sam3::unicode
