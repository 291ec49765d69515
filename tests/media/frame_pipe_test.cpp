#include "media/support.h"
#include "media/video_reader.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <thread>

namespace sam3 {
namespace {

using test::contains;
using test::message_of;

// A pipe with `bytes` in it, written from a thread so that they need not fit into the system's buffer.
class Pipe {
public:
    explicit Pipe(std::string bytes) {
        if (::pipe(ends_) != 0) ADD_FAILURE() << "no pipe";
        writer_ = std::thread([this, all = std::move(bytes)] {
            for (size_t done = 0; done < all.size();) {
                const size_t part = std::min<size_t>(all.size() - done, 1000);  // readers see short reads
                const ssize_t wrote = ::write(ends_[1], all.data() + done, part);
                if (wrote <= 0) break;
                done += static_cast<size_t>(wrote);
            }
            ::close(ends_[1]);
        });
    }
    ~Pipe() {
        std::string rest(65536, ' ');
        while (::read(ends_[0], rest.data(), rest.size()) > 0) {
        }
        writer_.join();
        ::close(ends_[0]);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    int descriptor() const { return ends_[0]; }

private:
    int ends_[2] = {-1, -1};
    std::thread writer_;
};

std::string raw_frames(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
        const Image image = test::numbered_frame(i, 33, 17);
        bytes.append(image.pixels.begin(), image.pixels.end());
    }
    return bytes;
}

// One frame of one colour with chroma planes of the given size.
std::string y4m(const std::string& header, size_t luma, size_t chroma, const std::array<int, 3>& colour) {
    return "YUV4MPEG2 " + header + "\nFRAME\n" + std::string(luma, static_cast<char>(colour[0])) +
           std::string(chroma, static_cast<char>(colour[1])) + std::string(chroma, static_cast<char>(colour[2]));
}

TEST(FramePipe, ReadsRawFrames) {
    const Pipe pipe(raw_frames(6));
    const auto frames = open_frames("-", {.raw_width = 33, .raw_height = 17, .fps = {5, 1}, .pipe = pipe.descriptor()});
    EXPECT_EQ(frames->info().frame_count, -1);
    EXPECT_EQ(frames->info().codec, "raw");
    Image image;
    ASSERT_TRUE(frames->read(image));
    EXPECT_TRUE(image.pixels == test::numbered_frame(0, 33, 17).pixels);
    EXPECT_TRUE(frames->frame(3).pixels == test::numbered_frame(3, 33, 17).pixels);
    EXPECT_TRUE(contains(message_of([&] { frames->seek(2); }), "a pipe cannot go back"));
    ASSERT_TRUE(frames->read(image));
    ASSERT_TRUE(frames->read(image));
    EXPECT_EQ(test::number_of(image), 5);
    EXPECT_FALSE(frames->read(image));
    EXPECT_TRUE(contains(message_of([&] { frames->frame(9); }), "frame 9 does not exist"));
}

TEST(FramePipe, SaysWhenTheDataEndsInsideAFrame) {
    const Pipe pipe(raw_frames(2) + "rest");
    const auto frames = open_frames("-", {.raw_width = 33, .raw_height = 17, .pipe = pipe.descriptor()});
    Image image;
    ASSERT_TRUE(frames->read(image));
    ASSERT_TRUE(frames->read(image));
    const std::string message = message_of([&] { frames->read(image); });
    EXPECT_TRUE(
        contains(message, "ends inside frame 2: expected 1683 bytes, found 4; are the frames RGB24 and 33 x 17?"))
        << message;
    EXPECT_FALSE(frames->read(image));
}

TEST(FramePipe, TellsYuv4MpegByItsHeader) {
    struct Case {
        std::string layout;
        size_t luma, chroma;  // bytes of a 5 x 3 picture
        std::array<int, 3> colour;
        std::array<int, 3> expected;
    };
    const std::array<int, 3> red = {81, 90, 240}, pure = {254, 0, 0};
    for (const Case& each :
         {Case{"", 15, 6, red, pure}, Case{" C420", 15, 6, red, pure}, Case{" C420jpeg", 15, 6, red, pure},
          Case{" C420mpeg2", 15, 6, red, pure}, Case{" C420paldv", 15, 6, red, pure}, Case{" C422", 15, 9, red, pure},
          Case{" C444", 15, 15, red, pure}, Case{" C444 XCOLORRANGE=LIMITED", 15, 15, {235, 128, 128}, {255, 255, 255}},
          Case{" C444 XCOLORRANGE=FULL", 15, 15, {235, 128, 128}, {235, 235, 235}},
          Case{" Cmono", 15, 0, {100, 0, 0}, {100, 100, 100}}}) {
        const Pipe pipe(y4m("W5 H3 F30000:1001 Ip A1:1" + each.layout, each.luma, each.chroma, each.colour));
        // The header goes before a size that is given.
        const auto frames = open_frames("-", {.raw_width = 100, .raw_height = 100, .pipe = pipe.descriptor()});
        EXPECT_EQ(frames->info().width, 5);
        EXPECT_EQ(frames->info().height, 3);
        EXPECT_EQ(frames->info().fps.numerator, 30000);
        EXPECT_EQ(frames->info().fps.denominator, 1001);
        Image image;
        ASSERT_TRUE(frames->read(image)) << each.layout;
        for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 5; ++x)
                for (size_t c = 0; c < 3; ++c)
                    EXPECT_NEAR(image.at(x, y)[c], each.expected[c], 1) << each.layout << " " << x << " " << y;
        EXPECT_FALSE(frames->read(image));
    }
}

TEST(FramePipe, RefusesWhatIsNoFrames) {
    const auto refusal = [](const std::string& bytes, int side = 0) {
        const Pipe pipe(bytes);
        return message_of([&] {
            const auto frames = open_frames("-", {.raw_width = side, .raw_height = side, .pipe = pipe.descriptor()});
            Image image;
            frames->read(image);
        });
    };
    EXPECT_TRUE(contains(refusal(""), "expected frames, found no data"));
    EXPECT_TRUE(contains(refusal("hello, world"), "raw RGB24 frames and their size, found a text file"));
    EXPECT_TRUE(contains(refusal("hello, world", 40000), "at most 32768 pixels a side"));
    EXPECT_TRUE(contains(refusal("hello, world", -1), "no pixels"));
    EXPECT_TRUE(contains(refusal("YUV4MPEG2"), "no pixels"));
    EXPECT_TRUE(contains(refusal("YUV4MPEG2 W999999999999 H2\n"), "no pixels"));
    EXPECT_TRUE(contains(refusal("YUV4MPEG2 W4 H4 C411\n"), "found C411"));
    EXPECT_TRUE(contains(refusal("YUV4MPEG2 W4 H4\nFROM\n"), "expected the word FRAME before frame 0"));
    EXPECT_TRUE(contains(refusal("YUV4MPEG2 W4 H4\nFRAME\n12345"), "expected 24 bytes, found 5; its writer broke off"));
    EXPECT_TRUE(contains(refusal("YUV4MPEG2 " + std::string(5000, 'W')), "a line without an end"));
}

}  // namespace
}  // namespace sam3
