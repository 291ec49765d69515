#include "formats/format_rows.h"
#include "mask/distance.h"
#include "mask/geometry.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>
#include <functional>

// Formats that are pictures: masks, overlays, cut-outs, mattes.
namespace sam3 {

namespace {

std::string numbered(const std::string& stem, const char* what, int number) {
    return str(stem, "_", what, "_", number, ".png");
}

ItemFiles one_an_object(const Segmentation& record, const std::string& stem, const char* what,
                        const std::function<Image(const Segmentation::Instance&)>& draw) {
    ItemFiles files;
    const bool by_id = has_distinct_ids(record);  // else by place, so that no file takes the place of another
    for (size_t i = 0; i < record.instances.size(); ++i)
        files.push_back({numbered(stem, what, by_id ? instance_id(record, i) : static_cast<int>(i)),
                         encode_png(draw(record.instances[i]))});
    return files;
}

Image cut_out(const Image& pixels, const Mask& mask) {
    const PixelBox box = mask_bounds(mask);
    Image out(std::max(box.x1 - box.x0, 1), std::max(box.y1 - box.y0, 1), 4);  // an empty mask: one clear pixel
    for (int y = box.y0; y < box.y1; ++y)
        for (int x = box.x0; x < box.x1; ++x) {
            const uint8_t* from = pixels.at(x, y);
            uint8_t* to = out.at(x - box.x0, y - box.y0);
            std::copy_n(from, 3, to);
            to[3] = mask.at(x, y) != 0 ? 255 : 0;
        }
    return out;
}

// Opacity rises from 0 to 1 over `soft_edge` pixels on each side of the outline, by the distance to it.
Image soft_matte(const Mask& mask, float soft_edge) {
    if (!(soft_edge > 0) || mask_area(mask) == 0) return to_grey(mask);
    Mask outside(mask.width, mask.height);
    std::transform(mask.data.begin(), mask.data.end(), outside.data.begin(),
                   [](uint8_t inside) { return static_cast<uint8_t>(inside == 0); });
    const std::vector<int64_t> to_inside = squared_distances(mask), to_outside = squared_distances(outside);
    Image out(mask.width, mask.height, 1);
    for (size_t i = 0; i < mask.data.size(); ++i) {
        const bool inside = mask.data[i] != 0;
        // Between the centres of two neighbours lies the outline, half a pixel away from each.
        const float distance = std::sqrt(static_cast<float>(inside ? to_outside[i] : to_inside[i])) - 0.5F;
        const float depth = std::clamp((inside ? distance : -distance) / soft_edge, -1.0F, 1.0F);
        out.pixels[i] = static_cast<uint8_t>((depth + 1) * 127.5F + 0.5F);
    }
    return out;
}

}  // namespace

ItemFiles png_item(const Segmentation& record, const std::string& stem, const Image*, const WriteOptions&) {
    ItemFiles files =
        one_an_object(record, stem, "mask", [](const Segmentation::Instance& i) { return to_grey(i.mask); });
    for (size_t i = 0; i < record.prompts.size(); ++i)
        if (!record.prompts[i].semantic.data.empty())
            files.push_back(
                {numbered(stem, "semantic", static_cast<int>(i)), encode_png(to_grey(record.prompts[i].semantic))});
    return files;
}

ItemFiles overlay_item(const Segmentation& record, const std::string& stem, const Image* pixels, const WriteOptions&) {
    return {{stem + "_overlay.png", encode_png(draw_overlay(*pixels, record))}};
}

ItemFiles overlay_jpeg_item(const Segmentation& record, const std::string& stem, const Image* pixels,
                            const WriteOptions& options) {
    return {{stem + "_overlay.jpg", encode_jpeg(draw_overlay(*pixels, record), options.jpeg_quality)}};
}

ItemFiles cutout_item(const Segmentation& record, const std::string& stem, const Image* pixels, const WriteOptions&) {
    return one_an_object(record, stem, "cutout",
                         [&](const Segmentation::Instance& i) { return cut_out(*pixels, i.mask); });
}

ItemFiles matte_item(const Segmentation& record, const std::string& stem, const Image*, const WriteOptions& options) {
    return one_an_object(record, stem, "matte",
                         [&](const Segmentation::Instance& i) { return soft_matte(i.mask, options.soft_edge); });
}

}  // namespace sam3
