#pragma once

#include "image/image.h"

#include <span>
#include <string>
#include <vector>

// Image files to pixels and back. A failure is an Error with a sentence that names the file, what was expected and
// found.
namespace sam3 {

// Larger images are refused before memory is taken for them.
inline constexpr int kMaxImageSide = 32768;
inline constexpr int64_t kMaxImagePixels = int64_t{256} << 20;
inline constexpr size_t kMaxFileBytes = size_t{1} << 30;

// JPEG, PNG or WebP, told by content; always RGB. The EXIF orientation is applied, alpha is dropped, 16-bit samples
// keep their upper 8 bits, CMYK is converted. JPEG pixels equal those of Pillow.
Image read_image(const std::string& path);
Image decode_image(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels = kMaxImagePixels);

// A label map: the indices of a PNG file with a palette, or the values of a grey one of 8 or 16 bits. Other files are
// refused.
struct LabelMap {
    int width = 0, height = 0;
    std::vector<uint16_t> labels;  // rows from the top
};
LabelMap decode_png_labels(std::span<const uint8_t> bytes, const std::string& name);

// What the first bytes look like, in words: "a JPEG image", "an HTML page", "an MP4 video".
std::string describe_content(std::span<const uint8_t> bytes);

std::vector<uint8_t> encode_png(const Image& image);  // grey, RGB or RGBA
// 16-bit grey; `samples` has width * height values.
std::vector<uint8_t> encode_png_grey16(std::span<const uint16_t> samples, int width, int height);
// `image` has one channel of indices into `palette`, which has 1 to 256 RGB triples: label maps.
std::vector<uint8_t> encode_png_palette(const Image& image, std::span<const uint8_t> palette);
std::vector<uint8_t> encode_jpeg(const Image& image, int quality = 92);  // grey or RGB, quality 1 to 100

// PNG or JPEG by the ending of `path`.
void write_image(const std::string& path, const Image& image, int jpeg_quality = 92);

// Fails for folders, for missing and empty files and for files above kMaxFileBytes.
std::vector<uint8_t> read_file(const std::string& path);
// `path` is either the old file or the whole new one (util/atomic_file.h).
void write_file(const std::string& path, std::span<const uint8_t> bytes);

}  // namespace sam3
