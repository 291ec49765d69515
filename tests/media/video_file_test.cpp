#include "media/exif.h"
#include "media/image_io.h"
#include "media/support.h"
#include "media/video_reader.h"
#include "media/video_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace sam3 {
namespace {

using test::contains;
using test::message_of;
using test::number_of;
using test::Scratch;

std::vector<Image> read_all(const std::string& path) {
    std::vector<Image> images;
    const auto frames = open_frames(path);
    for (Image image; frames->read(image);) images.push_back(image);
    return images;
}

// What reading to the end gave: numbers of the frames, and the sentences of the failures on the way.
struct Outcome {
    std::vector<int> numbers;
    std::vector<std::string> failures;
};

Outcome read_on_after_failures(FrameSource& frames) {
    Outcome outcome;
    Image image;
    for (int calls = 0; calls < 1000; ++calls) {
        bool more = true;
        const std::string failure = message_of([&] { more = frames.read(image); });
        if (!failure.empty())
            outcome.failures.push_back(failure);
        else if (more)
            outcome.numbers.push_back(number_of(image));
        else
            return outcome;
    }
    ADD_FAILURE() << "reading does not end";
    return outcome;
}

size_t find_bytes(const std::vector<uint8_t>& bytes, std::string_view what) {
    return static_cast<size_t>(std::search(bytes.begin(), bytes.end(), what.begin(), what.end()) - bytes.begin());
}

uint32_t big_endian(const std::vector<uint8_t>& bytes, size_t at, size_t count) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) value = value << 8 | bytes.at(at + i);
    return value;
}

// The H.264 units of an MP4 file one after the other, which leaves out every time stamp.
std::vector<uint8_t> without_times(const std::vector<uint8_t>& mp4) {
    std::vector<uint8_t> out;
    const auto add = [&](size_t at, size_t length) {
        out.insert(out.end(), {0, 0, 0, 1});
        const auto start = mp4.begin() + static_cast<std::ptrdiff_t>(at);
        out.insert(out.end(), start, start + static_cast<std::ptrdiff_t>(length));
    };
    const size_t parameters = find_bytes(mp4, "avcC") + 4 + 6;  // one sequence and one picture parameter set
    const size_t sequence = big_endian(mp4, parameters, 2);
    add(parameters + 2, sequence);
    add(parameters + 2 + sequence + 3, big_endian(mp4, parameters + 2 + sequence + 1, 2));
    size_t at = find_bytes(mp4, "mdat");
    const size_t end = at - 4 + big_endian(mp4, at - 4, 4);
    for (at += 4; at < end; at += 4 + big_endian(mp4, at, 4)) add(at + 4, big_endian(mp4, at, 4));
    return out;
}

TEST(VideoFile, GivesEveryFrameInOrder) {
    const Scratch scratch;
    const auto frames = open_frames(test::write_clip(scratch.file("clip.mp4"), 50));
    EXPECT_EQ(frames->info().width, 96);
    EXPECT_EQ(frames->info().height, 64);
    EXPECT_EQ(frames->info().fps.value(), 25.0);
    EXPECT_EQ(frames->info().frame_count, 50);
    EXPECT_NEAR(frames->info().duration, 2.0, 1e-3);
    EXPECT_FALSE(frames->info().has_audio);
    EXPECT_FALSE(frames->info().codec.empty());
    Image image;
    for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(frames->read(image));
        EXPECT_EQ(number_of(image), i);
        EXPECT_NEAR(frames->time_of(i), i / 25.0, 1e-3);
    }
    EXPECT_FALSE(frames->read(image));
    EXPECT_FALSE(frames->read(image));
}

TEST(VideoFile, GivesTheSamePixelsByNumberAsInOrder) {
    const Scratch scratch;
    const std::string path = test::write_clip(scratch.file("clip.mp4"), 50);
    const std::vector<Image> expected = read_all(path);
    ASSERT_EQ(expected.size(), 50U);
    const auto frames = open_frames(path);
    std::mt19937 random(7);
    Image image;
    for (int i = 0; i < 80; ++i) {
        const size_t number = random() % expected.size();
        EXPECT_TRUE(frames->frame(static_cast<int64_t>(number)).pixels == expected[number].pixels) << number;
        if (i % 3 != 0 || number + 1 == expected.size()) continue;
        ASSERT_TRUE(frames->read(image));  // goes on behind it
        EXPECT_TRUE(image.pixels == expected[number + 1].pixels) << number + 1;
    }
    for (size_t number = 0; number < expected.size(); number += 5)  // ahead, inside and across groups of pictures
        EXPECT_TRUE(frames->frame(static_cast<int64_t>(number)).pixels == expected[number].pixels) << number;
}

TEST(VideoFile, CanBeReadAgainFromTheStartAfterTheEnd) {
    const Scratch scratch;
    const auto frames = open_frames(test::write_clip(scratch.file("clip.mp4"), 20));
    Image image;
    while (frames->read(image)) {
    }
    frames->seek(0);
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(frames->read(image));
        EXPECT_EQ(number_of(image), i);
    }
}

TEST(VideoFile, ReachesFramesWithoutTimesByCounting) {
    const Scratch scratch;
    const std::string path = test::write_clip(scratch.file("clip.mp4"), 30);
    if (open_frames(path)->info().codec != "h264") GTEST_SKIP() << "no H.264 encoder";
    const std::vector<Image> expected = read_all(path);
    write_file(scratch.file("clip.h264"), without_times(read_file(path)));
    const auto frames = open_frames(scratch.file("clip.h264"));
    EXPECT_EQ(frames->info().frame_count, -1);
    EXPECT_EQ(open_frames(scratch.file("clip.h264"))->count_frames(), 30);
    Image image;
    size_t count = 0;
    for (; frames->read(image); ++count) EXPECT_TRUE(image.pixels == expected.at(count).pixels) << count;
    EXPECT_EQ(count, 30U);
    EXPECT_EQ(frames->info().frame_count, 30);
    for (const size_t number : {29U, 7U, 8U, 20U, 3U, 29U})
        EXPECT_TRUE(frames->frame(static_cast<int64_t>(number)).pixels == expected[number].pixels) << number;
    EXPECT_TRUE(contains(message_of([&] { frames->frame(30); }), "the video has 30 frames"));
}

TEST(VideoFile, SaysWhichFramesExist) {
    const Scratch scratch;
    const auto frames = open_frames(test::write_clip(scratch.file("clip.mp4"), 5));
    Image image;
    frames->seek(5);
    EXPECT_FALSE(frames->read(image));
    EXPECT_TRUE(contains(message_of([&] { frames->frame(5); }), "frame 5 does not exist: the video has 5 frames"));
    EXPECT_TRUE(contains(message_of([&] { frames->seek(-1); }), "clip.mp4: expected a frame number from 0, found -1"));
    EXPECT_EQ(number_of(frames->frame(4)), 4);
}

TEST(VideoFile, KeepsTheMemoryOfTheCallersImage) {
    const Scratch scratch;
    const auto frames = open_frames(test::write_clip(scratch.file("clip.mp4"), 5));
    Image image;
    ASSERT_TRUE(frames->read(image));
    const uint8_t* memory = image.pixels.data();
    while (frames->read(image)) EXPECT_EQ(image.pixels.data(), memory);
}

TEST(VideoFile, TurnsFramesAsTheHeaderSays) {
    const Scratch scratch;
    const std::vector<uint8_t> bytes = read_file(test::write_clip(scratch.file("clip.mp4"), 3));
    const Image stored = open_frames(scratch.file("clip.mp4"))->frame(2);
    const size_t matrix = find_bytes(bytes, "tkhd") + 4 + 40;
    ASSERT_LT(matrix + 36, bytes.size());
    struct Case {
        int orientation;
        std::array<int, 4> matrix;  // a, b, c, d of the display matrix
    };
    for (const Case& each : {Case{6, {0, 1, -1, 0}}, Case{3, {-1, 0, 0, -1}}, Case{8, {0, -1, 1, 0}},
                             Case{2, {-1, 0, 0, 1}}, Case{1, {1, 0, 0, 1}}}) {
        std::vector<uint8_t> turned = bytes;
        for (size_t i = 0; i < 4; ++i) {
            const size_t at = matrix + (i / 2 * 3 + i % 2) * 4;
            const uint8_t big_endian[] = {static_cast<uint8_t>(each.matrix[i] < 0 ? 0xFF : 0),
                                          static_cast<uint8_t>(each.matrix[i]), 0, 0};
            std::copy_n(big_endian, 4, turned.begin() + static_cast<std::ptrdiff_t>(at));
        }
        write_file(scratch.file("turned.mp4"), turned);
        const auto frames = open_frames(scratch.file("turned.mp4"));
        const Image expected = apply_orientation(stored, each.orientation);
        EXPECT_EQ(frames->info().width, expected.width) << each.orientation;
        EXPECT_EQ(frames->info().height, expected.height) << each.orientation;
        EXPECT_TRUE(frames->frame(2).pixels == expected.pixels) << each.orientation;
    }
}

TEST(VideoFile, GivesTheFramesOfATruncatedFileAndSaysSoAtItsEnd) {
    const Scratch scratch;
    std::vector<uint8_t> bytes = read_file(test::write_clip(scratch.file("clip.mp4"), 50));
    bytes.resize(bytes.size() * 6 / 10);
    write_file(scratch.file("clip.mp4"), bytes);
    const auto frames = open_frames(scratch.file("clip.mp4"));
    EXPECT_GT(frames->info().frame_count, 5);
    EXPECT_LT(frames->info().frame_count, 45);
    const int64_t last = frames->info().frame_count - 1;
    const Outcome outcome = read_on_after_failures(*frames);
    EXPECT_EQ(frames->frame(last).width, 96);
    EXPECT_EQ(static_cast<int64_t>(outcome.numbers.size()), frames->info().frame_count);
    ASSERT_EQ(outcome.failures.size(), 1U);
    EXPECT_TRUE(contains(outcome.failures[0], "clip.mp4: its header names 50 frames, but the data ends after "))
        << outcome.failures[0];
    EXPECT_EQ(number_of(frames->frame(3)), 3);
}

TEST(VideoFile, FailsForEachLostFrameAndGoesOn) {
    const Scratch scratch;
    std::vector<uint8_t> bytes = read_file(test::write_clip(scratch.file("clip.mp4"), 50));
    const size_t data = find_bytes(bytes, "mdat");
    ASSERT_LT(data, bytes.size());
    const size_t from = data + (bytes.size() - data) * 4 / 10, to = data + (bytes.size() - data) * 6 / 10;
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.begin() + static_cast<std::ptrdiff_t>(to), 0);
    write_file(scratch.file("clip.mp4"), bytes);
    const auto frames = open_frames(scratch.file("clip.mp4"));
    const Outcome outcome = read_on_after_failures(*frames);
    ASSERT_FALSE(outcome.failures.empty());
    EXPECT_EQ(outcome.numbers.size() + outcome.failures.size(), 50U);
    EXPECT_TRUE(contains(outcome.failures[0], "clip.mp4: frame ")) << outcome.failures[0];
    EXPECT_TRUE(contains(outcome.failures[0], "cannot be decoded")) << outcome.failures[0];
    EXPECT_EQ(outcome.numbers.front(), 0);
    EXPECT_EQ(outcome.numbers.back(), 49);
    EXPECT_EQ(number_of(frames->frame(2)), 2);
    EXPECT_EQ(number_of(frames->frame(49)), 49);
}

TEST(VideoFile, RefusesWhatIsNoVideo) {
    const Scratch scratch;
    const auto refusal = [&](const std::string& name, const std::vector<uint8_t>& bytes) {
        write_file(scratch.file(name), bytes);
        return message_of([&] { open_frames(scratch.file(name)); });
    };
    const std::string_view page = "<!DOCTYPE html><html><body>404</body></html>";
    EXPECT_TRUE(contains(refusal("page.mp4", {page.begin(), page.end()}),
                         "page.mp4: expected a video, found an HTML page; check the path"));
    EXPECT_TRUE(contains(refusal("empty.mp4", {}), "empty.mp4: expected a video, found an empty file"));
    EXPECT_TRUE(contains(refusal("sound.mp3", test::mp3_sound(40)), "with sound but no pictures"));
    EXPECT_TRUE(contains(message_of([&] { open_frames(scratch.file("none.mp4")); }),
                         "none.mp4: expected a video, found nothing there; check the path"));
    // A playlist would make FFmpeg open other files.
    test::write_clip(scratch.file("clip.mp4"), 2);
    const std::string list = "#EXTM3U\n#EXTINF:10,\nclip.mp4\n";
    EXPECT_TRUE(contains(refusal("list.m3u8", {list.begin(), list.end()}), "expected a video, found a text file"));
    // The header of an MP4 file is at its end until it is finished.
    std::vector<uint8_t> unfinished = read_file(scratch.file("clip.mp4"));
    unfinished.resize(find_bytes(unfinished, "moov") - 4);
    const std::string message = refusal("unfinished.mp4", unfinished);
    EXPECT_TRUE(contains(message, "an MP4 video whose header cannot be read")) << message;
    EXPECT_TRUE(contains(message, "moov atom not found")) << message;
}

}  // namespace
}  // namespace sam3
