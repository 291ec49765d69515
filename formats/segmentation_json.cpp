#include "formats/segmentation.h"

#include "mask/rle.h"

#include <nlohmann/json.hpp>

namespace sam3 {

namespace {

using Json = nlohmann::ordered_json;

Json mask_json(const Mask& mask) {
    return {{"size", {mask.height, mask.width}}, {"counts", rle_to_string(rle_encode(mask))}};
}

}  // namespace

std::string to_json(const Segmentation& segmentation) {
    Json json;
    json["image"] = {{"file", segmentation.file}, {"width", segmentation.width}, {"height", segmentation.height}};
    json["prompts"] = Json::array();
    for (const Segmentation::Prompt& prompt : segmentation.prompts) {
        Json item = {{"label", prompt.label}, {"presence", prompt.presence}};
        if (!prompt.semantic.data.empty()) item["semantic"] = mask_json(prompt.semantic);
        json["prompts"].push_back(std::move(item));
    }
    json["detections"] = Json::array();
    for (const Segmentation::Instance& instance : segmentation.instances) {
        Json item = {{"id", json["detections"].size()},
                     {"label", instance.label},
                     {"prompt", instance.prompt},
                     {"score", instance.score},
                     {"box", {instance.x0, instance.y0, instance.x1, instance.y1}},
                     {"area", mask_area(instance.mask)},
                     {"mask", mask_json(instance.mask)}};
        for (const Segmentation::Candidate& candidate : instance.candidates)
            item["candidates"].push_back({{"quality", candidate.quality}, {"mask", mask_json(candidate.mask)}});
        json["detections"].push_back(std::move(item));
    }
    json["timings"] = Json::object();
    for (const auto& [step, seconds] : segmentation.seconds) json["timings"][step] = seconds;
    // Phrases and file names may hold bytes that are not UTF-8: they are replaced rather than refused.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sam3
