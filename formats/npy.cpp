#include "formats/npy.h"

#include "media/image_io.h"
#include "util/error.h"

#include <bit>
#include <cstring>
#include <vector>

namespace sam3 {

static_assert(std::endian::native == std::endian::little, "the files hold little-endian numbers");

void write_npy(const std::string& path, std::span<const float> values, std::span<const int64_t> shape) {
    std::string dims;
    uint64_t count = 1;
    for (const int64_t d : shape) {
        dims += std::to_string(d) + ",";
        count *= static_cast<uint64_t>(d);
    }
    if (count != values.size()) fail(path, ": ", values.size(), " values do not fill the shape (", dims, ")");
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + dims + "), }";
    constexpr size_t kPreamble = 10;  // magic, version, header length
    header.append(63 - (kPreamble + header.size()) % 64, ' ');
    header += '\n';

    std::vector<uint8_t> bytes(kPreamble + header.size() + values.size_bytes());
    std::memcpy(bytes.data(), "\x93NUMPY\x01\x00", 8);
    bytes[8] = static_cast<uint8_t>(header.size() & 0xFF);
    bytes[9] = static_cast<uint8_t>(header.size() >> 8);
    std::memcpy(bytes.data() + kPreamble, header.data(), header.size());
    if (!values.empty()) std::memcpy(bytes.data() + kPreamble + header.size(), values.data(), values.size_bytes());
    write_file(path, bytes);
}

}  // namespace sam3
