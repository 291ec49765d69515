#include "engine/concept_outputs.h"

#include "engine/device_masks.h"
#include "mask/upsample.h"
#include "util/error.h"

#include <cstring>

namespace sam3 {

namespace {

std::vector<Mask> enlarged_here(const PendingFrame& frame, int threads) {
    std::vector<Mask> masks(frame.objects.size());
    // An object a thread where there are many, else all threads for each.
    const bool many = masks.size() >= static_cast<size_t>(threads);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (many)
    for (size_t i = 0; i < masks.size(); ++i) {
        const Tensor& map = frame.objects[i].logits;
        const FloatMap logits{map.data<float>(), static_cast<int>(map.dim(1)), static_cast<int>(map.dim(0))};
        masks[i] = upsample_mask(logits, frame.width, frame.height, {.threads = many ? 1 : threads});
    }
    return masks;
}

std::vector<Mask> enlarged(const PendingFrame& frame, Ops& ops) {
    if (frame.objects.empty()) return {};
    if (ops.device().is_host()) return enlarged_here(frame, ops.threads());
    const Tensor& first = frame.objects.front().logits;
    const Shape shape = {static_cast<int64_t>(frame.objects.size()), first.dim(0), first.dim(1)};
    const Tensor maps(ops.device().allocate_host(static_cast<size_t>(shape.numel()) * sizeof(float)), shape,
                      DType::f32);
#pragma omp parallel for num_threads(ops.threads()) if (frame.objects.size() > 1)
    for (size_t i = 0; i < frame.objects.size(); ++i)
        std::memcpy(maps.select(0, static_cast<int64_t>(i)).raw(), frame.objects[i].logits.raw(),
                    static_cast<size_t>(first.numel()) * sizeof(float));
    return enlarged_on_device(ops, ops.upload(maps), {frame.width, frame.height});
}

}  // namespace

VideoFrameResult render(const PendingFrame& frame, std::span<const std::string> phrases, Ops& ops) {
    VideoFrameResult result;
    result.frame = frame.frame;
    const size_t count = frame.objects.size();
    std::vector<Mask> all = enlarged(frame, ops);
    std::vector<Box> boxes(count);
#pragma omp parallel for schedule(dynamic) num_threads(ops.threads()) if (count > 1)
    for (size_t i = 0; i < count; ++i) boxes[i] = box_around(all[i]);
    std::vector<Mask> masks;
    std::vector<float> scores;
    std::vector<int> groups;
    for (size_t i = 0; i < count; ++i) {
        const FrameObject& object = frame.objects[i];
        if (boxes[i].x1 <= boxes[i].x0) continue;  // nothing is left of it
        const std::string& phrase = phrases[static_cast<size_t>(object.phrase)];
        result.objects.push_back({object.id, phrase, object.score, object.tracker_score, boxes[i], {}});
        masks.push_back(std::move(all[i]));
        scores.push_back(object.tracker_score);
        groups.push_back(object.phrase);
    }
    if (masks.size() > 1) separate(masks, scores, groups, ops.threads());
    for (size_t i = 0; i < masks.size(); ++i) result.objects[i].mask = std::move(masks[i]);
    return result;
}

void OutputQueue::forget(int id) {
    for (PendingFrame& frame : frames_)
        std::erase_if(frame.objects, [&](const FrameObject& object) { return object.id == id; });
}

std::vector<PendingFrame> OutputQueue::take_ready() {
    std::vector<PendingFrame> ready;
    while (!frames_.empty() && static_cast<int64_t>(frames_.size()) >= delay_) {
        ready.push_back(std::move(frames_.front()));
        frames_.pop_front();
    }
    return ready;
}

std::vector<PendingFrame> OutputQueue::take_all() {
    std::vector<PendingFrame> all(std::make_move_iterator(frames_.begin()), std::make_move_iterator(frames_.end()));
    frames_.clear();
    return all;
}

}  // namespace sam3
