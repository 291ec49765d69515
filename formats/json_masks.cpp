#include "formats/json_masks.h"

#include "mask/polygon.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace sam3 {

namespace {

Rle polygons_from_json(const Json& json, int width, int height) {
    std::vector<Polygon> polygons;
    for (const Json& ring : json) {
        const auto numbers = ring.get<std::vector<float>>();
        if (numbers.size() < 6 || numbers.size() % 2 != 0)
            fail("expected a polygon of at least three points x, y, found ", numbers.size(), " numbers");
        Polygon polygon;
        for (size_t i = 0; i < numbers.size(); i += 2) polygon.outer.push_back({numbers[i], numbers[i + 1]});
        polygons.push_back(std::move(polygon));
    }
    return rle_encode(rasterize(polygons, width, height));
}

}  // namespace

void use_json(std::span<const uint8_t> bytes, const std::string& name,
              const std::function<void(const Json&, std::string&)>& use) {
    const Json json = parse_json(bytes, name);
    std::string where;
    name_json_errors(name, where, [&] { use(json, where); });
}

Json parse_json(std::span<const uint8_t> bytes, const std::string& name) {
    Json json = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) fail(name, ": expected JSON, found ", describe_content(bytes), " or a damaged file");
    return json;
}

void name_json_errors(const std::string& name, const std::string& where, const std::function<void()>& use) {
    const auto place = [&] { return where.empty() ? name : name + ": " + where; };
    try {
        use();
    } catch (const Error& error) {
        fail(place(), ": ", error.what());
    } catch (const Json::exception& error) {
        const std::string text = error.what();  // "[json.exception.out_of_range.403] key 'x' not found"
        const size_t words = text.find("] ");
        fail(place(), ": ", words == std::string::npos ? text : text.substr(words + 2));
    }
}

int64_t id_from_json(const Json& json) {
    if (json.is_number_integer()) return json.get<int64_t>();
    if (!json.is_string()) fail("expected a number as the id, found ", json.type_name());
    const auto& text = json.get_ref<const std::string&>();
    int64_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size())
        fail("expected a number as the id, found '", text, "'");
    return id;
}

int count_from_json(const Json& json) {
    const double value = json.is_boolean() ? static_cast<double>(json.get<bool>()) : json.get<double>();
    if (!(value >= 0 && value <= std::numeric_limits<int>::max()) || value != std::floor(value))
        fail("expected a whole number from 0 on, found ", value);
    return static_cast<int>(value);
}

float finite_from_json(const Json& json) {
    const auto value = json.get<float>();
    if (!std::isfinite(value)) fail("expected a finite number, found ", json.dump());
    return value;
}

Rle mask_from_json(const Json& json, int width, int height) {
    if (json.is_array()) return polygons_from_json(json, width, height);
    const int rows = count_from_json(json.at("size").at(0)), columns = count_from_json(json.at("size").at(1));
    if (rows != height || columns != width)
        fail("expected a mask of ", width, " x ", height, " pixels, as the picture has, found ", columns, " x ", rows);
    const Json& counts = json.at("counts");
    if (counts.is_string()) return rle_from_string(counts.get_ref<const std::string&>(), width, height);
    std::vector<uint32_t> runs;
    for (const Json& run : counts) runs.push_back(static_cast<uint32_t>(count_from_json(run)));
    return rle_from_counts(std::move(runs), width, height);
}

Track track_from_json(const Json& json, size_t frames, int width, int height) {
    if (!json.is_array() || json.size() != frames)
        fail("expected a list of masks, one for each of the ", frames, " frames, found ",
             json.is_array() ? str(json.size()) : "none");
    Track track;
    for (const Json& mask : json) track.push_back(mask.is_null() ? Rle() : mask_from_json(mask, width, height));
    return track;
}

Json mask_to_json(const Rle& mask) {
    if (mask.counts.empty()) return nullptr;
    return {{"size", {mask.height, mask.width}}, {"counts", rle_to_string(mask)}};
}

Json mask_to_json(const Mask& mask) { return mask_to_json(rle_encode(mask)); }

Json polygons_to_json(const Mask& mask, float tolerance) {
    Json list = Json::array();
    for (const Polygon& polygon : mask_to_polygons(mask, tolerance)) {
        Json numbers = Json::array();
        for (const Point& point : joined_ring({&polygon, 1})) {
            numbers.push_back(point.x);
            numbers.push_back(point.y);
        }
        list.push_back(std::move(numbers));
    }
    return list;
}

void check_picture_size(int64_t width, int64_t height) {
    if (width < 1 || height < 1 || width > kMaxImageSide || height > kMaxImageSide || width * height > kMaxImagePixels)
        fail("expected a picture of 1 to ", kMaxImageSide, " pixels a side and at most ", kMaxImagePixels,
             " in all, found ", width, " x ", height);
}

void MaskBudget::take(int width, int height) {
    left_ -= int64_t{width} * height;
    if (left_ < 0)
        fail("the masks of one picture take more than ", most_ >> 20,
             " MiB, the most that is accepted: the picture has too many objects for its size");
}

std::string json_text(const Json& json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sam3
