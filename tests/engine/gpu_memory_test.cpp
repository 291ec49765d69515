// Memory of a device that others use too: what happens when it is full, and what sessions share. On the CPU memory is
// the system's, so these run on a GPU or on the stand-in for one.
#include "engine/concept_tracker.h"
#include "engine/image_session.h"
#include "media/image_io.h"
#include "support/clip.h"
#include "support/data_path.h"
#include "support/device.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sam3::test {
namespace {

std::shared_ptr<const Model> shapes_model() {
    LoadOptions options;
    options.path = data_path("../../models/sam3-shapes.gguf");
    return load_model(options);
}

ConceptPrompt star() {
    ConceptPrompt prompt;
    prompt.text = "star";
    prompt.options.threshold = 0;
    prompt.options.top_k = 3;
    return prompt;
}

std::vector<Mask> masks_of(const std::vector<ConceptResult>& results) {
    std::vector<Mask> masks;
    for (const Detection& detection : results.front().detections) masks.push_back(detection.mask);
    return masks;
}

// Holds all memory of a device but for blocks smaller than `left` bytes.
class AllMemory {
public:
    AllMemory(Device& device, size_t left) : device_(device) {
        for (size_t size = size_t{64} << 30; size >= left; size /= 2) try {
                for (;;) taken_.push_back(device.allocate(size));
            } catch (const Error&) {  // there are no more blocks of this size
            }
    }
    AllMemory(const AllMemory&) = delete;
    AllMemory& operator=(const AllMemory&) = delete;
    ~AllMemory() {
        taken_.clear();
        device_.trim();  // what the pool keeps, captured work could not have
    }

private:
    Device& device_;
    std::vector<std::shared_ptr<Buffer>> taken_;
};

class GpuMemory : public testing::Test {
protected:
    void SetUp() override {
        if (device_name() == "cpu") GTEST_SKIP() << "the CPU's memory is not a device's";
    }
};

TEST_F(GpuMemory, SessionsShareTheWeights) {
    Device& device = test::device();
    const size_t empty = device.memory().in_use;
    const std::shared_ptr<const Model> model = shapes_model();
    const size_t weights = model->device().memory().in_use - empty;
    EXPECT_GT(weights, 0U);
    std::vector<std::unique_ptr<ImageSession>> sessions;
    for (int i = 0; i < 4; ++i) sessions.push_back(std::make_unique<ImageSession>(model, 1));
    EXPECT_LT(model->device().memory().in_use - empty, weights + weights / 10);
}

// One device, several threads: each gets the answers that it would get alone.
TEST_F(GpuMemory, SessionsInThreadsGiveTheirOwnAnswers) {
    const std::shared_ptr<const Model> model = shapes_model();
    std::vector<Image> images;
    for (const char* name : {"scene-00.png", "scene-03.png"})
        images.push_back(read_image(data_path(std::string("../../assets/") + name)));
    const ConceptPrompt prompt = star();
    std::vector<std::vector<Mask>> alone;
    for (const Image& image : images) {
        ImageSession session(model, 1);
        session.encode({&image, 1});
        alone.push_back(masks_of(session.segment({&prompt, 1})));
    }
    std::vector<int> different(images.size(), 0);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < images.size(); ++i)
        threads.emplace_back([&, i] {
            ImageSession session(model, 1);
            for (int again = 0; again < 3; ++again) {
                session.encode({&images[i], 1});
                different[i] += masks_of(session.segment({&prompt, 1})) == alone[i] ? 0 : 1;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(different, std::vector<int>(images.size(), 0));
}

TEST_F(GpuMemory, AFullDeviceIsASentenceAndTheSessionGoesOn) {
    const std::shared_ptr<const Model> model = shapes_model();
    ImageSession session(model, 2);
    const Image image = read_image(data_path("../../assets/scene-00.png"));
    const ConceptPrompt prompt = star();
    session.encode({&image, 1});
    const std::vector<Mask> before = masks_of(session.segment({&prompt, 1}));
    ASSERT_EQ(before.size(), 3U);
    {
        const AllMemory taken(model->device(), size_t{1} << 20);
        const std::vector<Image> many(64, image);
        try {
            session.encode(many);
            FAIL() << "expected the device to be full";
        } catch (const Error& error) {
            const std::string sentence = error.what();
            for (const char* words : {"out of GPU memory: wanted", "are free", "use a smaller batch"})
                EXPECT_NE(sentence.find(words), std::string::npos) << sentence;
        }
        EXPECT_FALSE(session.encoded());
        EXPECT_THROW(session.segment({&prompt, 1}), Error);
    }
    for (int again = 0; again < 3; ++again) {  // a GPU does it plainly, then captures it, then replays it
        session.encode({&image, 1});
        EXPECT_EQ(masks_of(session.segment({&prompt, 1})), before);
    }
}

TEST_F(GpuMemory, AVideoGoesOnAfterAFullDevice) {
    const Clip clip;
    const auto session = std::make_shared<ImageSession>(clip.model, 2);
    ConceptVideoOptions options;
    options.phrases = {"green triangle"};
    options.rules.score_threshold_detection = 0.2F;
    options.rules.new_det_thresh = 0.25F;
    options.delayed = false;
    ConceptTracker tracker(session, options);
    tracker.push(clip.picture(0));
    ASSERT_FALSE(tracker.ids().empty());
    {
        const AllMemory taken(clip.model->device(), 256);
        EXPECT_THROW(tracker.push(clip.picture(1)), Error);
    }
    const std::vector<VideoFrameResult> after = tracker.push(clip.picture(2), 2);
    ASSERT_EQ(after.size(), 1U);
    EXPECT_EQ(after.front().frame, 2);
    EXPECT_FALSE(after.front().objects.empty());
}

}  // namespace
}  // namespace sam3::test
