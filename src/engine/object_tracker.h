#pragma once

#include "engine/memory_bank.h"
#include "engine/model.h"
#include "engine/session_file.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sam3 {

// What is said about one object on one frame, in pixels of the network's input: points and box, or a mask.
struct TrackPrompt {
    VisualPrompt where{};
    Tensor mask{};          // host [s, s] of the whole frame, values 0 to 1, any size; then `where` is empty
    bool by_person = true;  // else a detector's word, whose memory may be let go of in time
};

// How a step stands in its video.
struct StepOptions {
    bool reverse = false;        // time runs backwards
    int64_t total_frames = -1;   // of the video; -1: not known, as with a stream
    bool remember = true;        // write memories at once; else the caller does after its own corrections
    bool only_prompted = false;  // objects without a new prompt on this frame are left alone
};

// Objects on one frame, in the order of ids(). Left out: objects that no frame has said anything about yet.
struct TrackedFrame {
    std::vector<int> ids;
    Tensor masks;                     // host [N, h, w] logits at the decoder's resolution; undefined when N is 0
    std::vector<float> object_score;  // logits
};

// Follows objects through the frames of one video. Knows frames only by number and features; which frame comes next is
// the caller's choice. Holds the memories, and nothing that grows with the number of frames (memory_bank.h).
class ObjectTracker {
public:
    // Fails when the model has no memory.
    explicit ObjectTracker(std::shared_ptr<const Model> model, const BankLimits& limits = {});

    const std::vector<int>& ids() const { return ids_; }  // in the order they were added
    bool has(int id) const { return objects_.count(id) != 0; }
    void remove(int id);  // nothing happens when there is none
    void reset();

    // Says where an object is; an unknown id becomes a new object. Takes effect in the next step on that frame.
    // keep_old: the points join those given earlier for the frame.
    void prompt(int id, int64_t frame, const TrackPrompt& prompt, bool keep_old = false);

    // Outlines every object on a frame. features: ImageModel::interactive_features of it. A frame that an object was
    // given on, and nothing new is said about, answers as it did then.
    TrackedFrame step(Ops& ops, const InteractiveFeatures& features, int64_t frame, const StepOptions& options);

    // Writes the memories of a step with remember = false; masks host [N, s, s] logits and seen in the order of ids().
    void remember(Ops& ops, const InteractiveFeatures& features, int64_t frame, const Tensor& masks,
                  const std::vector<bool>& seen);
    // The frame of the last step becomes a conditioning frame of the object.
    void make_conditioning(int id, int64_t frame);

    // Bytes of memories held, for `--profile` and the tests of bounded memory.
    size_t memory_bytes() const;

    void save(SessionWriter& writer, Ops& ops) const;
    // Into a tracker of the same model; what it held is gone.
    void restore(const SessionReader& reader, Ops& ops);

private:
    struct Object {
        MemoryBank bank;
        FrameIntervals tracked;                  // frames it was followed on, not given
        std::map<int64_t, VisualPrompt> said;    // by a person, for prompts that join earlier ones
        std::map<int64_t, TrackPrompt> pending;  // not yet answered
    };
    // One object in one step.
    struct Task {
        Object* object = nullptr;
        int id = 0;
        std::optional<TrackPrompt> prompt{};
        bool first = false;   // a frame without a past: it was never followed there
        bool reused = false;  // answered earlier
        Tensor masks{};       // [h, w] logits
        Tensor batch{};       // [B, h, w]: those of all that were answered together
        int64_t row = 0;      // of the batch
        Tensor given{};       // [S, S] logits of an adopted mask
        Tensor pointer{};     // [C]
        float object_score = 0, iou = 0;
    };

    // Answers that the device still works on, for tasks that went through the network together.
    struct Answered {
        std::vector<Task*> tasks;
        Tensor scores;  // [B, 2]
    };

    std::vector<Task> plan(int64_t frame, const StepOptions& options);
    Answered decode(Ops& ops, const InteractiveFeatures& features, const Tensor& image,
                    std::span<Task* const> tasks) const;
    Answered adopt(Ops& ops, const InteractiveFeatures& features, std::span<Task* const> tasks) const;
    Answered follow(Ops& ops, const InteractiveFeatures& features, const Moment& moment,
                    std::span<Task* const> tasks) const;
    static Answered answered(Ops& ops, const MemoryTracker::Answer& answer, std::span<Task* const> tasks);
    static Tensor masks_of(Ops& ops, std::span<Task* const> tasks);
    std::vector<Answered> answer(Ops& ops, const InteractiveFeatures& features, const Moment& moment,
                                 std::vector<Task>& tasks) const;
    void store(const Task& task, int64_t frame) const;
    void write_memories(Ops& ops, const InteractiveFeatures& features, std::span<Task* const> tasks,
                        int64_t frame) const;
    Tensor full_masks(Ops& ops, std::span<Task* const> tasks) const;
    static TrackedFrame read(Ops& ops, const std::vector<Answered>& answers, std::vector<Task>& tasks);
    void mark_pass(int64_t frame, bool reverse);
    void prune(int64_t frame);

    std::shared_ptr<const Model> model_;
    BankLimits limits_;
    std::vector<int> ids_;
    std::map<int, Object> objects_;
    // The pass: steps in one direction, one frame after the other.
    std::optional<int64_t> last_frame_;
    bool last_reverse_ = false;
    int64_t pass_start_ = 0;
};

}  // namespace sam3
