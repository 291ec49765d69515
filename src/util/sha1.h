#pragma once

#include <string>
#include <string_view>

namespace sam3 {

// SHA-1 (FIPS 180-4) as 40 hexadecimal digits. For names and identity only: it protects against nobody.
std::string sha1_hex(std::string_view text);

}  // namespace sam3
