#include "formats/tracks.h"

#include "image/draw.h"
#include "mask/rle.h"
#include "media/image_io.h"
#include "util/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace sam3 {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostPaletteIds = 255;  // 0 is the background

}  // namespace

std::string to_json_line(const TrackedObjects& tracked) {
    Json json = {{"frame", tracked.frame}, {"width", tracked.width}, {"height", tracked.height}};
    json["objects"] = Json::array();
    for (const TrackedObjects::Object& object : tracked.objects)
        json["objects"].push_back({{"id", object.id},
                                   {"label", object.label},
                                   {"score", object.score},
                                   {"box", {object.x0, object.y0, object.x1, object.y1}},
                                   {"area", mask_area(object.mask)},
                                   {"mask",
                                    {{"size", {object.mask.height, object.mask.width}},
                                     {"counts", rle_to_string(rle_encode(object.mask))}}}});
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

TrackedObjects from_json_line(std::string_view line, const std::string& where) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) fail(where, ": expected a JSON object on one line");
    try {
        TrackedObjects tracked;
        tracked.frame = json.at("frame").get<int64_t>();
        tracked.width = json.at("width").get<int>();
        tracked.height = json.at("height").get<int>();
        if (tracked.width < 1 || tracked.height < 1 || tracked.width > kMaxImageSide || tracked.height > kMaxImageSide)
            fail("a frame of ", tracked.width, " x ", tracked.height, " pixels is not possible");
        for (const Json& item : json.at("objects")) {
            TrackedObjects::Object object;
            object.id = item.at("id").get<int>();
            object.label = item.at("label").get<std::string>();
            object.score = item.at("score").get<float>();
            const Json& box = item.at("box");
            object.x0 = box.at(0).get<float>();
            object.y0 = box.at(1).get<float>();
            object.x1 = box.at(2).get<float>();
            object.y1 = box.at(3).get<float>();
            object.mask = rle_decode(
                rle_from_string(item.at("mask").at("counts").get<std::string>(), tracked.width, tracked.height));
            tracked.objects.push_back(std::move(object));
        }
        return tracked;
    } catch (const Error& error) {
        fail(where, ": ", error.what());
    } catch (const Json::exception& error) {
        fail(where, ": not a line of tracked objects: ", error.what());
    }
}

Segmentation to_segmentation(const TrackedObjects& tracked) {
    Segmentation out;
    out.width = tracked.width;
    out.height = tracked.height;
    for (const TrackedObjects::Object& object : tracked.objects) {
        Segmentation::Instance instance;
        instance.label = object.label + " " + std::to_string(object.id);
        instance.id = object.id;
        instance.score = object.score;
        instance.x0 = object.x0;
        instance.y0 = object.y0;
        instance.x1 = object.x1;
        instance.y1 = object.y1;
        instance.mask = object.mask;
        out.instances.push_back(std::move(instance));
    }
    return out;
}

std::vector<uint8_t> to_label_map(const TrackedObjects& tracked) {
    std::vector<uint16_t> labels(static_cast<size_t>(tracked.width) * static_cast<size_t>(tracked.height));
    int highest = 0;
    for (const TrackedObjects::Object& object : tracked.objects) {
        if (object.id < 0 || object.id > 65534) fail("a label map holds ids from 0 to 65534, found ", object.id);
        highest = std::max(highest, object.id);
        for (size_t i = 0; i < labels.size(); ++i)
            if (object.mask.data[i] != 0) labels[i] = static_cast<uint16_t>(object.id + 1);
    }
    if (highest >= kMostPaletteIds) return encode_png_grey16(labels, tracked.width, tracked.height);
    Image indices(tracked.width, tracked.height, 1);
    std::transform(labels.begin(), labels.end(), indices.pixels.begin(),
                   [](uint16_t label) { return static_cast<uint8_t>(label); });
    std::vector<uint8_t> palette(3, 0);
    for (int id = 0; id < kMostPaletteIds; ++id) {
        const Color color = palette_color(id);
        palette.insert(palette.end(), {color.r, color.g, color.b});
    }
    return encode_png_palette(indices, palette);
}

}  // namespace sam3
