#include "formats/tracks.h"

#include "formats/clip_files.h"
#include "formats/format_rows.h"
#include "formats/json_masks.h"
#include "formats/label_maps.h"
#include "formats/record_files.h"
#include "util/error.h"

#include <algorithm>

namespace sam3 {

std::string to_json_line(const TrackedObjects& tracked) {
    Json json = {{"frame", tracked.frame}, {"width", tracked.width}, {"height", tracked.height}};
    json["objects"] = Json::array();
    for (const TrackedObjects::Object& object : tracked.objects)
        json["objects"].push_back({{"id", object.id},
                                   {"label", object.label},
                                   {"score", object.score},
                                   {"box", {object.x0, object.y0, object.x1, object.y1}},
                                   {"area", mask_area(object.mask)},
                                   {"mask", mask_to_json(object.mask)}});
    return json_text(json) + "\n";
}

TrackedObjects from_json_line(std::string_view line, const std::string& where, int64_t most_mask_bytes) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) fail(where, ": expected a JSON object on one line");
    TrackedObjects tracked;
    name_json_errors(where, "", [&] {
        tracked.frame = json.at("frame").get<int64_t>();
        if (tracked.frame < 0) fail("expected frames from 0 on, found ", tracked.frame);
        tracked.width = count_from_json(json.at("width"));
        tracked.height = count_from_json(json.at("height"));
        check_picture_size(tracked.width, tracked.height);
        MaskBudget budget(most_mask_bytes);
        for (const Json& item : json.at("objects")) {
            TrackedObjects::Object object;
            object.id = count_from_json(item.at("id"));
            object.label = item.at("label").get<std::string>();
            object.score = finite_from_json(item.at("score"));
            const Json& box = item.at("box");
            object.x0 = finite_from_json(box.at(0));
            object.y0 = finite_from_json(box.at(1));
            object.x1 = finite_from_json(box.at(2));
            object.y1 = finite_from_json(box.at(3));
            budget.take(tracked.width, tracked.height);
            object.mask = rle_decode(mask_from_json(item.at("mask"), tracked.width, tracked.height));
            tracked.objects.push_back(std::move(object));
        }
    });
    return tracked;
}

Segmentation to_record(const TrackedObjects& tracked, const std::string& clip) {
    Segmentation out;
    out.clip = clip;
    out.frame = tracked.frame;
    out.width = tracked.width;
    out.height = tracked.height;
    for (const TrackedObjects::Object& object : tracked.objects) {
        Segmentation::Instance instance;
        instance.label = object.label;
        instance.id = object.id;
        instance.score = object.score;
        instance.x0 = object.x0;
        instance.y0 = object.y0;
        instance.x1 = object.x1;
        instance.y1 = object.y1;
        instance.mask = object.mask;
        out.instances.push_back(std::move(instance));
    }
    add_missing_prompts(out);
    return out;
}

TrackedObjects from_record(const Segmentation& record) {
    TrackedObjects out{record.frame, record.width, record.height, {}};
    for (size_t i = 0; i < record.instances.size(); ++i) {
        const Segmentation::Instance& o = record.instances[i];
        out.objects.push_back({instance_id(record, i), o.label, o.score, o.x0, o.y0, o.x1, o.y1, o.mask});
    }
    return out;
}

Segmentation to_segmentation(const TrackedObjects& tracked) {
    Segmentation out = to_record(tracked, "");
    for (Segmentation::Instance& instance : out.instances) instance.label = str(instance.label, " ", instance.id);
    return out;
}

std::vector<uint8_t> to_label_map(const TrackedObjects& tracked) {
    for (const TrackedObjects::Object& object : tracked.objects)
        if (object.id < 0) fail("a label map holds ids from 0 on, found ", object.id);
    const Segmentation record = to_record(tracked, "");
    const bool many = std::any_of(tracked.objects.begin(), tracked.objects.end(),
                                  [](const TrackedObjects::Object& object) { return object.id > 254; });
    return many ? to_ids_png(record) : to_davis_png(record);
}

std::unique_ptr<DatasetWriter> tracks_writer(const std::string& path, const WriteOptions&) {
    return clip_writer(path, ".jsonl", [](const Segmentation& record) { return to_json_line(from_record(record)); });
}

}  // namespace sam3
