#include "engine/object_tracker.h"

#include "util/error.h"
#include "util/sigmoid.h"

#include <algorithm>
#include <cstring>

namespace sam3 {

namespace {

// Objects that run through the network together. More would only cost memory on a CPU; a GPU has room for the queries
// of several objects at a time, and what is left of its last wave of work is lost once instead of for every few.
constexpr size_t kFollowedTogether = 4, kFollowedTogetherOnGpu = 16;
constexpr size_t kPromptedTogether = 16;

size_t followed_together(const Ops& ops) { return ops.device().is_host() ? kFollowedTogether : kFollowedTogetherOnGpu; }

// As few chunks as possible, all of nearly one size.
template <typename T, typename Run>
void in_chunks(const std::vector<T>& items, size_t most, const Run& run) {
    const size_t chunks = (items.size() + most - 1) / most;
    for (size_t i = 0, begin = 0; i < chunks; ++i) {
        const size_t count = (items.size() - begin) / (chunks - i);
        run(std::span<const T>(items).subspan(begin, count));
        begin += count;
    }
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
ObjectTracker::Answered ObjectTracker::decode(Ops& ops, const InteractiveFeatures& features, const Tensor& image,
                                              std::span<Task* const> tasks) const {
    const MemoryTracker& tracker = model_->tracker();
    std::vector<InteractivePrompt> prompts(tasks.size());
    std::vector<bool> compete;
    for (size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i]->prompt) prompts[i].where = tasks[i]->prompt->where;
        compete.push_back(tracker.competes(tasks[i]->first, point_count(prompts[i].where)));
    }
    return answered(ops, tracker.decode(ops, image, features.fine, prompts, compete, model_->image_size()), tasks);
}

ObjectTracker::Answered ObjectTracker::adopt(Ops& ops, const InteractiveFeatures& features,
                                             std::span<Task* const> tasks) const {
    const int64_t size = model_->image_size();
    Tensor given = Tensor::host({static_cast<int64_t>(tasks.size()), size, size});
    for (size_t i = 0; i < tasks.size(); ++i) {
        const Tensor mask = ops.upload(tasks[i]->prompt->mask).unsqueeze(0);
        const Tensor full = ops.download(enlarged(ops, mask, size, /*antialias=*/true));
        std::memcpy(given.data<float>() + static_cast<int64_t>(i) * size * size, full.raw(),
                    static_cast<size_t>(size * size) * sizeof(float));
    }
    const MemoryTracker::Answer answer = model_->tracker().adopt(ops, features.map, features.fine, given);
    for (size_t i = 0; i < tasks.size(); ++i) tasks[i]->given = answer.adopted.select(0, static_cast<int64_t>(i));
    return answered(ops, answer, tasks);
}

ObjectTracker::Answered ObjectTracker::follow(Ops& ops, const InteractiveFeatures& features, const Moment& moment,
                                              std::span<Task* const> tasks) const {
    const MemoryTracker& tracker = model_->tracker();
    std::vector<ObjectMemory> memories;
    for (const Task* task : tasks)
        memories.push_back(task->object->bank.recall(tracker.config(), model_->behaviour(), moment));
    return decode(ops, features, tracker.with_memory(ops, features.map, memories), tasks);
}

ObjectTracker::Answered ObjectTracker::answered(Ops& ops, const MemoryTracker::Answer& answer,
                                                std::span<Task* const> tasks) {
    for (size_t i = 0; i < tasks.size(); ++i) {
        tasks[i]->masks = own_row(ops, answer.masks, i);
        tasks[i]->pointer = own_row(ops, answer.pointers, i);
        tasks[i]->batch = answer.masks;
        tasks[i]->row = static_cast<int64_t>(i);
    }
    return {{tasks.begin(), tasks.end()}, answer.scores};
}

// [N, h, w]; without a copy where they are a whole batch in its order.
Tensor ObjectTracker::masks_of(Ops& ops, std::span<Task* const> tasks) {
    const Tensor& batch = tasks.front()->batch;
    bool whole = batch && batch.dim(0) == static_cast<int64_t>(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i)
        whole = whole && tasks[i]->batch && tasks[i]->batch.raw() == batch.raw() &&
                tasks[i]->row == static_cast<int64_t>(i);
    if (whole) return batch;
    std::vector<Tensor> masks;
    for (const Task* task : tasks) masks.push_back(task->masks);
    return stack(ops, masks);
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
            std::vector<bool> seen;
            for (const Task* task : chunk) seen.push_back(task->object_score > 0);
            const Tensor tokens =
                model_->tracker().encode_memory(ops, features.map, full_masks(ops, chunk), binary, seen);
            for (size_t i = 0; i < chunk.size(); ++i)
                chunk[i]->object->bank.find(frame)->tokens = own_row(ops, tokens, i);
        });
    }
}

// [N, S, S] at the size of the network's input; adopted masks as they were given.
Tensor ObjectTracker::full_masks(Ops& ops, std::span<Task* const> tasks) const {
    const int64_t size = model_->image_size();
    if (std::none_of(tasks.begin(), tasks.end(), [](const Task* task) { return task->given.defined(); }))
        return enlarged(ops, masks_of(ops, tasks), size, /*antialias=*/false);
    std::vector<Tensor> masks;
    for (const Task* task : tasks)
        masks.push_back(task->given ? task->given
                                    : enlarged(ops, task->masks.unsqueeze(0), size, /*antialias=*/false).select(0, 0));
    return stack(ops, masks);
}

// Sends all objects through the network that were not answered earlier. The device may still be at it afterwards.
std::vector<ObjectTracker::Answered> ObjectTracker::answer(Ops& ops, const InteractiveFeatures& features,
                                                           const Moment& moment, std::vector<Task>& tasks) const {
    std::vector<Task*> clicked;
    std::vector<Task*> adopted;
    std::vector<Task*> followed;
    for (Task& task : tasks)
        if (!task.reused)
            (task.prompt && task.prompt->mask ? adopted : task.first ? clicked : followed).push_back(&task);
    std::vector<Answered> answers;
    if (!clicked.empty()) {
        const Tensor image = model_->tracker().without_memory(ops, features.map);
        in_chunks(clicked, kPromptedTogether,
                  [&](std::span<Task* const> chunk) { answers.push_back(decode(ops, features, image, chunk)); });
    }
    in_chunks(adopted, kPromptedTogether,
              [&](std::span<Task* const> chunk) { answers.push_back(adopt(ops, features, chunk)); });
    in_chunks(followed, followed_together(ops),
              [&](std::span<Task* const> chunk) { answers.push_back(follow(ops, features, moment, chunk)); });
    return answers;
}

// What the answers say, and the masks of all tasks: here the host waits for the device, once for everything.
TrackedFrame ObjectTracker::read(Ops& ops, const std::vector<Answered>& answers, std::vector<Task>& tasks) {
    TrackedFrame result;
    if (tasks.empty()) return result;
    std::vector<Task*> all;
    for (Task& task : tasks) all.push_back(&task);
    const Tensor masks = masks_of(ops, all);
    if (!answers.empty()) {
        std::vector<Tensor> parts;
        for (const Answered& some : answers) parts.push_back(some.scores);
        const Tensor scores = ops.download(ops.concat(parts, 0));
        const float* next = scores.data<float>();
        for (const Answered& some : answers)
            for (Task* task : some.tasks) {
                task->object_score = *next++;
                task->iou = *next++;
            }
    }
    result.masks = ops.download(masks);
    for (const Task& task : tasks) {
        result.ids.push_back(task.id);
        result.object_score.push_back(task.object_score);
    }
    return result;
}

TrackedFrame ObjectTracker::step(Ops& ops, const InteractiveFeatures& features, int64_t frame,
                                 const StepOptions& options) {
    std::vector<Task> tasks = plan(frame, options);
    mark_pass(frame, options.reverse);
    const std::vector<Answered> answers = answer(ops, features, {frame, options.reverse, options.total_frames}, tasks);
    TrackedFrame result = read(ops, answers, tasks);
    std::vector<Task*> news;
    for (const Answered& some : answers) news.insert(news.end(), some.tasks.begin(), some.tasks.end());
    for (const Task* task : news) store(*task, frame);
    // The device writes memories while the caller works on the masks.
    if (options.remember) write_memories(ops, features, news, frame);
    prune(frame);
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
