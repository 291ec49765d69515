#include "engine/visual_tracker.h"

#include "engine/mask_rules.h"
#include "util/error.h"
#include "util/sigmoid.h"

#include <numeric>

namespace sam3 {

namespace {

constexpr const char* kSessionKind = "click video";

}  // namespace

VisualTracker::VisualTracker(std::shared_ptr<ImageSession> session, const VisualVideoOptions& options)
    : session_(std::move(session)), options_(options), tracker_(session_->shared_model(), options.limits) {}

void VisualTracker::reset() {
    tracker_.reset();
    last_.reset();
    encoding_ = 0;
}

// Encodes a frame unless it is the one that was looked at last.
void VisualTracker::look_at(const Image& image, int64_t frame) {
    if (frame < 0) fail("frames are counted from 0, found ", frame);
    if (options_.total_frames >= 0 && frame >= options_.total_frames)
        fail("the video has ", options_.total_frames, " frames, found frame ", frame);
    if (last_ == frame && encoding_ == session_->encodings()) return;
    encoding_ = 0;
    session_->encode({&image, 1});
    assume_encoded(frame);
}

void VisualTracker::assume_encoded(int64_t frame) {
    last_ = frame;
    encoding_ = session_->encodings();
}

const InteractiveFeatures& VisualTracker::features() {
    if (!last_ || encoding_ != session_->encodings())
        fail("the frame is not at hand: another image was encoded since, or none was");
    return session_->interactive_features();
}

TrackPrompt VisualTracker::prompt_of(const VisualQuery& query, bool correction) {
    if (query.mask_logits.defined()) fail("a video takes masks as pixels of the frame, not as logits");
    TrackPrompt prompt;
    if (query.mask.data.empty()) {
        prompt.where = session_->to_network(query, correction);
        return prompt;
    }
    if (!query.points.empty() || query.box) fail("give a mask, or points and a box, not both on one frame");
    const auto side = session_->model().image_size();
    session_->to_network(query, correction);  // checks the size
    prompt.mask = Tensor::host({1, query.mask.height, query.mask.width, 1});
    for (size_t i = 0; i < query.mask.data.size(); ++i)
        prompt.mask.data<float>()[i] = query.mask.data[i] != 0 ? 1.0F : 0.0F;
    Ops& ops = session_->ops();
    prompt.mask = ops.download(ops.resize(ops.upload(prompt.mask), side, side, Interpolation::bilinear,
                                          /*antialias=*/true))
                      .reshape({side, side});
    for (int64_t i = 0; i < prompt.mask.numel(); ++i)
        prompt.mask.data<float>()[i] = prompt.mask.data<float>()[i] >= 0.5F ? 1.0F : 0.0F;
    return prompt;
}

VideoFrameResult VisualTracker::result_of(const TrackedFrame& tracked, int64_t frame) {
    const Timing timing = session_->time_step("render");
    const auto count = static_cast<int64_t>(tracked.ids.size());
    if (count > 0 && options_.clean_up_area > 0)
        clean_up(tracked.masks, options_.clean_up_area, session_->ops().threads());
    const Size size = session_->original_size();
    PendingFrame pending{frame, size.width, size.height, {}};
    for (int64_t i = 0; i < count; ++i) {
        const auto n = static_cast<size_t>(i);
        const float score = sigmoid(tracked.object_score[n]);
        // Objects of one group give way to each other.
        pending.objects.push_back(
            {tracked.ids[n], options_.separate ? 0 : static_cast<int>(i), score, score, tracked.masks.select(0, i)});
    }
    const std::vector<std::string> no_phrases(static_cast<size_t>(std::max<int64_t>(count, 1)));
    return render(pending, no_phrases, session_->ops());
}

VideoFrameResult VisualTracker::prompt(const Image& image, int64_t frame, int id, const VisualQuery& query,
                                       bool keep_old) {
    look_at(image, frame);
    return prompt(id, query, keep_old);
}

VideoFrameResult VisualTracker::prompt(int id, const VisualQuery& query, bool keep_old) {
    const InteractiveFeatures& frame_features = features();
    tracker_.prompt(id, *last_, prompt_of(query, keep_old && tracker_.has(id)), keep_old);
    const StepOptions step{.total_frames = options_.total_frames, .only_prompted = true};
    return result_of(tracker_.step(session_->ops(), frame_features, *last_, step), *last_);
}

VideoFrameResult VisualTracker::track(const Image& image, int64_t frame, bool reverse) {
    if (tracker_.ids().empty()) fail("there is no object to follow: point at one before tracking");
    look_at(image, frame);
    const StepOptions step{.reverse = reverse, .total_frames = options_.total_frames};
    return result_of(tracker_.step(session_->ops(), features(), frame, step), frame);
}

void VisualTracker::save(const std::string& path) const {
    SessionWriter writer(session_->model(), kSessionKind);
    tracker_.save(writer, session_->ops());
    writer.put("clicks", nlohmann::json{{"last_frame", last_.value_or(-1)}});
    writer.save(path);
}

void VisualTracker::restore(const std::string& path) {
    const SessionReader reader(path, session_->model(), kSessionKind);
    const nlohmann::json& state = reader.state("clicks");
    if (!state.is_object() || !state.contains("last_frame") || !state["last_frame"].is_number_integer())
        fail(path, ": the section 'clicks' of this session has no last_frame");
    tracker_.restore(reader, session_->ops());
    const auto last = state["last_frame"].get<int64_t>();
    last_ = last < 0 ? std::nullopt : std::optional(last);
    encoding_ = 0;
}

}  // namespace sam3
