#include "engine/object_tracker.h"

#include "util/error.h"
#include "util/sigmoid.h"

#include <algorithm>
#include <cstring>

namespace sam3 {

namespace {

// Objects that run through the network together. On a CPU more would only cost memory; a GPU waits for scores after
// each group, and the last of its multiprocessors' rounds is the fuller the more there is to do (100 MB an object).
size_t followed_together(const Ops& ops) { return ops.device().is_host() ? 4 : 16; }
constexpr size_t kPromptedTogether = 16;

template <typename T, typename Run>
void in_chunks(const std::vector<T>& items, size_t most, const Run& run) {
    for (size_t i = 0; i < items.size(); i += most)
        run(std::span<const T>(items).subspan(i, std::min(most, items.size() - i)));
}

// Memory of its own for one row of a batch: the others may go while it stays.
Tensor own_row(Ops& ops, const Tensor& batch, size_t row) {
    const Tensor view = batch.select(0, static_cast<int64_t>(row));
    Tensor copy = ops.empty(view.shape(), view.dtype());
    ops.copy_(copy, view);
    return copy;
}

// [h, w] each -> [B, h, w]
Tensor stack(Ops& ops, const std::vector<Tensor>& maps) {
    std::vector<Tensor> rows;
    rows.reserve(maps.size());
    for (const Tensor& map : maps) rows.push_back(map.unsqueeze(0));
    return ops.concat(rows, 0);
}

// [B, h, w] -> [B, size, size]
Tensor enlarged(Ops& ops, const Tensor& masks, int64_t size, bool antialias) {
    if (masks.dim(1) == size && masks.dim(2) == size) return masks;
    const Tensor maps = masks.reshape({masks.dim(0), masks.dim(1), masks.dim(2), 1});
    return ops.resize(maps, size, size, Interpolation::bilinear, antialias).reshape({masks.dim(0), size, size});
}

// How sure the tracker was of its mask, 0 to 1: Meta's score for the choice of memories.
float quality_of(float object_score, float iou) { return std::max(0.0F, 2.0F * sigmoid(object_score) - 1.0F) * iou; }

int point_count(const VisualPrompt& where) { return static_cast<int>(where.points.size()) + (where.box ? 2 : 0); }

}  // namespace

ObjectTracker::ObjectTracker(std::shared_ptr<const Model> model, const BankLimits& limits)
    : model_(std::move(model)), limits_(limits) {
    model_->tracker();  // fails when the model has none
}

void ObjectTracker::remove(int id) {
    if (objects_.erase(id) != 0) ids_.erase(std::find(ids_.begin(), ids_.end(), id));
}

void ObjectTracker::reset() {
    ids_.clear();
    objects_.clear();
    last_frame_.reset();
}

void ObjectTracker::prompt(int id, int64_t frame, const TrackPrompt& prompt, bool keep_old) {
    const bool points = point_count(prompt.where) != 0;
    if (points == prompt.mask.defined())
        fail("object ", id, " on frame ", frame, ": expected points and a box, or a mask, found ",
             points ? "both" : "neither");
    if (keep_old && prompt.where.box)
        fail("object ", id, " on frame ", frame, ": a box cannot join earlier points: give the box first");
    if (prompt.mask && prompt.mask.rank() != 2)
        fail("object ", id, " on frame ", frame, ": expected a mask [height, width], found ",
             to_string(prompt.mask.shape()));
    if (!has(id)) ids_.push_back(id);
    Object& object = objects_[id];
    TrackPrompt told = prompt;
    const auto earlier = object.said.find(frame);
    if (points && keep_old && earlier != object.said.end()) {
        told.where = earlier->second;
        told.where.points.insert(told.where.points.end(), prompt.where.points.begin(), prompt.where.points.end());
    }
    if (points && told.by_person)
        object.said[frame] = told.where;
    else
        object.said.erase(frame);
    object.pending[frame] = std::move(told);
}

// Which objects take part in a step, and how.
std::vector<ObjectTracker::Task> ObjectTracker::plan(int64_t frame, const StepOptions& options) {
    std::vector<Task> tasks;
    for (const int id : ids_) {
        Task task;
        task.id = id;
        task.object = &objects_.at(id);
        const auto pending = task.object->pending.find(frame);
        const MemoryBank::Entry* entry = task.object->bank.find(frame);
        if (pending != task.object->pending.end()) {
            task.prompt = std::move(pending->second);
            task.object->pending.erase(pending);
            task.first = !task.object->tracked.contains(frame) || !task.object->bank.can_track();
        } else if (options.only_prompted || !task.object->bank.can_track()) {
            continue;
        } else if (entry != nullptr && entry->conditioning && entry->masks) {
            task.reused = true;
            task.masks = entry->masks;
            task.object_score = entry->object_score;
        }
        tasks.push_back(std::move(task));
    }
    return tasks;
}

// image [1 or B, H, W, C]: the frame as these objects see it.
void ObjectTracker::decode(Ops& ops, const InteractiveFeatures& features, const Tensor& image,
                           std::span<Task* const> tasks) const {
    const MemoryTracker& tracker = model_->tracker();
    std::vector<InteractivePrompt> prompts(tasks.size());
    std::vector<bool> compete;
    for (size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i]->prompt) prompts[i].where = tasks[i]->prompt->where;
        compete.push_back(tracker.competes(tasks[i]->first, point_count(prompts[i].where)));
    }
    const MemoryTracker::Answer answer =
        tracker.decode(ops, image, features.fine, prompts, compete, model_->image_size());
    for (size_t i = 0; i < tasks.size(); ++i) {
        tasks[i]->masks = own_row(ops, answer.masks, i);
        tasks[i]->pointer = own_row(ops, answer.pointers, i);
        tasks[i]->object_score = answer.object_score[i];
        tasks[i]->iou = answer.iou[i];
    }
}

void ObjectTracker::adopt(Ops& ops, const InteractiveFeatures& features, std::span<Task* const> tasks) const {
    const int64_t size = model_->image_size();
    Tensor given = Tensor::host({static_cast<int64_t>(tasks.size()), size, size});
    for (size_t i = 0; i < tasks.size(); ++i) {
        const Tensor mask = ops.upload(tasks[i]->prompt->mask).unsqueeze(0);
        const Tensor full = ops.download(enlarged(ops, mask, size, /*antialias=*/true));
        std::memcpy(given.data<float>() + static_cast<int64_t>(i) * size * size, full.raw(),
                    static_cast<size_t>(size * size) * sizeof(float));
    }
    const MemoryTracker::Answer answer = model_->tracker().adopt(ops, features.map, features.fine, given);
    for (size_t i = 0; i < tasks.size(); ++i) {
        tasks[i]->masks = own_row(ops, answer.masks, i);
        tasks[i]->pointer = own_row(ops, answer.pointers, i);
        tasks[i]->given = answer.adopted.select(0, static_cast<int64_t>(i));
        tasks[i]->object_score = answer.object_score[i];
        tasks[i]->iou = answer.iou[i];
    }
}

void ObjectTracker::follow(Ops& ops, const InteractiveFeatures& features, const Moment& moment,
                           std::span<Task* const> tasks) const {
    const MemoryTracker& tracker = model_->tracker();
    std::vector<ObjectMemory> memories;
    for (const Task* task : tasks)
        memories.push_back(task->object->bank.recall(tracker.config(), model_->behaviour(), moment));
    decode(ops, features, tracker.with_memory(ops, features.map, memories), tasks);
}

void ObjectTracker::store(const Task& task, int64_t frame) const {
    const MemoryBank::Entry* before = task.object->bank.find(frame);
    const bool was_conditioning = before != nullptr && before->conditioning;
    MemoryBank::Entry entry;
    entry.pointer = task.pointer;
    entry.masks = task.masks;
    entry.object_score = task.object_score;
    entry.quality = quality_of(task.object_score, task.iou);
    entry.conditioning =
        task.first || was_conditioning || (task.prompt && model_->behaviour().corrections_are_conditioning);
    entry.by_person = entry.conditioning && (task.prompt ? task.prompt->by_person : before->by_person);
    task.object->bank.put(frame, std::move(entry));
    if (!task.first) task.object->tracked.add(frame);
}

void ObjectTracker::write_memories(Ops& ops, const InteractiveFeatures& features, std::span<Task* const> tasks,
                                   int64_t frame) const {
    const bool together = model_->behaviour().binarize_together;
    const bool any = std::any_of(tasks.begin(), tasks.end(), [](const Task* task) { return task->prompt.has_value(); });
    for (const bool binary : {false, true}) {
        std::vector<Task*> group;
        for (Task* task : tasks)
            if ((together ? any : task->prompt.has_value()) == binary) group.push_back(task);
        in_chunks(group, followed_together(ops), [&](std::span<Task* const> chunk) {
            std::vector<Tensor> masks;
            std::vector<bool> seen;
            for (const Task* task : chunk) {
                const Tensor full = enlarged(ops, task->masks.unsqueeze(0), model_->image_size(), /*antialias=*/false);
                masks.push_back(task->given ? task->given : full.select(0, 0));
                seen.push_back(task->object_score > 0);
            }
            const Tensor tokens = model_->tracker().encode_memory(ops, features.map, stack(ops, masks), binary, seen);
            for (size_t i = 0; i < chunk.size(); ++i)
                chunk[i]->object->bank.find(frame)->tokens = own_row(ops, tokens, i);
        });
    }
}

TrackedFrame ObjectTracker::step(Ops& ops, const InteractiveFeatures& features, int64_t frame,
                                 const StepOptions& options) {
    std::vector<Task> tasks = plan(frame, options);
    mark_pass(frame, options.reverse);
    std::vector<Task*> clicked;
    std::vector<Task*> adopted;
    std::vector<Task*> followed;
    std::vector<Task*> answered;
    for (Task& task : tasks) {
        if (task.reused) continue;
        (task.prompt && task.prompt->mask ? adopted : task.first ? clicked : followed).push_back(&task);
        answered.push_back(&task);
    }
    if (!clicked.empty()) {
        const Tensor image = model_->tracker().without_memory(ops, features.map);
        in_chunks(clicked, kPromptedTogether,
                  [&](std::span<Task* const> chunk) { decode(ops, features, image, chunk); });
    }
    in_chunks(adopted, kPromptedTogether, [&](std::span<Task* const> chunk) { adopt(ops, features, chunk); });
    in_chunks(followed, followed_together(ops), [&](std::span<Task* const> chunk) {
        follow(ops, features, {frame, options.reverse, options.total_frames}, chunk);
    });
    for (const Task* task : answered) store(*task, frame);
    if (options.remember) write_memories(ops, features, answered, frame);
    prune(frame);

    TrackedFrame result;
    std::vector<Tensor> masks;
    for (const Task& task : tasks) {
        result.ids.push_back(task.id);
        result.object_score.push_back(task.object_score);
        masks.push_back(task.masks);
    }
    if (!masks.empty()) result.masks = ops.download(stack(ops, masks));
    return result;
}

void ObjectTracker::remember(Ops& ops, const InteractiveFeatures& features, int64_t frame, const Tensor& masks,
                             const std::vector<bool>& seen) {
    if (ids_.empty()) return;
    if (!masks || masks.rank() != 3 || masks.dim(0) != static_cast<int64_t>(ids_.size()) || seen.size() != ids_.size())
        fail("expected a mask to remember for each of ", ids_.size(), " objects, found ",
             masks ? to_string(masks.shape()) : "none", " and ", seen.size(), " signs of presence");
    std::vector<size_t> rows(ids_.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    in_chunks(rows, followed_together(ops), [&](std::span<const size_t> chunk) {
        const auto begin = static_cast<int64_t>(chunk.front());
        const Tensor some = ops.upload(masks.slice(0, begin, static_cast<int64_t>(chunk.size())));
        const std::vector<bool> there(seen.begin() + begin, seen.begin() + begin + some.dim(0));
        const Tensor tokens = model_->tracker().encode_memory(ops, features.map, some, /*binary=*/false, there);
        for (size_t i = 0; i < chunk.size(); ++i)
            if (MemoryBank::Entry* entry = objects_.at(ids_[chunk[i]]).bank.find(frame))
                entry->tokens = own_row(ops, tokens, i);
    });
}

void ObjectTracker::make_conditioning(int id, int64_t frame) {
    const auto found = objects_.find(id);
    if (found == objects_.end()) fail("there is no object ", id, " to make a conditioning frame for");
    if (MemoryBank::Entry* entry = found->second.bank.find(frame)) entry->conditioning = true;
}

// A pass is a run of steps in one direction, one frame after the other; looking at a frame again goes on with it.
void ObjectTracker::mark_pass(int64_t frame, bool reverse) {
    const bool goes_on = last_frame_ && last_reverse_ == reverse &&
                         (frame == *last_frame_ || frame == *last_frame_ + (reverse ? -1 : 1));
    if (!goes_on) pass_start_ = frame;
    last_frame_ = frame;
    last_reverse_ = reverse;
}

void ObjectTracker::prune(int64_t frame) {
    for (auto& [id, object] : objects_)
        object.bank.prune(model_->tracker().config(), model_->behaviour(), limits_, frame, pass_start_);
}

size_t ObjectTracker::memory_bytes() const {
    size_t total = 0;
    for (const auto& [id, object] : objects_) total += object.bank.bytes();
    return total;
}

}  // namespace sam3
