#include "media/codecs.h"
#include "media/exif.h"
#include "media/image_io.h"
#include "util/error.h"

#include <spng.h>

#include <cstdlib>
#include <memory>

namespace sam3 {
namespace {

constexpr size_t kMaxChunkBytes = size_t{64} << 20;

struct Context {
    spng_ctx* context = nullptr;

    explicit Context(int flags) : context(spng_ctx_new(flags)) {
        if (context == nullptr) fail("out of memory while preparing a PNG image");
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { spng_ctx_free(context); }
};

[[noreturn]] void damaged(const std::string& name, int code, size_t bytes) {
    const bool early = code == SPNG_IO_EOF;
    fail(name, ": the PNG data ", early ? "ends too early" : "cannot be decoded", " (", spng_strerror(code), ", ",
         bytes, " bytes); the file is ", early ? "truncated, copy it again" : "damaged");
}

spng_ihdr read_header(spng_ctx* context, std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels) {
    spng_set_chunk_limits(context, kMaxChunkBytes, kMaxChunkBytes);
    spng_ihdr header{};
    if (const int code = spng_set_png_buffer(context, bytes.data(), bytes.size())) damaged(name, code, bytes.size());
    if (const int code = spng_get_ihdr(context, &header)) damaged(name, code, bytes.size());
    check_image_size(header.width, header.height, name, max_pixels);
    return header;
}

int orientation_of(spng_ctx* context) {
    spng_exif exif{};
    if (spng_get_exif(context, &exif) != 0) return 1;
    return exif_orientation({reinterpret_cast<const uint8_t*>(exif.data), exif.length});
}

struct PngSource {
    const void* data;
    size_t row_bytes;
    int width, height, bit_depth, color_type;
    std::span<const uint8_t> palette;
};

void check_step(int code, const char* step) {
    if (code != 0 && code != SPNG_EOI)
        fail("the image cannot be written as PNG (", step, ": ", spng_strerror(code), ")");
}

// A picture of 800 x 534 pixels takes 22 ms with one filter and little effort, 94 ms with libspng's defaults, for 15 %
// of its size: more than the network of the model in the box. Masks have flat areas, which filters only disturb:
// without, they take 1.9 instead of 8.3 ms and three quarters of the bytes.
void set_effort(spng_ctx* context, int color_type) {
    const bool colors = color_type == SPNG_COLOR_TYPE_TRUECOLOR || color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
    check_step(spng_set_option(context, SPNG_FILTER_CHOICE, colors ? SPNG_FILTER_CHOICE_PAETH : SPNG_DISABLE_FILTERING),
               "filter");
    if (colors) check_step(spng_set_option(context, SPNG_IMG_COMPRESSION_LEVEL, 1), "effort");
}

std::vector<uint8_t> encode(const PngSource& source) {
    Context png(SPNG_CTX_ENCODER);
    check_step(spng_set_option(png.context, SPNG_ENCODE_TO_BUFFER, 1), "buffer");
    spng_ihdr header{};
    header.width = static_cast<uint32_t>(source.width);
    header.height = static_cast<uint32_t>(source.height);
    header.bit_depth = static_cast<uint8_t>(source.bit_depth);
    header.color_type = static_cast<uint8_t>(source.color_type);
    check_step(spng_set_ihdr(png.context, &header), "header");
    set_effort(png.context, source.color_type);
    if (source.color_type == SPNG_COLOR_TYPE_INDEXED) {
        spng_plte palette{};
        palette.n_entries = static_cast<uint32_t>(source.palette.size() / 3);
        for (uint32_t i = 0; i < palette.n_entries; ++i)
            palette.entries[i] = {source.palette[i * 3], source.palette[i * 3 + 1], source.palette[i * 3 + 2], 255};
        check_step(spng_set_plte(png.context, &palette), "palette");
    }
    const size_t bytes = source.row_bytes * static_cast<size_t>(source.height);
    check_step(spng_encode_image(png.context, source.data, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), "pixels");
    size_t size = 0;
    int code = 0;
    const std::unique_ptr<void, decltype(&std::free)> buffer(spng_get_png_buffer(png.context, &size, &code), std::free);
    check_step(code, "buffer");
    const auto* from = static_cast<const uint8_t*>(buffer.get());
    return {from, from + size};
}

}  // namespace

Decoded decode_png(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels) {
    Context png(0);
    const spng_ihdr header = read_header(png.context, bytes, name, max_pixels);
    Decoded out;
    out.image = Image(static_cast<int>(header.width), static_cast<int>(header.height), 3);
    if (const int code =
            spng_decode_image(png.context, out.image.pixels.data(), out.image.pixels.size(), SPNG_FMT_RGB8, 0))
        damaged(name, code, bytes.size());
    spng_decode_chunks(png.context);  // EXIF may follow the pixels; damage there does not matter
    out.orientation = orientation_of(png.context);
    return out;
}

LabelMap decode_png_labels(std::span<const uint8_t> bytes, const std::string& name) {
    if (describe_content(bytes) != "a PNG image")
        fail(name, ": expected a PNG label map, found ", describe_content(bytes));
    Context png(0);
    const spng_ihdr header = read_header(png.context, bytes, name, kMaxImagePixels);
    if (header.color_type != SPNG_COLOR_TYPE_INDEXED && header.color_type != SPNG_COLOR_TYPE_GRAYSCALE)
        fail(name, ": expected a label map, a PNG file with a palette or in grey, found a picture in colour");
    LabelMap map{static_cast<int>(header.width), static_cast<int>(header.height), {}};
    std::vector<uint8_t> raw;
    size_t size = 0;
    spng_decoded_image_size(png.context, SPNG_FMT_RAW, &size);
    raw.resize(size);
    if (const int code = spng_decode_image(png.context, raw.data(), size, SPNG_FMT_RAW, 0))
        damaged(name, code, bytes.size());
    const size_t row_bytes = size / header.height;
    const unsigned depth = header.bit_depth;
    map.labels.reserve(size_t{header.width} * header.height);
    for (uint32_t y = 0; y < header.height; ++y) {
        const uint8_t* row = raw.data() + y * row_bytes;
        for (uint32_t x = 0; x < header.width; ++x) {
            if (depth == 16) {  // big-endian, as in the file
                map.labels.push_back(static_cast<uint16_t>(row[2 * x] << 8 | row[2 * x + 1]));
            } else {
                const unsigned shift = 8 - depth - x * depth % 8;
                map.labels.push_back(static_cast<uint16_t>(row[x * depth / 8] >> shift & ((1U << depth) - 1)));
            }
        }
    }
    return map;
}

std::vector<uint8_t> encode_png(const Image& image) {
    check_image(image);
    const int type = image.channels == 1   ? SPNG_COLOR_TYPE_GRAYSCALE
                     : image.channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR
                                           : SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
    return encode({image.pixels.data(), image.row_bytes(), image.width, image.height, 8, type, {}});
}

std::vector<uint8_t> encode_png_grey16(std::span<const uint16_t> samples, int width, int height) {
    if (width < 1 || height < 1 || samples.size() != static_cast<size_t>(width) * static_cast<size_t>(height))
        fail("expected ", width, " x ", height, " samples to write as a 16-bit PNG, found ", samples.size());
    const size_t row_bytes = static_cast<size_t>(width) * 2;
    return encode({samples.data(), row_bytes, width, height, 16, SPNG_COLOR_TYPE_GRAYSCALE, {}});
}

std::vector<uint8_t> encode_png_palette(const Image& image, std::span<const uint8_t> palette) {
    check_image(image);
    if (image.channels != 1) fail("expected one channel of palette indices, found ", image.channels);
    if (palette.empty() || palette.size() % 3 != 0 || palette.size() > 256 * 3)
        fail("expected a palette of 1 to 256 RGB triples, found ", palette.size(), " bytes");
    for (const uint8_t index : image.pixels)
        if (index >= palette.size() / 3)
            fail("expected palette indices below ", palette.size() / 3, ", found ", static_cast<int>(index));
    return encode(
        {image.pixels.data(), image.row_bytes(), image.width, image.height, 8, SPNG_COLOR_TYPE_INDEXED, palette});
}

}  // namespace sam3
