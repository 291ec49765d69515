#include "formats/clip_files.h"
#include "formats/coco.h"
#include "formats/format_rows.h"
#include "formats/predictions.h"
#include "formats/truth_names.h"
#include "mask/geometry.h"
#include "util/atomic_file.h"
#include "util/error.h"

#include <algorithm>

// Lists of predictions, which name pictures, clips and labels by the numbers of a ground-truth file: COCO's results,
// those of SA-Co's images, and those of SA-Co/VEval's clips.
namespace sam3 {

namespace {

// A JSON list that is written entry by entry.
class ListFile {
public:
    explicit ListFile(const std::string& path) : file_(path) { file_.write("["); }
    void add(const std::string& entry) { file_.write((std::exchange(first_, false) ? "\n" : ",\n") + entry); }
    void finish() {
        file_.write("\n]\n");
        file_.finish();
    }

private:
    AtomicFile file_;
    bool first_ = true;
};

// Ids of their own: those that the format coco gives the same records.
class NumberedResults : public DatasetWriter {
public:
    NumberedResults(const std::string& path, const WriteOptions& options) : file_(path), options_(options) {}
    void add(const Segmentation& record) override {
        labels_.add(record);
        ++image_;
        for (const Segmentation::Instance& instance : record.instances) {
            Json json = {{"image_id", image_}, {"category_id", labels_.add(instance.label) + 1}};
            json.update(coco_object(instance, options_));
            json["score"] = instance.score;
            file_.add(json_text(json));
        }
    }
    void finish() override { file_.finish(); }

private:
    ListFile file_;
    WriteOptions options_;
    LabelNumbers labels_;
    int64_t image_ = 0;
};

// The questions of the ground truth that a label answers.
const std::vector<size_t>& prompts_of_label(const TruthNames& names, const GroundTruth& truth, size_t media,
                                            const std::string& label) {
    const std::vector<size_t>& prompts = names.prompts(media, label);
    if (prompts.empty())
        fail(truth.path, ": ", truth.media[media].name, " is not asked for '", label, "', which the results have");
    return prompts;
}

class ImageResults : public DatasetWriter {
public:
    ImageResults(const std::string& path, GroundTruth truth) : file_(path), truth_(std::move(truth)), names_(truth_) {
        if (truth_.video) fail(truth_.path, ": expected ground truth of images, found one of clips");
    }
    void add(const Segmentation& record) override {
        const size_t media = names_.media(record.file);
        for (const Segmentation::Instance& instance : record.instances)
            for (const size_t prompt : prompts_of_label(names_, truth_, media, instance.label))
                file_.add(to_result({prompt, 0, instance.score, {rle_encode(instance.mask)}}, Asked::phrases, truth_));
    }
    void finish() override { file_.finish(); }

private:
    ListFile file_;
    GroundTruth truth_;
    TruthNames names_;
};

// A track is complete when its clip is.
class ClipResults : public DatasetWriter {
public:
    ClipResults(const std::string& path, GroundTruth truth) : file_(path), truth_(std::move(truth)), names_(truth_) {
        if (!truth_.video) fail(truth_.path, ": expected ground truth of clips (a list \"videos\"), found images");
    }

    void add(const Segmentation& record) override {
        if (order_.begins(record)) {
            end_clip();
            media_ = names_.media(record.clip);
        }
        const GroundTruth::Media& clip = truth_.media[media_];
        if (record.width != clip.width || record.height != clip.height)
            fail("expected frames of ", clip.width, " x ", clip.height, " pixels in ", clip.name, ", found ",
                 record.width, " x ", record.height);
        const size_t frames = clip.files.size();
        if (record.frame >= static_cast<int64_t>(frames))
            fail(truth_.path, ": ", clip.name, " has ", frames, " frames, but there is a result for frame ",
                 record.frame);
        for (size_t i = 0; i < record.instances.size(); ++i) {
            const Segmentation::Instance& instance = record.instances[i];
            Prediction& prediction = objects_[{instance.label, instance_id(record, i)}];
            prediction.track.resize(frames);
            prediction.track[static_cast<size_t>(record.frame)] = rle_encode(instance.mask);
            prediction.score = instance.score;  // the last word on it
        }
    }

    void finish() override {
        end_clip();
        file_.finish();
    }

private:
    void end_clip() {
        for (auto& [object, prediction] : objects_)
            for (const size_t prompt : prompts_of_label(names_, truth_, media_, object.first)) {
                prediction.subject = prompt;
                file_.add(to_result(prediction, Asked::phrases, truth_));
            }
        objects_.clear();
    }

    ListFile file_;
    GroundTruth truth_;
    TruthNames names_;
    ClipOrder order_;
    size_t media_ = 0;
    std::map<std::pair<std::string, int>, Prediction> objects_;  // by label and id
};

// A record for every picture, or every frame of every clip, of the ground truth.
class ResultsReader : public RecordReader {
public:
    ResultsReader(const std::string& path, const ReadOptions& options, bool video)
        : truth_(read_ground_truth(options.truth)), most_mask_bytes_(options.most_mask_bytes) {
        if (truth_.video != video)
            fail(truth_.path, ": expected ground truth of ", video ? "clips" : "images", ", found the other");
        predictions_ = read_predictions(path, Asked::phrases, truth_);
        by_media_.resize(truth_.media.size());
        for (size_t i = 0; i < predictions_.size(); ++i)
            by_media_[truth_.prompts[predictions_[i].subject].media].push_back(i);
    }

    bool next(Segmentation& record) override {
        while (media_ < truth_.media.size() && frame_ == truth_.media[media_].files.size()) {
            ++media_;
            frame_ = 0;
        }
        if (media_ == truth_.media.size()) return false;
        record = record_at(truth_.media[media_], frame_++);
        return true;
    }

private:
    Segmentation record_at(const GroundTruth::Media& media, size_t frame) const {
        Segmentation record;
        record.file = media.files[frame];
        record.width = media.width;
        record.height = media.height;
        if (truth_.video) {
            record.clip = media.name;
            record.frame = static_cast<int64_t>(frame);
        }
        MaskBudget budget(most_mask_bytes_);
        for (size_t i = 0; i < by_media_[media_].size(); ++i) {
            const Prediction& prediction = predictions_[by_media_[media_][i]];
            const Rle& mask = prediction.track[frame];
            if (mask.counts.empty()) continue;
            budget.take(media.width, media.height);
            Segmentation::Instance instance;
            instance.label = label_of(truth_.prompts[prediction.subject]);
            instance.id = static_cast<int>(i);
            instance.score = prediction.score;
            instance.mask = rle_decode(mask);
            set_box_from_mask(instance);
            record.instances.push_back(std::move(instance));
        }
        add_missing_prompts(record);
        return record;
    }

    // A category that was found but not asked for has no phrase.
    static std::string label_of(const GroundTruth::Prompt& prompt) {
        return prompt.phrase.empty() ? str("category ", prompt.category) : prompt.phrase;
    }

    GroundTruth truth_;
    int64_t most_mask_bytes_;
    std::vector<Prediction> predictions_;
    std::vector<std::vector<size_t>> by_media_;
    size_t media_ = 0, frame_ = 0;
};

void need_truth(const std::string& path, const std::string& truth) {
    if (truth.empty())
        fail(path, ": predictions name pictures and labels by the numbers of a ground-truth file: name it by --truth");
}

}  // namespace

std::unique_ptr<DatasetWriter> coco_results_writer(const std::string& path, const WriteOptions& options) {
    if (options.truth.empty()) return std::make_unique<NumberedResults>(path, options);
    return std::make_unique<ImageResults>(path, read_ground_truth(options.truth));
}

std::unique_ptr<RecordReader> coco_results_reader(const std::string& path, const ReadOptions& options) {
    need_truth(path, options.truth);
    return std::make_unique<ResultsReader>(path, options, false);
}

std::unique_ptr<DatasetWriter> veval_writer(const std::string& path, const WriteOptions& options) {
    need_truth(path, options.truth);
    return std::make_unique<ClipResults>(path, read_ground_truth(options.truth));
}

std::unique_ptr<RecordReader> veval_reader(const std::string& path, const ReadOptions& options) {
    need_truth(path, options.truth);
    return std::make_unique<ResultsReader>(path, options, true);
}

}  // namespace sam3
