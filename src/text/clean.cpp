#include "text/clean.h"

#include "text/unicode.h"
#include "text/unicode_tables.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace sam3 {
namespace {

constexpr size_t kLongestEntity = 32;

// Windows-1252 in place of the C1 controls, as HTML 5 asks for in numeric references.
constexpr std::array<char32_t, 32> kWindows1252 = {0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                                   0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                                   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                   0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

bool is_ascii_alnum(char32_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

int digit_of(char32_t c, int base) {
    if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
    if (base == 16 && c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
    if (base == 16 && c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
    return -1;
}

void append_reference(std::u32string& out, char32_t c) {
    if (c >= 0x80 && c < 0xA0) {
        out += kWindows1252[c - 0x80];
    } else if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        out += U'\uFFFD';
    } else if (const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != 0x0C) || c == 0x7F;
               !control && !(c >= 0xFDD0 && c <= 0xFDEF) && (c & 0xFFFEU) != 0xFFFE) {
        out += c;
    }
}

// "&#...;" at text[begin]; the index behind it, or nothing where there are no digits.
std::optional<size_t> read_numeric(std::u32string_view text, size_t begin, std::u32string& out) {
    size_t i = begin + 2;
    int base = 10;
    if (i < text.size() && (text[i] == 'x' || text[i] == 'X')) {
        base = 16;
        ++i;
    }
    const size_t digits = i;
    char32_t value = 0;
    for (; i < text.size() && digit_of(text[i], base) >= 0; ++i) {
        value = std::min<char32_t>(value * static_cast<char32_t>(base) + static_cast<char32_t>(digit_of(text[i], base)),
                                   0x110000);
    }
    if (i == digits) return std::nullopt;
    append_reference(out, value);
    return i < text.size() && text[i] == ';' ? i + 1 : i;
}

const unicode::Entity* find_entity(const std::string& name) {
    const auto& table = unicode::kEntities;
    const auto* row = std::lower_bound(
        table.begin(), table.end(), name,
        [](const unicode::Entity& e, const std::string& n) { return std::strcmp(e.name, n.c_str()) < 0; });
    return row != table.end() && name == row->name ? row : nullptr;
}

// "&name;" at text[begin]; without its semicolon only the old names count, the longest first.
std::optional<size_t> read_named(std::u32string_view text, size_t begin, std::u32string& out) {
    std::string name;
    size_t i = begin + 1;
    while (i < text.size() && name.size() < kLongestEntity && is_ascii_alnum(text[i])) {
        name += static_cast<char>(text[i++]);
    }
    if (i < text.size() && text[i] == ';') {
        if (const auto* entity = find_entity(name)) {
            out += entity->code_point;
            return i + 1;
        }
    }
    for (; name.size() > 1; name.pop_back()) {
        const auto* entity = find_entity(name);
        if (entity != nullptr && entity->semicolon_optional) {
            out += entity->code_point;
            return begin + 1 + name.size();
        }
    }
    return std::nullopt;
}

struct Ligature {
    char32_t from;
    const char32_t* to;
};
constexpr Ligature kLigatures[] = {
    {0x0132, U"IJ"},      {0x0133, U"ij"}, {0x0149, U"\u02BCn"}, {0x01C4, U"D\u017D"}, {0x01C5, U"D\u017E"},
    {0x01C6, U"d\u017E"}, {0x01C7, U"LJ"}, {0x01C8, U"Lj"},      {0x01C9, U"lj"},      {0x01CA, U"NJ"},
    {0x01CB, U"Nj"},      {0x01CC, U"nj"}, {0x01F1, U"DZ"},      {0x01F2, U"Dz"},      {0x01F3, U"dz"},
    {0xFB00, U"ff"},      {0xFB01, U"fi"}, {0xFB02, U"fl"},      {0xFB03, U"ffi"},     {0xFB04, U"ffl"},
    {0xFB05, U"\u017Ft"}, {0xFB06, U"st"},
};

bool is_removed_control(char32_t c) {
    return c < 0x09 || c == 0x0B || (c >= 0x0E && c < 0x20) || c == 0x7F || c == 0xFEFF ||
           (c >= 0x206A && c <= 0x206F) || (c >= 0xFFF9 && c <= 0xFFFC);
}

void append_plain(std::u32string& out, char32_t c) {
    if (c < 0x80 || is_removed_control(c)) {
        if (!is_removed_control(c)) out += c;
        return;
    }
    if ((c >= 0x2018 && c <= 0x201B) || c == 0x02BC) {
        out += U'\'';
    } else if (c >= 0x201C && c <= 0x201F) {
        out += U'"';
    } else if (const auto* row = std::find_if(std::begin(kLigatures), std::end(kLigatures),
                                              [&](const Ligature& l) { return l.from == c; });
               row != std::end(kLigatures)) {
        for (const char32_t* part = row->to; *part != 0; ++part) append_plain(out, *part);
    } else {
        out += unicode::ordinary_width(c);
    }
}

// Every run of white space becomes one space.
std::u32string collapse_space(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (!unicode::is_space(text[i])) {
            out += text[i];
        } else if (i == 0 || !unicode::is_space(text[i - 1])) {
            out += U' ';
        }
    }
    return out;
}

// Python's str.lower: as code point by code point, but a capital sigma that ends a word becomes a final sigma.
std::u32string lower_like_python(std::u32string_view text) {
    constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;
    std::u32string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        const bool after_letter = i > 0 && unicode::is_letter(text[i - 1]);
        const bool before_letter = i + 1 < text.size() && unicode::is_letter(text[i + 1]);
        if (text[i] == kCapitalSigma && after_letter && !before_letter) {
            out += kFinalSigma;
        } else {
            unicode::append_lower(out, text[i]);
        }
    }
    return out;
}

}  // namespace

std::u32string unescape_html(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
        if (text[i] == '&' && i + 1 < text.size()) {
            const auto end = text[i + 1] == '#' ? read_numeric(text, i, out) : read_named(text, i, out);
            if (end) {
                i = *end;
                continue;
            }
        }
        out += text[i++];
    }
    return out;
}

std::u32string clean_like_transformers(std::u32string_view text) {
    return unicode::lower(collapse_space(unicode::compose(text)));
}

std::u32string clean_like_original(std::u32string_view text) {
    std::u32string plain;
    plain.reserve(text.size());
    for (const char32_t c : text) append_plain(plain, c);
    return lower_like_python(collapse_space(unescape_html(unescape_html(unicode::compose(plain)))));
}

}  // namespace sam3
