// Long videos: what a session holds does not grow with the frames, and a saved session goes on bit for bit.
// SAM3_LONG_VIDEO=2000 sets the number of frames; a short run by default.
#include "engine/concept_tracker.h"
#include "engine/visual_tracker.h"
#include "support/clip.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

namespace sam3 {
namespace {

int64_t frame_count() {
    const char* asked = std::getenv("SAM3_LONG_VIDEO");
    return asked != nullptr ? std::atoll(asked) : 60;
}

int64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    int64_t total = 0;
    int64_t resident = 0;
    file >> total >> resident;
    return resident * sysconf(_SC_PAGESIZE);
}

struct Growth {
    size_t held = 0;       // bytes of memories
    int64_t resident = 0;  // bytes of the process
};

// The most memory of a device that was in use after a frame, weights among it, in each half of a run. A GPU keeps what
// it captured, so that single frames differ.
struct DeviceUse {
    size_t first = 0, second = 0;

    void add(bool second_half, size_t bytes) {
        size_t& most = second_half ? second : first;
        most = std::max(most, bytes);
    }
};

// The ids and masks of some frames as one number.
uint64_t digest(const std::vector<VideoFrameResult>& frames) {
    uint64_t hash = 14695981039346656037ULL;
    const auto add = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
    for (const VideoFrameResult& frame : frames) {
        add(static_cast<uint64_t>(frame.frame));
        for (const VideoObject& object : frame.objects) {
            add(static_cast<uint64_t>(object.id));
            for (const uint8_t pixel : object.mask.data) add(pixel);
        }
    }
    return hash;
}

// Runs `push` over the whole video; saves in the middle, restores into `fresh`, and runs the second half again.
template <typename Tracker, typename Make, typename Push>
void expect_bounded_and_repeatable(const std::string& name, const Device& device, const Make& make, const Push& push) {
    const int64_t total = frame_count();
    const int64_t early = std::max<int64_t>(total / 10, 45);  // by then every window is full
    const std::string path = testing::TempDir() + name + ".session";
    std::unique_ptr<Tracker> tracker = make();
    Growth before;
    DeviceUse use;
    std::vector<uint64_t> second_half;
    for (int64_t frame = 0; frame < total; ++frame) {
        // Early too: what it needs once is no growth.
        if (frame == total / 2 || (frame == early && early < total / 2)) tracker->save(path);
        const uint64_t result = digest(push(*tracker, frame));
        if (frame >= total / 2) second_half.push_back(result);
        if (frame == early) before = {tracker->memory_bytes(), resident_bytes()};
        if (frame >= early) use.add(frame >= total / 2, device.memory().in_use);
    }
    const Growth after{tracker->memory_bytes(), resident_bytes()};
    std::cout << name << ": " << total << " frames; after frame " << early << " and at the end memories " << before.held
              << " and " << after.held << " bytes, resident " << before.resident << " and " << after.resident
              << ", on the device at most " << use.first << " in the first and " << use.second
              << " in the second half\n";
    EXPECT_GT(after.held, 0U);
    EXPECT_LE(static_cast<double>(after.held), 1.02 * static_cast<double>(before.held));
    // In a short run the pages that the first frames touch count for too much.
    if (total >= 1000) {
        EXPECT_LE(static_cast<double>(after.resident), 1.02 * static_cast<double>(before.resident));
        EXPECT_LE(static_cast<double>(use.second), 1.05 * static_cast<double>(use.first));
    }

    std::unique_ptr<Tracker> fresh = make();
    fresh->restore(path);
    for (size_t i = 0; i < second_half.size(); ++i)
        ASSERT_EQ(digest(push(*fresh, total / 2 + static_cast<int64_t>(i))), second_half[i])
            << "frame " << total / 2 + static_cast<int64_t>(i);
    std::remove(path.c_str());
}

TEST(LongVideo, ClicksHoldBoundedMemoryAndRestoreExactly) {
    const test::Clip clip;
    const auto make = [&] {
        auto tracker = std::make_unique<VisualTracker>(std::make_shared<ImageSession>(clip.model, 2));
        VisualQuery query;
        query.points = {{30, 30, true}};
        tracker->prompt(clip.picture(0), 0, 1, query);
        query.points = {{60, 20, true}};
        tracker->prompt(clip.picture(0), 0, 2, query);
        return tracker;
    };
    expect_bounded_and_repeatable<VisualTracker>(
        "clicks", clip.model->device(), make, [&](VisualTracker& tracker, int64_t frame) {
            return std::vector<VideoFrameResult>{tracker.track(clip.picture(frame % clip.count()), frame)};
        });
}

TEST(LongVideo, ConceptsHoldBoundedMemoryAndRestoreExactly) {
    // Hugging Face's behaviour keeps up to 256 pointers of automatic conditioning frames, which is much for so small a
    // model; Meta's does not.
    const test::Clip clip("official");
    const auto make = [&] {
        ConceptVideoOptions options;
        options.phrases = {"green triangle"};
        options.rules.score_threshold_detection = 0.2F;
        options.rules.new_det_thresh = 0.25F;
        options.rules.hotstart_delay = 5;
        options.rules.hotstart_unmatch_thresh = 5;
        options.rules.hotstart_dup_thresh = 5;
        options.rules.max_num_objects = 3;
        options.rules.recondition_every_nth_frame = 4;
        options.rules.high_conf_thresh = 0.2F;
        options.rules.high_iou_thresh = 0.3F;
        return std::make_unique<ConceptTracker>(std::make_shared<ImageSession>(clip.model, 2), options);
    };
    expect_bounded_and_repeatable<ConceptTracker>("concepts", clip.model->device(), make,
                                                  [&](ConceptTracker& tracker, int64_t frame) {
                                                      return tracker.push(clip.picture(frame % clip.count()), frame);
                                                  });
}

}  // namespace
}  // namespace sam3
