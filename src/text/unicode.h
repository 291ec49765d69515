#pragma once

#include "util/utf8.h"

#include <string>
#include <string_view>

// The parts of Unicode that a tokenizer needs, without a library for it.
namespace sam3::unicode {

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
