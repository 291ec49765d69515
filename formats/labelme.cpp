#include "formats/format_rows.h"
#include "formats/json_masks.h"
#include "formats/record_files.h"
#include "mask/polygon.h"
#include "media/image_io.h"
#include "util/base64.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>
#include <optional>

// labelme's files: polygons with labels. Parts of one object share a group_id.
namespace sam3 {

namespace {

Json shape_json(const Segmentation::Instance& instance, const Ring& ring, int id) {
    Json points = Json::array();
    for (const Point& point : ring) points.push_back({point.x, point.y});
    return {{"label", instance.label},
            {"points", std::move(points)},
            {"group_id", id},
            {"shape_type", "polygon"},
            {"flags", Json::object()}};
}

Ring points_of(const Json& shape) {
    Ring ring;
    for (const Json& point : shape.at("points"))
        ring.push_back({finite_from_json(point.at(0)), finite_from_json(point.at(1))});
    return ring;
}

Ring circle_ring(const Ring& two) {
    constexpr int kCorners = 64;
    const float radius = std::hypot(two[1].x - two[0].x, two[1].y - two[0].y);
    Ring ring;
    for (int i = 0; i < kCorners; ++i) {
        const float angle = 2 * std::numbers::pi_v<float> * static_cast<float>(i) / kCorners;
        ring.push_back({two[0].x + radius * std::cos(angle), two[0].y + radius * std::sin(angle)});
    }
    return ring;
}

// A mask as PNG inside the JSON, with its upper left corner at the first point.
Mask embedded_mask(const Json& shape, const Ring& corners, int width, int height) {
    const std::vector<uint8_t> png = base64_decode(shape.at("mask").get_ref<const std::string&>());
    const LabelMap map = decode_png_labels(png, "the mask inside");
    Mask mask(width, height);
    if (std::abs(corners[0].x) > kMaxImageSide || std::abs(corners[0].y) > kMaxImageSide) return mask;
    const auto left = static_cast<int64_t>(corners[0].x), top = static_cast<int64_t>(corners[0].y);
    for (int y = 0; y < map.height; ++y)
        for (int x = 0; x < map.width; ++x) {
            const int64_t u = left + x, v = top + y;
            if (u < 0 || v < 0 || u >= width || v >= height) continue;
            const size_t at = static_cast<size_t>(y) * static_cast<size_t>(map.width) + static_cast<size_t>(x);
            if (map.labels[at] != 0) mask.at(static_cast<int>(u), static_cast<int>(v)) = 1;
        }
    return mask;
}

Mask shape_mask(const Json& shape, int width, int height) {
    const std::string type = shape.value("shape_type", "polygon");
    Ring ring = points_of(shape);
    const size_t least = type == "polygon" ? 3 : 2;
    if (ring.size() < least) fail("expected a ", type, " of at least ", least, " points, found ", ring.size());
    if (type == "mask") return embedded_mask(shape, ring, width, height);
    if (type == "rectangle") {
        ring = {ring[0], {ring[1].x, ring[0].y}, ring[1], {ring[0].x, ring[1].y}};
    } else if (type == "circle") {
        ring = circle_ring(ring);
    } else if (type != "polygon") {
        fail("a shape of type '", type, "' has no area; polygon, rectangle, circle and mask are read");
    }
    const Polygon polygon{std::move(ring), {}};
    return rasterize({&polygon, 1}, width, height);
}

class LabelmeFile {
public:
    LabelmeFile(std::string& where, const ReadOptions& options) : where_(where), budget_(options.most_mask_bytes) {}

    Segmentation read(const Json& json, const std::string& folder) {
        const std::string picture = json.at("imagePath").get<std::string>();
        record_.file = (std::filesystem::path(folder) / picture).lexically_normal().generic_string();
        record_.width = count_from_json(json.at("imageWidth"));
        record_.height = count_from_json(json.at("imageHeight"));
        check_picture_size(record_.width, record_.height);
        const Json& shapes = json.at("shapes");
        if (!shapes.is_array()) fail("expected a list \"shapes\"");
        for (size_t i = 0; i < shapes.size(); ++i) {
            where_ = str("shapes[", i, "]");
            add(shapes[i]);
        }
        for (Segmentation::Instance& instance : record_.instances) set_box_from_mask(instance);
        if (!has_distinct_ids(record_))
            for (size_t i = 0; i < record_.instances.size(); ++i) record_.instances[i].id = static_cast<int>(i);
        add_missing_prompts(record_);
        return std::move(record_);
    }

private:
    void add(const Json& shape) {
        const std::string label = shape.at("label").get<std::string>();
        std::optional<int64_t> group;
        if (shape.contains("group_id") && !shape["group_id"].is_null()) group = id_from_json(shape["group_id"]);
        if (group) {
            const auto found = groups_.find({label, *group});
            if (found != groups_.end()) {
                Mask& mask = record_.instances[found->second].mask;
                const Mask more = shape_mask(shape, record_.width, record_.height);
                for (size_t i = 0; i < mask.data.size(); ++i) mask.data[i] |= more.data[i];
                return;
            }
            groups_[{label, *group}] = record_.instances.size();
        }
        budget_.take(record_.width, record_.height);
        Segmentation::Instance instance;
        instance.label = label;
        instance.score = 1;
        const bool number = group && *group >= 0 && *group <= std::numeric_limits<int>::max();
        instance.id = number ? static_cast<int>(*group) : static_cast<int>(record_.instances.size());
        instance.mask = shape_mask(shape, record_.width, record_.height);
        record_.instances.push_back(std::move(instance));
    }

    std::string& where_;
    MaskBudget budget_;
    Segmentation record_;
    std::map<std::pair<std::string, int64_t>, size_t> groups_;
};

}  // namespace

ItemFiles labelme_item(const Segmentation& record, const std::string& stem, const Image*, const WriteOptions& options) {
    Json shapes = Json::array();
    for (size_t i = 0; i < record.instances.size(); ++i)
        for (const Polygon& polygon : mask_to_polygons(record.instances[i].mask, options.tolerance))
            shapes.push_back(shape_json(record.instances[i], joined_ring({&polygon, 1}), instance_id(record, i)));
    Json json = {{"version", "5.1.1"}, {"flags", Json::object()}};
    json["shapes"] = std::move(shapes);
    json["imagePath"] = std::filesystem::path(record.file).filename().string();
    json["imageData"] = nullptr;
    json["imageHeight"] = record.height;
    json["imageWidth"] = record.width;
    return {{stem + ".json", bytes_of(json_text(json, 2) + "\n")}};
}

std::unique_ptr<RecordReader> labelme_reader(const std::string& path, const ReadOptions& options) {
    return file_by_file(files_at(path, ".json"), [=](const std::string& file) -> std::optional<Segmentation> {
        const std::vector<uint8_t> bytes = read_file(file);
        if (is_other_json(path, bytes, "shapes")) return std::nullopt;
        Segmentation record;
        use_json(bytes, file, [&](const Json& json, std::string& where) {
            const auto folder = std::filesystem::path(name_below(path, file)).parent_path().generic_string();
            record = LabelmeFile(where, options).read(json, folder);
        });
        return record;
    });
}

}  // namespace sam3
