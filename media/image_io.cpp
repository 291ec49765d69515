#include "media/image_io.h"

#include "media/codecs.h"
#include "media/exif.h"
#include "util/atomic_file.h"
#include "util/error.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSniffBytes = 4096;

enum class ImageFormat { unknown, jpeg, png, webp };

std::string_view text_of(std::span<const uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool has(std::string_view text, size_t offset, std::string_view what) {
    return text.size() >= offset && text.substr(offset).starts_with(what);
}

ImageFormat format_of(std::string_view text) {
    if (has(text, 0, "\xFF\xD8\xFF")) return ImageFormat::jpeg;
    if (has(text, 0, "\x89PNG\r\n\x1A\n")) return ImageFormat::png;
    if (has(text, 0, "RIFF") && has(text, 8, "WEBP")) return ImageFormat::webp;
    return ImageFormat::unknown;
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

// ISO media files carry a brand after "ftyp" that tells pictures from films.
std::string describe_iso_media(std::string_view text) {
    const std::string brand(text.substr(8, 4));
    if (brand == "avif" || brand == "avis") return "an AVIF image";
    if (brand.starts_with("hei") || brand.starts_with("hev") || brand == "mif1" || brand == "msf1")
        return "a HEIC image";
    return brand == "qt  " ? "a QuickTime video" : "an MP4 video";
}

std::string describe_text(std::string_view text) {
    const std::string start = lower(text.substr(0, 512));
    if (start.find("<!doctype html") != std::string::npos || start.find("<html") != std::string::npos)
        return "an HTML page";
    if (start.starts_with("version https://git-lfs")) return "a Git LFS pointer (run `git lfs pull`)";
    if (start.find("<svg") != std::string::npos) return "an SVG drawing";
    if (start.starts_with("<?xml")) return "an XML file";
    if (start.starts_with("{") || start.starts_with("[")) return "a JSON file";
    return "a text file";
}

bool looks_like_text(std::string_view text) {
    const std::string_view start = text.substr(0, 512);
    return std::all_of(start.begin(), start.end(), [](char c) {
        const auto code = static_cast<unsigned char>(c);
        return code >= 32 ? code != 127 : code == '\n' || code == '\r' || code == '\t' || code == '\f';
    });
}

struct Signature {
    size_t offset;
    std::string_view bytes;
    std::string_view meaning;
};

constexpr Signature kSignatures[] = {
    {0, "\xFF\xD8\xFF", "a JPEG image"},
    {0, "\x89PNG\r\n\x1A\n", "a PNG image"},
    {0, "GIF8", "a GIF image"},
    {0, "BM", "a BMP image"},
    {0, {"II*\0", 4}, "a TIFF image"},
    {0, {"MM\0*", 4}, "a TIFF image"},
    {0, {"\xFF\x0A", 2}, "a JPEG XL image"},
    {0, "\x1A\x45\xDF\xA3", "a Matroska or WebM video"},
    {0, {"\0\0\x01\xBA", 4}, "an MPEG video"},
    {0, "FLV", "an FLV video"},
    {0, "OggS", "an Ogg file"},
    {0, "%PDF", "a PDF document"},
    {0, "PK\x03\x04", "a ZIP archive"},
    {0, "\x1F\x8B", "a gzip archive"},
    {0, "GGUF", "a GGUF model"},
};

std::ifstream open_file(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(path, ": expected a file, found nothing there; check the path");
    if (fs::is_directory(status)) fail(path, ": expected a file, found a folder");
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(path, ": the file cannot be opened; check its permissions");
    return file;
}

std::vector<uint8_t> read_up_to(std::ifstream& file, const std::string& path, size_t limit) {
    constexpr size_t kLargestBlock = size_t{1} << 20;
    std::vector<uint8_t> bytes;
    for (size_t block = size_t{1} << 16; bytes.size() < limit && file; block = std::min(2 * block, kLargestBlock)) {
        const size_t before = bytes.size();
        const size_t wanted = std::min(block, limit - before);
        bytes.resize(before + wanted);
        file.read(reinterpret_cast<char*>(bytes.data() + before), static_cast<std::streamsize>(wanted));
        bytes.resize(before + static_cast<size_t>(file.gcount()));
    }
    if (file.bad()) fail(path, ": reading the file failed after ", bytes.size(), " bytes");
    return bytes;
}

}  // namespace

void check_image_size(uint64_t width, uint64_t height, const std::string& name, int64_t max_pixels) {
    if (width == 0 || height == 0) fail(name, ": the image has no pixels (", width, " x ", height, ")");
    const auto side = static_cast<uint64_t>(kMaxImageSide);
    if (width > side || height > side)
        fail(name, ": the image is ", width, " x ", height, " pixels, but at most ", kMaxImageSide,
             " pixels a side are accepted; shrink it first");
    if (width * height > static_cast<uint64_t>(std::max(max_pixels, int64_t{0})))
        fail(name, ": the image has ", width, " x ", height, " = ", width * height, " pixels, but at most ", max_pixels,
             " are accepted; shrink it first");
}

std::string describe_content(std::span<const uint8_t> bytes) {
    const std::string_view text = text_of(bytes);
    if (text.empty()) return "an empty file";
    if (has(text, 4, "ftyp") && text.size() >= 12) return describe_iso_media(text);
    if (has(text, 0, "RIFF") && has(text, 8, "WEBP")) return "a WebP image";
    if (has(text, 0, "RIFF") && has(text, 8, "AVI ")) return "an AVI video";
    for (const Signature& signature : kSignatures)
        if (has(text, signature.offset, signature.bytes)) return std::string(signature.meaning);
    return looks_like_text(text) ? describe_text(text) : "data of an unknown kind";
}

Image decode_image(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels) {
    Decoded decoded;
    switch (format_of(text_of(bytes))) {
        case ImageFormat::jpeg: decoded = decode_jpeg(bytes, name, max_pixels); break;
        case ImageFormat::png: decoded = decode_png(bytes, name, max_pixels); break;
        case ImageFormat::webp: decoded = decode_webp(bytes, name, max_pixels); break;
        case ImageFormat::unknown: fail(name, ": expected a JPEG, PNG or WebP image, found ", describe_content(bytes));
    }
    return apply_orientation(std::move(decoded.image), decoded.orientation);
}

Image read_image(const std::string& path) {
    std::ifstream file = open_file(path);
    std::vector<uint8_t> start = read_up_to(file, path, kSniffBytes);
    if (format_of(text_of(start)) != ImageFormat::unknown) {  // a film or an archive need not be read to the end
        const std::vector<uint8_t> rest = read_up_to(file, path, kMaxFileBytes);
        start.insert(start.end(), rest.begin(), rest.end());
    }
    return decode_image(start, path);
}

std::vector<uint8_t> read_file(const std::string& path) {
    std::ifstream file = open_file(path);
    std::vector<uint8_t> bytes = read_up_to(file, path, kMaxFileBytes);
    if (bytes.empty()) fail(path, ": expected a file with content, found an empty file");
    if (file.peek() != std::ifstream::traits_type::eof())
        fail(path, ": expected a file of at most ", kMaxFileBytes >> 20, " MiB, found a larger one");
    return bytes;
}

void write_file(const std::string& path, std::span<const uint8_t> bytes) { write_file_atomically(path, bytes); }

void write_image(const std::string& path, const Image& image, int jpeg_quality) {
    const std::string ending = lower(fs::path(path).extension().string());
    if (ending == ".png")
        write_file(path, encode_png(image));
    else if (ending == ".jpg" || ending == ".jpeg")
        write_file(path, encode_jpeg(image, jpeg_quality));
    else
        fail(path, ": expected a name that ends in .png, .jpg or .jpeg, found ",
             ending.empty() ? "no ending" : "\"" + ending + "\"");
}

}  // namespace sam3
