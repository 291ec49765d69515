#include "formats/coco.h"

#include "formats/format_rows.h"
#include "formats/json_masks.h"
#include "formats/record_files.h"
#include "mask/rle.h"
#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/output_names.h"

#include <cmath>
#include <unordered_map>

// COCO's data sets: images, annotations, categories. Frames of clips get the further keys of CocoVID: video_id,
// frame_id and instance_id.
namespace sam3 {

namespace {

// Annotations go out as they come; the short lists follow them.
class CocoWriter : public DatasetWriter {
public:
    CocoWriter(const std::string& path, const WriteOptions& options) : file_(path), options_(options) {
        file_.write("{\"annotations\": [");
    }

    void add(const Segmentation& record) override {
        labels_.add(record);
        const size_t image = images_.size() + 1;
        Json item = {{"id", image},
                     {"file_name", name_in_folder(file_name_of(record), options_.folder)},
                     {"width", record.width},
                     {"height", record.height}};
        if (record.frame >= 0) {
            item["video_id"] = clips_.add(record.clip) + 1;
            item["frame_id"] = record.frame;
        }
        images_.push_back(json_text(item));
        for (size_t i = 0; i < record.instances.size(); ++i) {
            const Segmentation::Instance& o = record.instances[i];
            Json json = {{"id", ++annotations_}, {"image_id", image}, {"category_id", labels_.add(o.label) + 1}};
            json.update(coco_object(o, options_));
            json["iscrowd"] = 0;
            json["score"] = o.score;
            json["instance_id"] = instance_id(record, i);
            file_.write((annotations_ == 1 ? "\n" : ",\n") + json_text(json));
        }
    }

    void finish() override {
        file_.write("\n],\n\"images\": [");
        for (size_t i = 0; i < images_.size(); ++i) file_.write((i == 0 ? "\n" : ",\n") + images_[i]);
        file_.write("\n],\n\"categories\": " + json_text(named_list(labels_)));
        if (!clips_.labels().empty()) file_.write(",\n\"videos\": " + json_text(named_list(clips_)));
        file_.write("}\n");
        file_.finish();
    }

private:
    AtomicFile file_;
    WriteOptions options_;
    LabelNumbers labels_, clips_;
    std::vector<std::string> images_;
    int64_t annotations_ = 0;
};

class CocoReader : public RecordReader {
public:
    CocoReader(const std::string& path, const ReadOptions& options)
        : path_(path), options_(options), json_(parse_json(read_file(path), path)) {
        name_json_errors(path_, where_, [&] { index(); });
    }

    bool next(Segmentation& record) override {
        if (at_ == images_->size()) return false;
        name_json_errors(path_, where_, [&] { record = record_at(at_++); });
        return true;
    }

private:
    void index() {
        where_ = "";
        images_ = &list_in(json_, "images");
        categories_ = names_by_id(json_, "categories");
        if (json_.contains("videos")) videos_ = names_by_id(json_, "videos");
        std::unordered_map<int64_t, size_t> places;
        for (size_t i = 0; i < images_->size(); ++i) {
            where_ = str("images[", i, "]");
            if (!places.emplace(id_from_json((*images_)[i].at("id")), i).second) fail("has the id of another image");
        }
        objects_.resize(images_->size());
        where_ = "annotations";
        const Json& annotations = list_in(json_, "annotations");
        for (size_t i = 0; i < annotations.size(); ++i) {
            where_ = str("annotations[", i, "]");
            const int64_t id = id_from_json(annotations[i].at("image_id"));
            const auto found = places.find(id);
            if (found == places.end()) fail("names image_id ", id, ", which the file does not have");
            objects_[found->second].push_back(i);
        }
    }

    Segmentation record_at(size_t place) {
        where_ = str("images[", place, "]");
        const Json& image = (*images_)[place];
        Segmentation record;
        record.file = image.at("file_name").get<std::string>();
        record.width = count_from_json(image.at("width"));
        record.height = count_from_json(image.at("height"));
        check_picture_size(record.width, record.height);
        if (image.contains("video_id") && image.contains("frame_id")) {
            record.clip = name_of(videos_, id_from_json(image["video_id"]), "video");
            record.frame = count_from_json(image["frame_id"]);
            if (record.file == frame_stem(record.clip, record.frame)) record.file.clear();
        }
        MaskBudget budget(options_.most_mask_bytes);
        for (const size_t object : objects_[place]) {
            where_ = str("annotations[", object, "]");
            budget.take(record.width, record.height);
            record.instances.push_back(instance_of(json_["annotations"][object], record));
        }
        add_missing_prompts(record);
        return record;
    }

    Segmentation::Instance instance_of(const Json& json, const Segmentation& record) const {
        Segmentation::Instance instance;
        instance.label = name_of(categories_, id_from_json(json.at("category_id")), "category");
        instance.score = json.contains("score") ? finite_from_json(json["score"]) : 1;
        instance.id = json.contains("instance_id") ? count_from_json(json["instance_id"])
                                                   : static_cast<int>(record.instances.size());
        instance.mask = rle_decode(mask_from_json(json.at("segmentation"), record.width, record.height));
        set_box_from_mask(instance);
        if (json.contains("bbox")) set_coco_box(instance, json["bbox"]);
        return instance;
    }

    std::string path_, where_;
    ReadOptions options_;
    Json json_;
    const Json* images_ = nullptr;
    std::unordered_map<int64_t, std::string> categories_, videos_;
    std::vector<std::vector<size_t>> objects_;  // by image, places in annotations
    size_t at_ = 0;
};

}  // namespace

std::string file_name_of(const Segmentation& record) {
    return record.file.empty() && record.frame >= 0 ? frame_stem(record.clip, record.frame) : record.file;
}

// Differences in double precision, so that the box comes back as it was.
Json coco_box(const Segmentation::Instance& o) {
    const auto length = [](float from, float to) { return static_cast<double>(to) - static_cast<double>(from); };
    return {o.x0, o.y0, length(o.x0, o.x1), length(o.y0, o.y1)};
}

void set_coco_box(Segmentation::Instance& instance, const Json& json) {
    if (!json.is_array() || json.size() != 4) fail("expected a bbox of x, y, width and height");
    instance.x0 = finite_from_json(json[0]);
    instance.y0 = finite_from_json(json[1]);
    instance.x1 = static_cast<float>(json[0].get<double>() + json[2].get<double>());
    instance.y1 = static_cast<float>(json[1].get<double>() + json[3].get<double>());
    if (!std::isfinite(instance.x1) || !std::isfinite(instance.y1)) fail("expected a bbox of finite numbers");
}

Json coco_object(const Segmentation::Instance& o, const WriteOptions& options) {
    return {{"segmentation", options.polygons ? polygons_to_json(o.mask, options.tolerance) : mask_to_json(o.mask)},
            {"area", mask_area(o.mask)},
            {"bbox", coco_box(o)}};
}

Json named_list(const LabelNumbers& labels) {
    Json list = Json::array();
    for (const std::string& label : labels.labels()) list.push_back({{"id", list.size() + 1}, {"name", label}});
    return list;
}

const Json& list_in(const Json& json, const char* name) {
    const Json& list = json.at(name);
    if (!list.is_array()) fail("expected a list \"", name, "\", found a JSON ", list.type_name());
    return list;
}

std::unordered_map<int64_t, std::string> names_by_id(const Json& json, const char* name) {
    std::unordered_map<int64_t, std::string> names;
    for (const Json& item : list_in(json, name))
        names[id_from_json(item.at("id"))] = item.at("name").get<std::string>();
    return names;
}

std::string name_of(const std::unordered_map<int64_t, std::string>& names, int64_t id, const char* what) {
    const auto found = names.find(id);
    if (found == names.end()) fail("names ", what, " ", id, ", which the file does not have");
    return found->second;
}

std::unique_ptr<DatasetWriter> coco_writer(const std::string& path, const WriteOptions& options) {
    return std::make_unique<CocoWriter>(path, options);
}

std::unique_ptr<RecordReader> coco_reader(const std::string& path, const ReadOptions& options) {
    return std::make_unique<CocoReader>(path, options);
}

}  // namespace sam3
