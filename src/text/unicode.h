#pragma once

#include <string>
#include <string_view>

// The parts of Unicode that a tokenizer needs, without a library for it.
namespace sam3::unicode {

// Any bytes are accepted: each broken sequence becomes one U+FFFD, as Python's decode("utf-8", "replace") does it.
std::u32string from_utf8(std::string_view bytes);
void append_utf8(std::string& out, char32_t c);
std::string to_utf8(std::u32string_view text);

bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_space(char32_t c);  // White_Space
int combining_class(char32_t c);

// One code point for one, but for U+0130, which becomes two.
void append_lower(std::u32string& out, char32_t c);
std::u32string lower(std::u32string_view text);

// Canonical composition (NFC).
std::u32string compose(std::u32string_view text);

// The ordinary character of a half-width or full-width form; c itself for any other.
char32_t ordinary_width(char32_t c);

}  // namespace sam3::unicode
