#include "engine/concept_tracker.h"

#include "util/error.h"
#include "util/sigmoid.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sam3 {

namespace {

// Detections of one phrase as the detector's queries have them: object ids follow that order.
Tensor stack_by_query(std::vector<Detection>& found, std::vector<float>& scores) {
    if (found.empty()) return {};
    std::sort(found.begin(), found.end(), [](const Detection& a, const Detection& b) { return a.query < b.query; });
    const Tensor& first = found.front().logits;
    Tensor stack = Tensor::host({static_cast<int64_t>(found.size()), first.dim(0), first.dim(1)});
    for (size_t i = 0; i < found.size(); ++i) {
        const auto row = stack_row(stack, static_cast<int64_t>(i));
        std::memcpy(row.data(), found[i].logits.raw(), row.size_bytes());
        scores.push_back(found[i].score);
    }
    return stack;
}

// A detection as the tracker takes it: [h, w] of 0 and 1.
Tensor object_mask(const Tensor& stack, int detection) {
    const std::span<const float> logits = stack_row(stack, detection);
    Tensor mask = Tensor::host({stack.dim(1), stack.dim(2)});
    std::transform(logits.begin(), logits.end(), mask.data<float>(),
                   [](float logit) { return logit >= kDetectionInside ? 1.0F : 0.0F; });
    return mask;
}

// The object with its new answer; an object that was not visible becomes so.
void replace(PendingFrame& frame, const FrameObject& object) {
    std::erase_if(frame.objects, [&](const FrameObject& other) { return other.id == object.id; });
    const auto place = std::find_if(frame.objects.begin(), frame.objects.end(),
                                    [&](const FrameObject& other) { return other.id > object.id; });
    frame.objects.insert(place, object);
}

}  // namespace

ConceptTracker::ConceptTracker(std::shared_ptr<ImageSession> session, const ConceptVideoOptions& options)
    : session_(std::move(session)),
      options_(options),
      tracker_(session_->shared_model(), options.limits),
      book_(options.rules, model().behaviour().shift_on_removal),
      queue_(options.delayed ? options.rules.hotstart_delay : 0) {
    model().detector();  // fails with a sentence when there is none
    for (const std::string& phrase : options.phrases) add_phrase(phrase);
}

void ConceptTracker::add_phrase(const std::string& phrase) {
    if (std::all_of(phrase.begin(), phrase.end(), [](unsigned char c) { return c <= ' '; }))
        fail("there is nothing to look for: the phrase is empty");
    for (Phrase& known : phrases_)
        if (known.text == phrase) {
            known.active = true;
            return;
        }
    phrases_.push_back({phrase});
}

void ConceptTracker::remove_phrase(const std::string& phrase) {
    for (size_t i = 0; i < phrases_.size(); ++i) {
        if (phrases_[i].text != phrase) continue;
        phrases_[i].active = false;
        const std::vector<ConceptBook::Track> tracks = book_.tracks();
        for (const ConceptBook::Track& track : tracks)
            if (track.phrase == static_cast<int>(i)) remove(track.id);
    }
}

std::vector<std::string> ConceptTracker::phrases() const {
    std::vector<std::string> texts;
    for (const Phrase& phrase : phrases_)
        if (phrase.active) texts.push_back(phrase.text);
    return texts;
}

int64_t ConceptTracker::next_frame(std::optional<int64_t> index) const {
    const int64_t step = options_.reverse ? -1 : 1;
    if (!index && !last_ && options_.reverse && options_.total_frames < 0)
        fail("a video that is read backwards needs its length or the number of its first frame");
    const int64_t first = options_.reverse ? options_.total_frames - 1 : 0;
    const int64_t frame = index ? *index : last_ ? *last_ + step : first;
    if (frame < 0 || (options_.total_frames >= 0 && frame >= options_.total_frames))
        fail("frame ", frame, " lies outside the video",
             options_.total_frames >= 0 ? str(" of ", options_.total_frames, " frames") : std::string());
    if (last_ && (frame - *last_) * step <= 0)
        fail("frame ", frame, " does not come after frame ", *last_, options_.reverse ? " backwards" : "",
             " in this video: frames are pushed in their order");
    return frame;
}

StepOptions ConceptTracker::step_options() const {
    StepOptions step;
    step.reverse = options_.reverse;
    // Without a delay, what has come so far is the video, as transformers has it.
    step.total_frames = options_.total_frames >= 0 || options_.delayed ? options_.total_frames : pushed_;
    return step;
}

std::vector<VideoFrameResult> ConceptTracker::push(const Image& image, std::optional<int64_t> index) {
    if (phrases().empty()) fail("there is nothing to look for: add a phrase");
    const int64_t frame = next_frame(index);
    session_->encode({&image, 1});
    return push_encoded(frame);
}

std::vector<VideoFrameResult> ConceptTracker::push_encoded(std::optional<int64_t> index) {
    if (phrases().empty()) fail("there is nothing to look for: add a phrase");
    if (!session_->encoded()) fail("there is no frame: encode an image first");
    const int64_t frame = next_frame(index);
    const Size size = session_->original_size();
    last_ = frame;
    encoding_ = session_->encodings();
    ++pushed_;
    // The device looks for the phrases while the host tidies up what was followed.
    FrameTracks tracks = follow(frame);
    const std::vector<ConceptPrompt> wanted = prompts();
    StartedConcepts started = session_->start(wanted);
    clean_up(tracks.masks, rules().fill_hole_area, session_->ops().threads());
    const FrameDetections detections = detect(wanted, std::exchange(started, {}));
    FramePlan plan;
    {
        const Timing timing = session_->time_step("rules");
        plan = book_.plan({frame, options_.reverse, !options_.delayed}, detections, tracks, session_->ops().threads());
    }
    carry_out(frame, plan, detections);
    latest_ = {frame, size.width, size.height, book_.visible(plan, detections, tracks, session_->ops().threads())};
    for (const int id : plan.removed) queue_.forget(id);
    queue_.push(latest_);
    return rendered(queue_.take_ready());
}

// One for each phrase that is looked for, in their order.
std::vector<ConceptPrompt> ConceptTracker::prompts() const {
    std::vector<ConceptPrompt> prompts;
    for (const Phrase& phrase : phrases_) {
        if (!phrase.active) continue;
        ConceptPrompt prompt;
        prompt.text = phrase.text;
        prompt.options.threshold = rules().score_threshold_detection;
        prompt.options.top_k = options_.most_detections;
        prompt.options.full_size = false;
        prompts.push_back(std::move(prompt));
    }
    return prompts;
}

FrameDetections ConceptTracker::detect(std::span<const ConceptPrompt> prompts, const StartedConcepts& started) {
    std::vector<ConceptResult> results = session_->segment(prompts, started);
    FrameDetections detections;
    size_t next = 0;
    for (size_t i = 0; i < phrases_.size(); ++i) {
        if (!phrases_[i].active) continue;
        std::vector<float> scores;
        const Tensor stack = stack_by_query(results[next++].detections, scores);
        append_detections(rules(), static_cast<int>(i), scores, stack, detections);
    }
    return detections;
}

FrameTracks ConceptTracker::follow(int64_t frame) {
    if (tracker_.ids().empty()) return {};
    StepOptions step = step_options();
    step.remember = false;
    TrackedFrame tracked = tracker_.step(session_->ops(), session_->interactive_features(), frame, step);
    if (tracked.ids != book_.ids()) fail("the tracker lost an object: ", tracked.ids.size(), " of ", ids().size());
    return {tracked.masks, std::move(tracked.object_score)};
}

void ConceptTracker::carry_out(int64_t frame, const FramePlan& plan, const FrameDetections& detections) {
    Ops& ops = session_->ops();
    if (!plan.ids.empty()) {
        for (const auto& [id, detection] : plan.reconditioned) tracker_.make_conditioning(id, frame);
        tracker_.remember(ops, session_->interactive_features(), frame, plan.memory_masks, plan.seen);
    }
    if (!plan.new_ids.empty()) {
        for (size_t i = 0; i < plan.new_ids.size(); ++i)
            tracker_.prompt(plan.new_ids[i], frame,
                            {.mask = object_mask(detections.masks, plan.new_detections[i]), .by_person = false});
        StepOptions step = step_options();
        step.only_prompted = !model().behaviour().retrack_with_new_objects;
        tracker_.step(ops, session_->interactive_features(), frame, step);
    }
    for (const int id : plan.removed) tracker_.remove(id);
}

std::vector<VideoFrameResult> ConceptTracker::rendered(const std::vector<PendingFrame>& frames) const {
    const Timing timing = session_->time_step("render");
    std::vector<std::string> texts;
    for (const Phrase& phrase : phrases_) texts.push_back(phrase.text);
    std::vector<VideoFrameResult> results;
    for (const PendingFrame& frame : frames) results.push_back(render(frame, texts, session_->ops()));
    return results;
}

std::vector<VideoFrameResult> ConceptTracker::finish() { return rendered(queue_.take_all()); }

void ConceptTracker::turn(bool reverse) {
    if (!queue_.frames().empty())
        fail(queue_.frames().size(), " frames are still held back: finish this direction before turning");
    options_.reverse = reverse;
    last_.reset();
}

VideoFrameResult ConceptTracker::refine(int id, const VisualQuery& query) {
    if (!last_ || encoding_ != session_->encodings())
        fail("there is no frame to correct object ", id, " on: push one first");
    if (!tracker_.has(id)) fail("there is no object ", id, " to correct");
    const auto track = std::find_if(book_.tracks().begin(), book_.tracks().end(),
                                    [&](const ConceptBook::Track& other) { return other.id == id; });
    tracker_.prompt(id, *last_, {.where = session_->to_network(query, /*correction=*/true)}, /*keep_old=*/!query.box);
    StepOptions step = step_options();
    step.only_prompted = true;
    const TrackedFrame answer = tracker_.step(session_->ops(), session_->interactive_features(), *last_, step);
    const auto row = std::find(answer.ids.begin(), answer.ids.end(), id) - answer.ids.begin();
    clean_up(answer.masks, rules().fill_hole_area);
    book_.vouch_for(id);
    const FrameObject object{id, track->phrase, track->score, sigmoid(answer.object_score[static_cast<size_t>(row)]),
                             copy_of(answer.masks.select(0, row))};
    replace(latest_, object);
    for (PendingFrame& frame : queue_.frames())
        if (frame.frame == *last_) replace(frame, object);
    return rendered({latest_}).front();
}

void ConceptTracker::remove(int id) {
    book_.remove(id);
    tracker_.remove(id);
    queue_.forget(id);
    std::erase_if(latest_.objects, [&](const FrameObject& object) { return object.id == id; });
}

void ConceptTracker::reset() {
    book_.clear();
    tracker_.reset();
    queue_.take_all();
    latest_ = {};
    last_.reset();
    pushed_ = 0;
}

}  // namespace sam3
