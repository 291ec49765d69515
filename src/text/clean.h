#pragma once

#include <string>
#include <string_view>

// Text cleaning before the split into words.
namespace sam3 {

// What Hugging Face's normaliser does: NFC, every run of white space one space, lower case code point by code point.
std::u32string clean_like_transformers(std::u32string_view text);

// What Meta's tokenizer does: plain quotes, ligatures and widths, no control characters and NFC (the part of ftfy that
// a phrase can meet; ftfy's repair of wrongly decoded text is left out), HTML entities twice, white space, lower case
// as Python has it.
std::u32string clean_like_original(std::u32string_view text);

// Numeric references and the entities of HTML 4, once, as Python's html.unescape reads them.
std::u32string unescape_html(std::u32string_view text);

}  // namespace sam3
