#include "formats/ground_truth.h"

#include "formats/json_masks.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace sam3 {

namespace {

using Index = std::unordered_map<int64_t, size_t>;  // place in a list by id

size_t find_id(const Index& index, int64_t id, const char* what) {
    const auto found = index.find(id);
    if (found == index.end()) fail("names ", what, " ", id, ", which the file does not have");
    return found->second;
}

void add_id(Index& index, int64_t id, size_t place, const char* what) {
    if (!index.emplace(id, place).second) fail("the file has two of ", what, " ", id);
}

// Reads one file; the members are what its lists refer to by id.
class Reader {
public:
    Reader(const Json& json, std::string& where, GroundTruth& truth) : json_(json), where_(where), truth_(truth) {}

    void read() {
        truth_.video = json_.contains("videos");
        if (!truth_.video && !json_.contains("images"))
            fail("expected COCO-style ground truth with a list \"images\" or \"videos\", found neither");
        for (const Json& item : list("categories"))
            categories_[id_from_json(item.at("id"))] = item.at("name").get<std::string>();
        const Json& media = list(truth_.video ? "videos" : "images");
        truth_.pairs = !truth_.video && !media.empty() && media.at(0).contains("text_input");
        for (const Json& item : media) truth_.pairs ? add_pair(item) : add_media(item);
        for (const Json& item : list("annotations")) add_object(item);
        if (truth_.pairs) return;
        if (json_.contains("prompts") || json_.contains("exemplars")) {
            for (const Json& item : list("prompts")) add_prompt(item, truth_.prompts);
            for (const Json& item : list("exemplars")) add_prompt(item, truth_.exemplars);
        } else if (json_.contains("video_np_pairs")) {
            for (const Json& item : list("video_np_pairs")) add_video_pair(item);
        }
        add_categories();
    }

private:
    // A list of the file, empty when it is not there.
    const Json& list(const char* name) {
        static const Json kEmpty = Json::array();
        where_ = name;
        const auto found = json_.find(name);
        if (found == json_.end()) return kEmpty;
        if (!found->is_array()) fail("expected a list");
        place_ = 0;
        name_ = name;
        return *found;
    }
    void next() { where_ = str(name_, "[", place_++, "]"); }

    GroundTruth::Media media_of(const Json& item) {
        GroundTruth::Media media;
        media.id = id_from_json(item.at("id"));
        media.width = count_from_json(item.at("width"));
        media.height = count_from_json(item.at("height"));
        check_picture_size(media.width, media.height);
        if (truth_.video) {
            media.files = item.at("file_names").get<std::vector<std::string>>();
            media.name = item.contains("video_name") ? item["video_name"].get<std::string>()
                                                     : item.value("name", std::to_string(media.id));
            if (media.files.empty()) fail("expected at least one frame in file_names");
        } else {
            media.name = item.at("file_name").get<std::string>();
            media.files = {media.name};
        }
        return media;
    }

    void add_media(const Json& item) {
        next();
        GroundTruth::Media media = media_of(item);
        add_id(media_, media.id, truth_.media.size(), name_);
        truth_.media.push_back(std::move(media));
    }

    // SA-Co: an entry of "images" is a picture and a phrase; one picture has many.
    void add_pair(const Json& item) {
        next();
        GroundTruth::Media media = media_of(item);
        GroundTruth::Prompt prompt;
        prompt.id = media.id;
        prompt.phrase = item.at("text_input").get<std::string>();
        const auto exhaustive = item.find("is_instance_exhaustive");
        if (exhaustive != item.end()) prompt.exhaustive = count_from_json(*exhaustive) != 0;
        const auto [found, fresh] = files_.emplace(media.name, truth_.media.size());
        prompt.media = found->second;
        if (!fresh &&
            (truth_.media[prompt.media].width != media.width || truth_.media[prompt.media].height != media.height))
            fail("gives ", media.name, " another size than an entry before it");
        add_id(media_, prompt.id, truth_.prompts.size(), name_);
        truth_.prompts.push_back(std::move(prompt));
        if (fresh) truth_.media.push_back(std::move(media));
    }

    void add_object(const Json& item) {
        next();
        GroundTruth::Object object;
        object.id = id_from_json(item.at("id"));
        const char* owner = truth_.video ? "video_id" : "image_id";
        const size_t place = find_id(media_, id_from_json(item.at(owner)), owner);
        object.media = truth_.pairs ? truth_.prompts[place].media : place;
        if (item.contains("category_id")) object.category = id_from_json(item["category_id"]);
        object.crowd = item.contains("iscrowd") && !item["iscrowd"].is_null() && count_from_json(item["iscrowd"]) != 0;
        const GroundTruth::Media& media = truth_.media[object.media];
        object.track = truth_.video
                           ? track_from_json(item.at("segmentations"), media.files.size(), media.width, media.height)
                           : Track{mask_from_json(item.at("segmentation"), media.width, media.height)};
        object.clickable =
            !object.crowd && rle_area(object.track.front()) > 0 && !(item.contains("click") && item["click"].is_null());
        add_id(objects_, object.id, truth_.objects.size(), name_);
        if (truth_.pairs && !object.crowd) truth_.prompts[place].objects.push_back(truth_.objects.size());
        by_category_[{object.media, object.category}].push_back(truth_.objects.size());
        truth_.objects.push_back(std::move(object));
    }

    // An entry of "prompts" or "exemplars": image_id or video_id, phrase or bbox, annotation_ids.
    void add_prompt(const Json& item, std::vector<GroundTruth::Prompt>& prompts) {
        next();
        GroundTruth::Prompt prompt;
        prompt.id = static_cast<int64_t>(prompts.size());
        const char* owner = truth_.video ? "video_id" : "image_id";
        prompt.media = find_id(media_, id_from_json(item.at(owner)), owner);
        if (item.contains("bbox")) {
            const auto box = item["bbox"].get<std::vector<float>>();
            if (box.size() != 4) fail("expected a bbox of x, y, width and height, found ", box.size(), " numbers");
            prompt.exemplar = Box{box[0], box[1], box[0] + box[2], box[1] + box[3]};
        } else {
            prompt.phrase = item.at("phrase").get<std::string>();
        }
        for (const Json& id : item.at("annotation_ids")) {
            const size_t object = find_id(objects_, id_from_json(id), "annotation");
            if (truth_.objects[object].media != prompt.media)
                fail("means annotation ", truth_.objects[object].id, ", which belongs to another picture");
            if (!truth_.objects[object].crowd) prompt.objects.push_back(object);
        }
        prompts.push_back(std::move(prompt));
    }

    void add_video_pair(const Json& item) {
        next();
        const size_t media = find_id(media_, id_from_json(item.at("video_id")), "video_id");
        add_category_prompt(media, id_from_json(item.at("category_id")), item.at("noun_phrase").get<std::string>());
    }

    // A set that asks nothing itself is asked for every category on the pictures that have it.
    void add_categories() {
        if (json_.contains("prompts") || json_.contains("exemplars") || json_.contains("video_np_pairs")) return;
        where_ = "categories";
        for (const auto& [key, objects] : by_category_) {
            const auto name = categories_.find(key.second);
            if (name == categories_.end()) fail("there is no category ", key.second, ", which an annotation has");
            add_category_prompt(key.first, key.second, name->second);
        }
    }

    void add_category_prompt(size_t media, int64_t category, const std::string& phrase) {
        GroundTruth::Prompt prompt;
        prompt.id = static_cast<int64_t>(truth_.prompts.size());
        prompt.media = media;
        prompt.phrase = phrase;
        prompt.category = category;
        const auto found = by_category_.find({media, category});
        if (found != by_category_.end())
            for (const size_t object : found->second)
                if (!truth_.objects[object].crowd) prompt.objects.push_back(object);
        truth_.prompts.push_back(std::move(prompt));
    }

    const Json& json_;
    std::string& where_;
    GroundTruth& truth_;
    const char* name_ = "";
    size_t place_ = 0;
    Index media_;  // of SA-Co's pairs: the prompts
    Index objects_;
    std::unordered_map<std::string, size_t> files_;
    std::map<int64_t, std::string> categories_;
    std::map<std::pair<size_t, int64_t>, std::vector<size_t>> by_category_;
};

// A set without boxes: for each concept that is there, the box of its largest object.
void add_exemplars(GroundTruth& truth) {
    for (const GroundTruth::Prompt& prompt : truth.prompts) {
        if (prompt.objects.empty()) continue;
        const size_t largest = *std::max_element(prompt.objects.begin(), prompt.objects.end(), [&](size_t a, size_t b) {
            return rle_area(truth.objects[a].track.front()) < rle_area(truth.objects[b].track.front());
        });
        const CocoBox box = rle_box(truth.objects[largest].track.front());
        GroundTruth::Prompt exemplar = prompt;
        exemplar.phrase.clear();
        exemplar.exemplar = Box{static_cast<float>(box.x), static_cast<float>(box.y),
                                static_cast<float>(box.x + box.width), static_cast<float>(box.y + box.height)};
        truth.exemplars.push_back(std::move(exemplar));
    }
}

}  // namespace

GroundTruth read_ground_truth(const std::string& path) { return parse_ground_truth(read_file(path), path); }

GroundTruth parse_ground_truth(std::span<const uint8_t> bytes, const std::string& name) {
    GroundTruth truth;
    truth.path = name;
    use_json(bytes, name, [&](const Json& json, std::string& where) { Reader(json, where, truth).read(); });
    if (truth.exemplars.empty() && !truth.video) add_exemplars(truth);
    return truth;
}

void keep_first(GroundTruth& truth, size_t count) {
    if (count < truth.media.size()) truth.media.resize(count);
    const auto gone = [&](const auto& item) { return item.media >= count; };
    std::erase_if(truth.prompts, gone);
    std::erase_if(truth.exemplars, gone);
    // Prompts refer to objects by their place: those of later pictures stay at the end of nobody's list.
    for (GroundTruth::Object& object : truth.objects)
        if (gone(object)) object.clickable = false;
}

}  // namespace sam3
