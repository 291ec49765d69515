#include "eval_model.h"

#include "engine/concept_tracker.h"
#include "engine/visual_tracker.h"
#include "eval/clicks.h"
#include "media/image_io.h"
#include "progress.h"
#include "util/error.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace sam3::cli {

namespace {

// Asks one model everything, picture by picture or clip by clip.
class Examiner {
public:
    Examiner(const GroundTruth& truth, EvalTask task, std::string folder, std::shared_ptr<ImageSession> session,
             float threshold)
        : truth_(truth), task_(task), folder_(std::move(folder)), session_(std::move(session)), threshold_(threshold) {
        subjects_.resize(truth.media.size());
        if (is_concept(task_)) {
            for (size_t i = 0; i < prompts().size(); ++i) subjects_.at(prompts()[i].media).push_back(i);
        } else {
            for (size_t i = 0; i < truth_.objects.size(); ++i)
                if (truth_.objects[i].clickable) subjects_.at(truth_.objects[i].media).push_back(i);
        }
    }

    void examine(size_t media) {
        if (subjects_[media].empty()) return;
        if (task_ == EvalTask::video_text) return follow_phrases(media);
        if (task_ == EvalTask::video_click) return follow_clicks(media);
        const Image image = read(media, 0);
        session_->encode({&image, 1});
        is_concept(task_) ? find(media) : click(media);
    }

    std::vector<Prediction> take() { return std::move(predictions_); }

private:
    const std::vector<GroundTruth::Prompt>& prompts() const {
        return task_ == EvalTask::exemplar ? truth_.exemplars : truth_.prompts;
    }

    Image read(size_t media, size_t frame) const {
        const GroundTruth::Media& picture = truth_.media[media];
        const std::string path = (std::filesystem::path(folder_) / picture.files[frame]).string();
        Image image = read_image(path);
        if (image.width != picture.width || image.height != picture.height)
            fail(path, ": expected ", picture.width, " x ", picture.height, " pixels, as ", truth_.path,
                 " says, found ", image.width, " x ", image.height);
        return image;
    }

    void find(size_t media) {
        std::vector<ConceptPrompt> asked;
        for (const size_t subject : subjects_[media]) {
            ConceptPrompt prompt;
            prompt.text = prompts()[subject].phrase;
            if (prompts()[subject].exemplar) prompt.positive_boxes.push_back(*prompts()[subject].exemplar);
            prompt.options.threshold = threshold_;
            asked.push_back(std::move(prompt));
        }
        const std::vector<ConceptResult> results = session_->segment(asked);
        for (size_t i = 0; i < results.size(); ++i)
            for (const Detection& detection : results[i].detections)
                predictions_.push_back({subjects_[media][i], 0, detection.score, {rle_encode(detection.mask)}});
    }

    // All objects of a picture together: a click each, then corrections that start from the answer before.
    void click(size_t media) {
        const std::vector<size_t>& objects = subjects_[media];
        std::vector<Mask> truth(objects.size());
        std::vector<VisualQuery> queries(objects.size());
        for (size_t i = 0; i < objects.size(); ++i) {
            truth[i] = rle_decode(truth_.objects[objects[i]].track.front());
            add_point(queries[i], first_click(truth[i]).value());
            queries[i].multimask = true;  // one click can mean several things: the surest of three counts
        }
        for (int clicks = 1; clicks <= clicks_of(task_); ++clicks) {
            const std::vector<VisualAnswer> answers = session_->segment(queries);
            for (size_t i = 0; i < objects.size(); ++i) {
                const VisualCandidate& best = answers[i].candidates.front();
                predictions_.push_back({objects[i], clicks, best.iou, {rle_encode(best.mask)}});
                queries[i].mask_logits = best.logits;
                queries[i].multimask = false;
                if (const auto next = correcting_click(best.mask, truth[i])) add_point(queries[i], *next);
            }
        }
    }

    static void add_point(VisualQuery& query, const SimulatedClick& click) {
        query.points.push_back({static_cast<float>(click.x), static_cast<float>(click.y), click.positive});
    }

    struct Followed {
        float score = 0;
        Track track;
    };
    using FollowedObjects = std::map<int, Followed>;  // by their number in the clip

    static void collect(const std::vector<VideoFrameResult>& frames, size_t length, FollowedObjects& objects) {
        for (const VideoFrameResult& result : frames) {
            for (const VideoObject& object : result.objects) {
                Followed& followed = objects[object.id];
                followed.score = object.score;
                followed.track.resize(length);
                followed.track.at(static_cast<size_t>(result.frame)) = rle_encode(object.mask);
            }
        }
    }

    // Each phrase is followed for itself, so that no answer depends on what else is asked; a frame is encoded once.
    void follow_phrases(size_t media) {
        const size_t length = truth_.media[media].files.size();
        const std::vector<size_t>& subjects = subjects_[media];
        std::vector<ConceptTracker> trackers;
        std::vector<FollowedObjects> followed(subjects.size());
        for (const size_t subject : subjects) {
            ConceptVideoOptions options;
            options.phrases = {prompts()[subject].phrase};
            options.rules = session_->model().video_rules();
            options.total_frames = static_cast<int64_t>(length);
            trackers.emplace_back(session_, options);
        }
        for (size_t frame = 0; frame < length; ++frame) {
            const Image image = read(media, frame);
            session_->encode({&image, 1});
            for (size_t i = 0; i < trackers.size(); ++i) collect(trackers[i].push_encoded(), length, followed[i]);
        }
        for (size_t i = 0; i < trackers.size(); ++i) {
            collect(trackers[i].finish(), length, followed[i]);
            for (const auto& [id, object] : followed[i])
                predictions_.push_back({subjects[i], 0, object.score, object.track});
        }
    }

    void follow_clicks(size_t media) {
        const size_t length = truth_.media[media].files.size();
        VisualVideoOptions options;
        options.total_frames = static_cast<int64_t>(length);
        VisualTracker tracker(session_, options);
        FollowedObjects followed;
        const std::vector<size_t>& objects = subjects_[media];
        for (size_t frame = 0; frame < length; ++frame) {
            const Image image = read(media, frame);
            for (size_t i = 0; frame == 0 && i < objects.size(); ++i) {
                VisualQuery query;
                add_point(query, first_click(rle_decode(truth_.objects[objects[i]].track.front())).value());
                tracker.prompt(image, 0, static_cast<int>(i), query);
            }
            collect({tracker.track(image, static_cast<int64_t>(frame))}, length, followed);
        }
        for (const auto& [id, object] : followed)
            predictions_.push_back({objects[static_cast<size_t>(id)], 1, 1.0F, object.track});
    }

    const GroundTruth& truth_;
    EvalTask task_;
    std::string folder_;
    std::shared_ptr<ImageSession> session_;
    float threshold_;
    std::vector<std::vector<size_t>> subjects_;  // what is asked of each picture or clip
    std::vector<Prediction> predictions_;
};

}  // namespace

std::vector<Prediction> predict(const GroundTruth& truth, EvalTask task, const std::string& folder,
                                const ModelOptions& options, float threshold, Status& status) {
    status.show("loading " + options.path);
    const bool with_concepts = is_concept(task);
    const std::shared_ptr<const Model> model =
        options.load({.concepts = with_concepts, .clicks = !with_concepts || is_video(task), .video = is_video(task)});
    if (with_concepts)
        model->detector();
    else
        model->interactive_head();
    Examiner examiner(truth, task, folder, std::make_shared<ImageSession>(model, options.threads), threshold);
    const auto total = static_cast<int64_t>(truth.media.size());
    Pace pace(truth.video ? "clips" : "images");
    for (int64_t i = 0; i < total; ++i) {
        examiner.examine(static_cast<size_t>(i));
        status.show(str(truth.video ? "clip " : "image ", i + 1, " of ", total, ", ", pace.next(i + 1, total)));
    }
    status.clear();
    return examiner.take();
}

}  // namespace sam3::cli
