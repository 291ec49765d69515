#include "formats/predictions.h"

#include "formats/json_masks.h"
#include "formats/own_predictions.h"
#include "media/image_io.h"
#include "util/error.h"

#include <map>
#include <unordered_map>

namespace sam3 {

namespace {

// What an entry of a results file is about.
class Subjects {
public:
    Subjects(Asked asked, GroundTruth& truth) : asked_(asked), truth_(truth) {
        for (size_t i = 0; i < truth.media.size(); ++i) media_[truth.media[i].id] = i;
        for (size_t i = 0; i < truth.objects.size(); ++i) objects_[truth.objects[i].id] = i;
        for (size_t i = 0; i < prompts().size(); ++i) {
            by_id_[prompts()[i].id] = i;
            by_category_.emplace(std::pair(prompts()[i].media, prompts()[i].category), i);
        }
    }

    size_t of(const Json& item) {
        if (asked_ == Asked::objects) {
            if (!item.contains("annotation_id"))
                fail("expected an annotation_id, as the answers to clicks have, found none");
            return find(objects_, id_from_json(item["annotation_id"]), "annotation");
        }
        if (item.contains("annotation_id"))
            fail(
                "has an annotation_id: these are answers to clicks, which are scored with --task click, clicks3 or "
                "video-click");
        if (truth_.pairs) return find(by_id_, id_from_json(item.at("image_id")), "image_id");
        const char* owner = truth_.video ? "video_id" : "image_id";
        const size_t media = find(media_, id_from_json(item.at(owner)), owner);
        if (!item.contains("prompt_id")) return by_category(media, id_from_json(item.at("category_id")));
        const size_t prompt = find(by_id_, id_from_json(item["prompt_id"]), "prompt_id");
        if (prompts()[prompt].media != media) fail("has a prompt_id that belongs to another ", owner);
        return prompt;
    }

    const GroundTruth::Media& media_of(size_t subject) const {
        return truth_.media.at(asked_ == Asked::objects ? truth_.objects[subject].media : prompts()[subject].media);
    }

private:
    std::vector<GroundTruth::Prompt>& prompts() const {
        return asked_ == Asked::exemplars ? truth_.exemplars : truth_.prompts;
    }

    size_t find(const std::unordered_map<int64_t, size_t>& index, int64_t id, const char* what) const {
        const auto found = index.find(id);
        if (found == index.end())
            fail("names ", what, " ", id, ", which ", truth_.path, " does not have (or --limit leaves out)");
        return found->second;
    }

    size_t by_category(size_t media, int64_t category) {
        const auto [found, fresh] = by_category_.emplace(std::pair(media, category), prompts().size());
        if (fresh) {
            GroundTruth::Prompt prompt;
            prompt.id = static_cast<int64_t>(prompts().size());
            prompt.media = media;
            prompt.category = category;
            prompts().push_back(std::move(prompt));
        }
        return found->second;
    }

    Asked asked_;
    GroundTruth& truth_;
    std::unordered_map<int64_t, size_t> media_, objects_, by_id_;
    std::map<std::pair<size_t, int64_t>, size_t> by_category_;
};

Prediction prediction_of(const Json& item, Subjects& subjects, Asked asked, bool video) {
    Prediction out;
    out.subject = subjects.of(item);
    out.clicks = item.contains("clicks") ? count_from_json(item["clicks"]) : asked == Asked::objects ? 1 : 0;
    out.score = item.at("score").get<float>();
    const GroundTruth::Media& media = subjects.media_of(out.subject);
    out.track = video ? track_from_json(item.at("segmentations"), media.files.size(), media.width, media.height)
                      : Track{mask_from_json(item.at("segmentation"), media.width, media.height)};
    return out;
}

Json box_of(const Rle& mask) {
    const CocoBox box = mask.counts.empty() ? CocoBox() : rle_box(mask);
    return {box.x, box.y, box.width, box.height};
}

}  // namespace

std::vector<Prediction> read_predictions(const std::string& path, Asked asked, GroundTruth& truth) {
    if (is_own_prediction(path)) {
        if (asked != Asked::phrases)
            fail(path, ": answers to boxes and clicks are scored from the file that 'sam3 eval -o' writes");
        return read_own_predictions(path, truth);
    }
    std::vector<Prediction> predictions;
    use_json(read_file(path), path, [&](const Json& json, std::string& where) {
        if (!json.is_array()) fail("expected a list of results, found a JSON ", json.type_name());
        Subjects subjects(asked, truth);
        for (size_t i = 0; i < json.size(); ++i) {
            where = str("[", i, "]");
            predictions.push_back(prediction_of(json[i], subjects, asked, truth.video));
        }
    });
    return predictions;
}

std::string to_result(const Prediction& prediction, Asked asked, const GroundTruth& truth) {
    const bool object = asked == Asked::objects;
    const auto& prompts = asked == Asked::exemplars ? truth.exemplars : truth.prompts;
    const GroundTruth::Prompt* prompt = object ? nullptr : &prompts.at(prediction.subject);
    const GroundTruth::Media& media = truth.media.at(object ? truth.objects[prediction.subject].media : prompt->media);
    const int64_t category = object ? truth.objects[prediction.subject].category : prompt->category;
    Json json;
    json[truth.video ? "video_id" : "image_id"] = !object && truth.pairs ? prompt->id : media.id;
    json["category_id"] = category < 0 ? 1 : category;
    if (object) {
        json["annotation_id"] = truth.objects[prediction.subject].id;
        json["clicks"] = prediction.clicks;
    } else if (!truth.pairs) {
        json["prompt_id"] = prompt->id;
    }
    json["score"] = prediction.score;
    if (truth.video) {
        json["bboxes"] = json["areas"] = json["segmentations"] = Json::array();
        for (const Rle& mask : prediction.track) {
            json["bboxes"].push_back(box_of(mask));
            json["areas"].push_back(rle_area(mask));
            json["segmentations"].push_back(mask_to_json(mask));
        }
    } else {
        json["bbox"] = box_of(prediction.track.front());
        json["segmentation"] = mask_to_json(prediction.track.front());
    }
    return json_text(json);
}

std::string to_results(std::span<const Prediction> predictions, Asked asked, const GroundTruth& truth) {
    std::string text = "[";
    for (const Prediction& prediction : predictions)
        text += (text.size() == 1 ? "\n" : ",\n") + to_result(prediction, asked, truth);
    return text + "\n]\n";
}

}  // namespace sam3
