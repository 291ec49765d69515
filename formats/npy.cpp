#include "formats/npy.h"

#include "media/image_io.h"
#include "util/error.h"

#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

namespace sam3 {

static_assert(std::endian::native == std::endian::little, "the files hold little-endian numbers");

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// What follows 'key': in the header's Python dictionary.
std::string_view after_key(std::string_view header, std::string_view key, const std::string& name) {
    const size_t at = header.find(key);
    if (at == std::string_view::npos) fail(name, ": the .npy header has no ", key);
    header.remove_prefix(at + key.size());
    const size_t value = header.find_first_not_of(" :'\"");
    return value == std::string_view::npos ? std::string_view() : header.substr(value);
}

std::vector<int64_t> parse_shape(std::string_view text, const std::string& name) {
    std::vector<int64_t> shape;
    if (text.empty() || text[0] != '(') fail(name, ": the .npy header has no shape");
    text.remove_prefix(1);
    int64_t number = -1;
    for (const char c : text) {
        if (c >= '0' && c <= '9') {
            number = (number < 0 ? 0 : number) * 10 + (c - '0');
            if (number > (int64_t{1} << 32)) fail(name, ": a dimension in the .npy header is too large");
        } else if (c == ',' || c == ')') {
            if (number >= 0) shape.push_back(number);
            number = -1;
            if (c == ')') return shape;
        } else if (c != ' ') {
            break;
        }
        if (shape.size() > 8) break;
    }
    fail(name, ": the shape in the .npy header is not a list of numbers");
}

}  // namespace

bool is_npy(std::span<const uint8_t> bytes) {
    return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

NpyArray decode_npy(std::span<const uint8_t> bytes, const std::string& name) {
    constexpr size_t kMostValues = size_t{1} << 28;
    if (!is_npy(bytes) || bytes.size() < 12) fail(name, ": expected a NumPy .npy file");
    const bool wide = bytes[6] >= 2;  // version 2 has a longer length field
    size_t length = bytes[8] + (size_t{bytes[9]} << 8);
    if (wide) length += (size_t{bytes[10]} << 16) + (size_t{bytes[11]} << 24);
    const size_t start = (wide ? 12 : 10) + length;
    if (start > bytes.size()) fail(name, ": the .npy header is cut off");
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + (wide ? 12 : 10), length);
    if (!after_key(header, "'descr'", name).starts_with("<f4"))
        fail(name, ": expected float32 values ('<f4') in the .npy file: save it with .astype('float32')");
    if (!after_key(header, "'fortran_order'", name).starts_with("False"))
        fail(name, ": expected C order in the .npy file: save it with numpy.ascontiguousarray");
    NpyArray array;
    array.shape = parse_shape(after_key(header, "'shape'", name), name);
    size_t count = 1;
    for (const int64_t d : array.shape) {
        if (d != 0 && count > kMostValues / static_cast<size_t>(d)) fail(name, ": the array is larger than 1 GB");
        count *= static_cast<size_t>(d);
    }
    if ((bytes.size() - start) / sizeof(float) < count) fail(name, ": the .npy file is shorter than its header says");
    array.values.resize(count);
    if (count > 0) std::memcpy(array.values.data(), bytes.data() + start, count * sizeof(float));
    return array;
}

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
