#pragma once

#include <string>
#include <string_view>

namespace sam3::unicode {

// Any bytes are accepted: each broken sequence becomes one U+FFFD, as Python's decode("utf-8", "replace") does it.
std::u32string from_utf8(std::string_view bytes);
void append_utf8(std::string& out, char32_t c);
std::string to_utf8(std::u32string_view text);

}  // namespace sam3::unicode
