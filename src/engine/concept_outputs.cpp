#include "engine/concept_outputs.h"

#include "mask/upsample.h"
#include "util/error.h"

#include <algorithm>
#include <cstring>

namespace sam3 {

namespace {

std::vector<Mask> enlarged(const PendingFrame& frame, int threads) {
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

// The same by a device, so many at a time that they need little memory.
std::vector<Mask> enlarged_on_device(const PendingFrame& frame, Ops& ops) {
    constexpr int64_t kMostBytes = int64_t{128} << 20;
    std::vector<Mask> masks(frame.objects.size());
    const int64_t area = static_cast<int64_t>(frame.width) * frame.height;
    const auto most = static_cast<size_t>(std::max<int64_t>(1, kMostBytes / area));
    for (size_t start = 0; start < masks.size(); start += most) {
        const size_t count = std::min(most, masks.size() - start);
        const Tensor& first = frame.objects[start].logits;
        Tensor maps = Tensor::host({static_cast<int64_t>(count), first.dim(0), first.dim(1)});
        for (size_t i = 0; i < count; ++i)
            std::memcpy(maps.select(0, static_cast<int64_t>(i)).raw(), frame.objects[start + i].logits.raw(),
                        static_cast<size_t>(first.numel()) * sizeof(float));
        const Tensor full = ops.download(ops.resize_above(ops.upload(maps), frame.height, frame.width, 0.0F));
#pragma omp parallel for schedule(dynamic) num_threads(ops.threads()) if (count > 1)
        for (size_t i = 0; i < count; ++i) {
            const uint8_t* from = full.data<uint8_t>() + static_cast<int64_t>(i) * area;
            Mask& mask = masks[start + i];
            mask.width = frame.width;
            mask.height = frame.height;
            mask.data.assign(from, from + area);
        }
    }
    return masks;
}

}  // namespace

VideoFrameResult render(const PendingFrame& frame, std::span<const std::string> phrases, Ops& ops) {
    VideoFrameResult result;
    result.frame = frame.frame;
    const size_t count = frame.objects.size();
    std::vector<Mask> all = ops.device().is_host() ? enlarged(frame, ops.threads()) : enlarged_on_device(frame, ops);
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
    if (masks.size() > 1) separate(masks, scores, groups);
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
