#include "media/support.h"
#include "media/video_reader.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::contains;
using test::message_of;

// Synthetic cameras of FFmpeg's filters stand for real ones.
constexpr const char* kSynthetic = "camera:lavfi:testsrc=size=64x48:rate=10:duration=0.5";

bool has_devices() {
    try {
        open_frames(kSynthetic);
        return true;
    } catch (const Error& error) {
        return std::string(error.what()).find("libavdevice") == std::string::npos;
    }
}

class Camera : public testing::Test {
protected:
    void SetUp() override {
        if (!has_devices()) GTEST_SKIP() << "FFmpeg's libavdevice is not installed";
    }
};

TEST_F(Camera, GivesPicturesUntilItEnds) {
    const auto frames = open_frames(kSynthetic);
    EXPECT_EQ(frames->info().width, 64);
    EXPECT_EQ(frames->info().height, 48);
    EXPECT_EQ(frames->info().frame_count, -1);
    EXPECT_DOUBLE_EQ(frames->info().fps.value(), 10);
    Image first, image;
    ASSERT_TRUE(frames->read(first));
    EXPECT_EQ(first.pixels.size(), size_t{64} * 48 * 3);
    int count = 1;
    bool moves = false;
    for (; frames->read(image); ++count) moves = moves || image.pixels != first.pixels;
    EXPECT_EQ(count, 5);
    EXPECT_TRUE(moves);
}

TEST_F(Camera, PassesPicturesByButDoesNotGoBack) {
    const auto frames = open_frames(kSynthetic);
    Image third, image;
    frames->seek(2);
    ASSERT_TRUE(frames->read(third));
    const auto again = open_frames(kSynthetic);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(again->read(image));
    EXPECT_EQ(image.pixels, third.pixels);
    EXPECT_TRUE(contains(message_of([&] { frames->seek(0); }), "cannot go back"));
}

TEST_F(Camera, IsAskedForItsSizeAndNamedWhenItIsNotThere) {
    EXPECT_TRUE(contains(message_of([] { open_frames("camera:/dev/no-such-camera"); }), "camera:/dev/no-such-camera"));
    EXPECT_TRUE(contains(message_of([] { open_frames("camera:lavfi:no_such_filter"); }), "cannot be opened"));
}

}  // namespace
}  // namespace sam3
