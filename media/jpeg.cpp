#include "media/codecs.h"
#include "media/exif.h"
#include "media/image_io.h"
#include "util/error.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>  // after cstdio, which it needs

namespace sam3 {
namespace {

constexpr int kMaxScans = 500;  // progressive files with thousands of scans exist only to burn time

// libjpeg reports errors by a call that must not return: it jumps back to the frame that set `jump`. Between setjmp and
// longjmp that frame has no object with a destructor; what outlives the jump is in these structs.
struct ErrorManager {
    jpeg_error_mgr base{};
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX] = {};
    bool truncated = false;
};

[[noreturn]] void on_error(j_common_ptr info) {
    auto* manager = reinterpret_cast<ErrorManager*>(info->err);
    manager->base.format_message(info, manager->message);
    std::longjmp(manager->jump, 1);
}

// Warnings are tolerated as Pillow does, except that a file which ends early is reported.
void on_message(j_common_ptr info, int level) {
    auto* manager = reinterpret_cast<ErrorManager*>(info->err);
    if (level >= 0) return;
    manager->base.num_warnings++;
    char text[JMSG_LENGTH_MAX];
    manager->base.format_message(info, text);
    if (std::strstr(text, "Premature end") != nullptr) manager->truncated = true;
}

void on_progress(j_common_ptr info) {
    if (!info->is_decompressor) return;
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
    auto* manager = reinterpret_cast<ErrorManager*>(info->err);
    std::snprintf(manager->message, sizeof(manager->message), "more than %d scans", kMaxScans);
    std::longjmp(manager->jump, 1);
}

void install(ErrorManager& manager) {
    jpeg_std_error(&manager.base);
    manager.base.error_exit = on_error;
    manager.base.emit_message = on_message;
}

struct Decoder {
    jpeg_decompress_struct info{};
    ErrorManager errors;
    jpeg_progress_mgr progress{};
    bool created = false;

    ~Decoder() {
        if (created) jpeg_destroy_decompress(&info);
    }

    bool read_header(std::span<const uint8_t> bytes) {
        install(errors);
        info.err = &errors.base;
        if (setjmp(errors.jump) != 0) return false;
        jpeg_create_decompress(&info);
        created = true;
        progress.progress_monitor = on_progress;
        info.progress = &progress;
        jpeg_mem_src(&info, bytes.data(), bytes.size());
        jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);
        jpeg_read_header(&info, TRUE);
        const bool four = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
        info.out_color_space = four ? JCS_CMYK : JCS_RGB;
        jpeg_calc_output_dimensions(&info);
        return true;
    }

    // `pixels` has room for output_width * output_components bytes a row.
    bool read_pixels(uint8_t* pixels) {
        if (setjmp(errors.jump) != 0) return false;
        jpeg_start_decompress(&info);
        const size_t stride = static_cast<size_t>(info.output_width) * static_cast<size_t>(info.output_components);
        while (info.output_scanline < info.output_height) {
            JSAMPROW row = pixels + info.output_scanline * stride;
            jpeg_read_scanlines(&info, &row, 1);
        }
        jpeg_finish_decompress(&info);
        return true;
    }
};

int orientation_of(const jpeg_decompress_struct& info) {
    for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr; marker = marker->next) {
        const std::span<const uint8_t> data(marker->data, marker->data_length);
        if (data.size() > 6 && std::memcmp(data.data(), "Exif", 4) == 0) return exif_orientation(data);
    }
    return 1;
}

uint8_t multiply(int a, int b) {  // a * b / 255, rounded
    const int product = a * b + 128;
    return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

// Four-component files hold inverted ink, Adobe's convention: a sample is what the ink leaves of white.
Image from_inverted_cmyk(const Image& inks) {
    Image rgb(inks.width, inks.height, 3);
    for (size_t i = 0, o = 0; i < inks.pixels.size(); i += 4, o += 3) {
        const int light = inks.pixels[i + 3];
        for (size_t c = 0; c < 3; ++c)
            rgb.pixels[o + c] = static_cast<uint8_t>(light - multiply(255 - inks.pixels[i + c], light));
    }
    return rgb;
}

struct Encoder {
    jpeg_compress_struct info{};
    ErrorManager errors;
    unsigned char* buffer = nullptr;
    unsigned long size = 0;  // libjpeg's type
    bool created = false;

    ~Encoder() {
        if (created) jpeg_destroy_compress(&info);
        std::free(buffer);
    }

    bool write(const Image& image, int quality) {
        install(errors);
        info.err = &errors.base;
        if (setjmp(errors.jump) != 0) return false;
        jpeg_create_compress(&info);
        created = true;
        jpeg_mem_dest(&info, &buffer, &size);
        info.image_width = static_cast<JDIMENSION>(image.width);
        info.image_height = static_cast<JDIMENSION>(image.height);
        info.input_components = image.channels;
        info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        jpeg_set_defaults(&info);
        jpeg_set_quality(&info, quality, TRUE);
        info.optimize_coding = TRUE;
        jpeg_start_compress(&info, TRUE);
        while (info.next_scanline < info.image_height) {
            JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));
            jpeg_write_scanlines(&info, &row, 1);
        }
        jpeg_finish_compress(&info);
        return true;
    }
};

}  // namespace

Decoded decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels) {
    Decoder decoder;
    if (!decoder.read_header(bytes))
        fail(name, ": expected a JPEG image, but its header cannot be read (", decoder.errors.message,
             "); the file is damaged or incomplete");
    const jpeg_decompress_struct& info = decoder.info;
    check_image_size(info.output_width, info.output_height, name, max_pixels);
    if (info.output_components != 3 && info.output_components != 4)
        fail(name, ": expected a JPEG image of 3 or 4 components, found ", info.output_components);
    Decoded out;
    out.orientation = orientation_of(info);
    out.image =
        Image(static_cast<int>(info.output_width), static_cast<int>(info.output_height), info.output_components);
    if (!decoder.read_pixels(out.image.pixels.data()))
        fail(name, ": the JPEG data cannot be decoded (", decoder.errors.message, "); the file is damaged");
    if (decoder.errors.truncated)
        fail(name, ": the JPEG data ends too early (", bytes.size(), " bytes); the file is truncated, copy it again");
    if (out.image.channels == 4) out.image = from_inverted_cmyk(out.image);
    return out;
}

std::vector<uint8_t> encode_jpeg(const Image& image, int quality) {
    check_image(image);
    if (image.channels == 4)
        fail("expected a grey or RGB image to write as JPEG, found 4 channels: write a PNG instead");
    if (quality < 1 || quality > 100) fail("expected a JPEG quality from 1 to 100, found ", quality);
    Encoder encoder;
    if (!encoder.write(image, quality)) fail("the image cannot be written as JPEG: ", encoder.errors.message);
    return {encoder.buffer, encoder.buffer + encoder.size};
}

}  // namespace sam3
