#include "media/image_io.h"
#include "media/support.h"
#include "media/video_reader.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;

void write_numbered(const Scratch& scratch, const std::string& name, int number) {
    write_image(scratch.file(name), test::numbered_frame(number, 32, 16));
}

TEST(FrameFolder, ReadsImagesInNaturalOrder) {
    const Scratch scratch;
    const std::vector<std::string> order = {"0.png",
                                            "frame2.jpg",
                                            "frame10.jpg",
                                            "frame010b.png",
                                            "frame99.jpeg",
                                            "frame100.png",
                                            "frame20000000000000000000000.png"};
    for (size_t i = 0; i < order.size(); ++i) write_numbered(scratch, order[i], static_cast<int>(i));
    write_file(scratch.file("notes.txt"), {});
    write_file(scratch.file("._frame2.jpg"), {});
    const auto frames = open_frames(scratch.path.string(), {.fps = {10, 1}});
    EXPECT_EQ(frames->info().frame_count, static_cast<int64_t>(order.size()));
    EXPECT_EQ(frames->info().fps.value(), 10.0);
    EXPECT_NEAR(frames->info().duration, 0.7, 1e-9);
    EXPECT_EQ(frames->info().width, 32);
    EXPECT_EQ(frames->info().height, 16);
    Image image;
    for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_TRUE(frames->read(image));
        EXPECT_EQ(test::number_of(image), static_cast<int>(i)) << order[i];
    }
    EXPECT_FALSE(frames->read(image));
    EXPECT_EQ(test::number_of(frames->frame(3)), 3);
    EXPECT_NEAR(frames->time_of(3), 0.3, 1e-9);
    EXPECT_TRUE(contains(message_of([&] { frames->frame(7); }), "the video has 7 frames"));
}

TEST(FrameFolder, NamesTheImageOfAnotherSize) {
    const Scratch scratch;
    write_numbered(scratch, "1.png", 1);
    write_image(scratch.file("2.png"), test::numbered_frame(2, 16, 32));
    write_numbered(scratch, "3.png", 3);
    const auto frames = open_frames(scratch.path.string());
    Image image;
    ASSERT_TRUE(frames->read(image));
    const std::string message = message_of([&] { frames->read(image); });
    EXPECT_TRUE(contains(message, "2.png: expected an image of 32 x 16 pixels as 1.png, found 16 x 32")) << message;
    ASSERT_TRUE(frames->read(image));
    EXPECT_EQ(test::number_of(image), 3);
}

TEST(FrameFolder, RefusesAFolderWithoutImages) {
    const Scratch scratch;
    EXPECT_TRUE(contains(message_of([&] { open_frames(scratch.path.string()); }), "images, found an empty one"));
    write_file(scratch.file("notes.txt"), {});
    EXPECT_TRUE(contains(message_of([&] { open_frames(scratch.path.string()); }), "found none among 1 entries"));
}

}  // namespace
}  // namespace sam3
