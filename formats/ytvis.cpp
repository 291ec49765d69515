#include "formats/clip_files.h"
#include "formats/coco.h"
#include "formats/format_rows.h"
#include "mask/track.h"
#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/output_names.h"

#include <algorithm>

// YouTube-VIS: videos, categories, and an annotation a track with a mask or null for every frame.
namespace sam3 {

namespace {

constexpr int64_t kMostFrames = 1'000'000;  // of a clip

struct FollowedObject {
    Json masks = Json::array(), boxes = Json::array(), areas = Json::array();
    double scores = 0;
    int seen = 0;

    void fill_up(int64_t frames) {
        while (static_cast<int64_t>(masks.size()) < frames) {
            masks.push_back(nullptr);
            boxes.push_back(nullptr);
            areas.push_back(nullptr);
        }
    }
    void add(const Segmentation::Instance& instance, int64_t frame, const WriteOptions& options) {
        fill_up(frame);
        if (static_cast<int64_t>(masks.size()) > frame)
            fail("frame ", frame, " has the object '", instance.label, "' twice");
        Json object = coco_object(instance, options);
        masks.push_back(std::move(object["segmentation"]));
        boxes.push_back(std::move(object["bbox"]));
        areas.push_back(std::move(object["area"]));
        scores += static_cast<double>(instance.score);
        ++seen;
    }
};

class YtvisWriter : public DatasetWriter {
public:
    YtvisWriter(const std::string& path, const WriteOptions& options) : file_(path), options_(options) {
        file_.write("{\"annotations\": [");
    }

    void add(const Segmentation& record) override {
        if (order_.begins(record)) {
            end_clip();
            clip_ = {
                {"id", videos_.size() + 1}, {"name", record.clip}, {"width", record.width}, {"height", record.height}};
        }
        if (record.frame >= kMostFrames) fail("YouTube-VIS is written for at most ", kMostFrames, " frames a clip");
        if (clip_["width"] != record.width || clip_["height"] != record.height)
            fail("clip '", record.clip, "': expected frames of one size, found ", record.width, " x ", record.height,
                 " at frame ", record.frame);
        while (static_cast<int64_t>(files_.size()) < record.frame)
            files_.push_back(frame_stem(record.clip, static_cast<int64_t>(files_.size())));
        files_.push_back(file_name_of(record));
        labels_.add(record);
        for (size_t i = 0; i < record.instances.size(); ++i) {
            const Segmentation::Instance& instance = record.instances[i];
            objects_[{labels_.add(instance.label), instance_id(record, i)}].add(instance, record.frame, options_);
        }
    }

    void finish() override {
        end_clip();
        file_.write("\n],\n\"videos\": [");
        for (size_t i = 0; i < videos_.size(); ++i) file_.write((i == 0 ? "\n" : ",\n") + videos_[i]);
        file_.write("\n],\n\"categories\": " + json_text(named_list(labels_)) + "}\n");
        file_.finish();
    }

private:
    void end_clip() {
        if (clip_.is_null()) return;
        const auto frames = static_cast<int64_t>(files_.size());
        for (auto& [key, object] : objects_) {
            object.fill_up(frames);
            Json json = {{"id", ++annotations_},
                         {"video_id", clip_["id"]},
                         {"category_id", key.first + 1},
                         {"instance_id", key.second},
                         {"iscrowd", 0},
                         {"score", object.scores / object.seen}};
            json["segmentations"] = std::move(object.masks);
            json["bboxes"] = std::move(object.boxes);
            json["areas"] = std::move(object.areas);
            file_.write((annotations_ == 1 ? "\n" : ",\n") + json_text(json));
        }
        clip_["length"] = frames;
        clip_["file_names"] = files_;
        videos_.push_back(json_text(clip_));
        clip_ = nullptr;
        files_.clear();
        objects_.clear();
    }

    AtomicFile file_;
    WriteOptions options_;
    ClipOrder order_;
    LabelNumbers labels_;
    Json clip_;
    std::vector<std::string> files_, videos_;
    std::map<std::pair<int, int>, FollowedObject> objects_;  // by label and id
    int64_t annotations_ = 0;
};

class YtvisReader : public RecordReader {
public:
    YtvisReader(const std::string& path, const ReadOptions& options)
        : path_(path), options_(options), json_(parse_json(read_file(path), path)) {
        name_json_errors(path_, where_, [&] {
            categories_ = names_by_id(json_, "categories");
            videos_ = &list_in(json_, "videos");
            index_objects();
        });
    }

    bool next(Segmentation& record) override {
        bool found = false;
        name_json_errors(path_, where_, [&] {
            while (video_ < videos_->size() && frame_ >= frames_of(video_)) {
                ++video_;
                frame_ = 0;
            }
            found = video_ < videos_->size();
            if (found) record = record_at((*videos_)[video_], frame_++);
        });
        return found;
    }

private:
    void index_objects() {
        for (size_t i = 0; i < videos_->size(); ++i) {
            where_ = str("videos[", i, "]");
            if (!places_.emplace(id_from_json((*videos_)[i].at("id")), i).second) fail("has the id of another video");
            frames_of(i);
        }
        objects_.resize(videos_->size());
        annotations_ = &list_in(json_, "annotations");
        for (size_t i = 0; i < annotations_->size(); ++i) {
            where_ = str("annotations[", i, "]");
            const Json& json = (*annotations_)[i];
            const int64_t id = id_from_json(json.at("video_id"));
            const auto found = places_.find(id);
            if (found == places_.end()) fail("names video_id ", id, ", which the file does not have");
            if (json.at("segmentations").is_null()) continue;  // test sets hide them
            const size_t frames = list_in(json, "segmentations").size();
            if (frames != frames_of(found->second))
                fail("expected a mask or null for each of the ", frames_of(found->second), " frames, found ", frames);
            objects_[found->second].push_back(i);
        }
    }

    size_t frames_of(size_t video) const { return list_in((*videos_)[video], "file_names").size(); }

    Segmentation record_at(const Json& video, size_t frame) {
        where_ = str("videos[", video_, "]");
        Segmentation record;
        record.clip = clip_name(video);
        record.frame = static_cast<int64_t>(frame);
        record.file = video["file_names"][frame].get<std::string>();
        if (record.file == frame_stem(record.clip, record.frame)) record.file.clear();
        record.width = count_from_json(video.at("width"));
        record.height = count_from_json(video.at("height"));
        check_picture_size(record.width, record.height);
        MaskBudget budget(options_.most_mask_bytes);
        for (size_t i = 0; i < objects_[video_].size(); ++i) {
            const size_t place = objects_[video_][i];
            where_ = str("annotations[", place, "], frame ", frame);
            const Json& json = (*annotations_)[place];
            if (json["segmentations"][frame].is_null()) continue;
            budget.take(record.width, record.height);
            record.instances.push_back(instance_at(json, frame, static_cast<int>(i), record));
        }
        add_missing_prompts(record);
        return record;
    }

    static std::string clip_name(const Json& video) {
        for (const char* key : {"name", "video_name"})
            if (video.contains(key)) return video[key].get<std::string>();
        return std::to_string(id_from_json(video.at("id")));
    }

    Segmentation::Instance instance_at(const Json& json, size_t frame, int number, const Segmentation& record) const {
        Segmentation::Instance instance;
        instance.label = name_of(categories_, id_from_json(json.at("category_id")), "category");
        instance.id = json.contains("instance_id") ? count_from_json(json["instance_id"]) : number;
        instance.score = json.contains("score") ? finite_from_json(json["score"]) : 1;
        instance.mask = rle_decode(mask_from_json(json["segmentations"][frame], record.width, record.height));
        set_box_from_mask(instance);
        const auto boxes = json.find("bboxes");
        if (boxes != json.end() && boxes->is_array() && boxes->size() > frame && !(*boxes)[frame].is_null())
            set_coco_box(instance, (*boxes)[frame]);
        return instance;
    }

    std::string path_, where_;
    ReadOptions options_;
    Json json_;
    std::unordered_map<int64_t, std::string> categories_;
    const Json* videos_ = nullptr;
    const Json* annotations_ = nullptr;
    std::unordered_map<int64_t, size_t> places_;
    std::vector<std::vector<size_t>> objects_;  // by video, places in annotations
    size_t video_ = 0, frame_ = 0;
};

}  // namespace

std::unique_ptr<DatasetWriter> ytvis_writer(const std::string& path, const WriteOptions& options) {
    return std::make_unique<YtvisWriter>(path, options);
}

std::unique_ptr<RecordReader> ytvis_reader(const std::string& path, const ReadOptions& options) {
    return std::make_unique<YtvisReader>(path, options);
}

}  // namespace sam3
