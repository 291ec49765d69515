#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sam3 {

std::string base64_encode(std::span<const uint8_t> bytes);

// RFC 4648; line breaks are skipped. Fails with a sentence for any other character.
std::vector<uint8_t> base64_decode(std::string_view text);

}  // namespace sam3
