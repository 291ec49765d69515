#include "formats/json_masks.h"
#include "formats/segmentation.h"
#include "util/error.h"

#include <algorithm>
#include <set>

namespace sam3 {

namespace {

constexpr size_t kMostInstances = 1'000'000;  // on one picture

Json segmentation_to_json(const Segmentation& segmentation) {
    Json json;
    Json& image = json["image"];
    image = {{"file", segmentation.file}, {"width", segmentation.width}, {"height", segmentation.height}};
    if (!segmentation.clip.empty()) image["clip"] = segmentation.clip;
    if (segmentation.frame >= 0) image["frame"] = segmentation.frame;
    json["prompts"] = Json::array();
    for (const Segmentation::Prompt& prompt : segmentation.prompts) {
        Json item = {{"label", prompt.label}, {"presence", prompt.presence}};
        if (!prompt.semantic.data.empty()) item["semantic"] = mask_to_json(prompt.semantic);
        json["prompts"].push_back(std::move(item));
    }
    json["detections"] = Json::array();
    for (size_t i = 0; i < segmentation.instances.size(); ++i) {
        const Segmentation::Instance& instance = segmentation.instances[i];
        Json item = {{"id", instance_id(segmentation, i)},
                     {"label", instance.label},
                     {"prompt", instance.prompt},
                     {"score", instance.score},
                     {"box", {instance.x0, instance.y0, instance.x1, instance.y1}},
                     {"area", mask_area(instance.mask)},
                     {"mask", mask_to_json(instance.mask)}};
        for (const Segmentation::Candidate& candidate : instance.candidates)
            item["candidates"].push_back({{"quality", candidate.quality}, {"mask", mask_to_json(candidate.mask)}});
        json["detections"].push_back(std::move(item));
    }
    for (const auto& [step, seconds] : segmentation.seconds) json["timings"][step] = seconds;
    return json;
}

class SegmentationReader {
public:
    SegmentationReader(std::string& where, int64_t most_mask_bytes) : where_(where), budget_(most_mask_bytes) {}

    Segmentation read(const Json& json) {
        where_ = "image";
        const Json& image = json.at("image");
        out_.file = image.at("file").get<std::string>();
        out_.width = count_from_json(image.at("width"));
        out_.height = count_from_json(image.at("height"));
        check_picture_size(out_.width, out_.height);
        out_.clip = image.value("clip", "");
        out_.frame = image.value("frame", int64_t{-1});
        read_list(json, "prompts", [&](const Json& item) { add_prompt(item); });
        read_list(json, "detections", [&](const Json& item) { add_instance(item); });
        where_ = "timings";
        if (json.contains("timings")) out_.seconds = json["timings"].get<std::map<std::string, double>>();
        return std::move(out_);
    }

private:
    template <typename Add>
    void read_list(const Json& json, const char* name, Add add) {
        where_ = name;
        const Json& list = json.at(name);
        if (!list.is_array()) fail("expected a list");
        if (list.size() > kMostInstances) fail("expected at most ", kMostInstances, " entries, found ", list.size());
        for (size_t i = 0; i < list.size(); ++i) {
            where_ = str(name, "[", i, "]");
            add(list[i]);
        }
    }

    Mask read_mask(const Json& json) {
        budget_.take(out_.width, out_.height);
        return rle_decode(mask_from_json(json, out_.width, out_.height));
    }

    void add_prompt(const Json& item) {
        Segmentation::Prompt prompt{item.at("label").get<std::string>(), finite_from_json(item.at("presence")), {}};
        if (item.contains("semantic")) prompt.semantic = read_mask(item["semantic"]);
        out_.prompts.push_back(std::move(prompt));
    }

    void add_instance(const Json& item) {
        Segmentation::Instance instance;
        instance.id = count_from_json(item.at("id"));
        instance.label = item.at("label").get<std::string>();
        instance.prompt = count_from_json(item.at("prompt"));
        if (static_cast<size_t>(instance.prompt) >= std::max<size_t>(out_.prompts.size(), 1))
            fail("names prompt ", instance.prompt, ", but there are ", out_.prompts.size());
        instance.score = finite_from_json(item.at("score"));
        const Json& box = item.at("box");
        if (!box.is_array() || box.size() != 4) fail("expected a box of four numbers");
        instance.x0 = finite_from_json(box[0]);
        instance.y0 = finite_from_json(box[1]);
        instance.x1 = finite_from_json(box[2]);
        instance.y1 = finite_from_json(box[3]);
        instance.mask = read_mask(item.at("mask"));
        for (const Json& candidate : item.value("candidates", Json::array()))
            instance.candidates.push_back({finite_from_json(candidate.at("quality")), read_mask(candidate.at("mask"))});
        out_.instances.push_back(std::move(instance));
    }

    std::string& where_;
    MaskBudget budget_;
    Segmentation out_;
};

}  // namespace

std::string to_json(const Segmentation& segmentation) {
    return json_text(segmentation_to_json(segmentation), 2) + "\n";
}

std::string to_json_line(const Segmentation& segmentation) {
    return json_text(segmentation_to_json(segmentation)) + "\n";
}

Segmentation from_json(std::span<const uint8_t> bytes, const std::string& name, int64_t most_mask_bytes) {
    Segmentation out;
    use_json(bytes, name, [&](const Json& json, std::string& where) {
        out = SegmentationReader(where, most_mask_bytes).read(json);
    });
    return out;
}

int instance_id(const Segmentation& segmentation, size_t place) {
    const int id = segmentation.instances.at(place).id;
    return id >= 0 ? id : static_cast<int>(place);
}

bool has_distinct_ids(const Segmentation& segmentation) {
    std::set<int> ids;
    for (size_t i = 0; i < segmentation.instances.size(); ++i)
        if (!ids.insert(instance_id(segmentation, i)).second) return false;
    return true;
}

}  // namespace sam3
