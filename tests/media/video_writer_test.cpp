#include "media/video_writer.h"

#include "media/support.h"
#include "media/video_reader.h"

#include <gtest/gtest.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cmath>

namespace sam3 {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;
using test::Scratch;

Image plain(int width, int height, const std::array<uint8_t, 3>& colour) {
    Image image(width, height, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = colour[i % 3];
    return image;
}

// Numbers of the first and last packet of sound in a file and how many there are.
struct Sound {
    int first = -1, last = -1, count = 0;
};

Sound sound_in(const std::string& path) {
    const std::vector<uint8_t> bytes = read_file(path);
    Sound sound;
    for (int i = 0; i < 200; ++i) {
        const std::string mark = test::sound_mark(i);
        if (std::search(bytes.begin(), bytes.end(), mark.begin(), mark.end()) == bytes.end()) continue;
        if (sound.count++ == 0) sound.first = i;
        sound.last = i;
    }
    return sound;
}

// 25 frames, which is one second, with sound from `source`.
std::vector<std::string> write_second(const std::string& path, const std::string& source, double start) {
    VideoWriter writer(path, 32, 32, {.fps = {25, 1}});
    writer.copy_audio_from(source, start);
    for (int i = 0; i < 25; ++i) writer.write(test::numbered_frame(i, 32, 32));
    writer.finish();
    return writer.notes();
}

TEST(VideoWriter, KeepsColoursOfSmallAndOfLargeFrames) {
    const Scratch scratch;
    for (const auto& [width, height] : {std::pair(64, 48), std::pair(1280, 720)}) {
        for (const std::array<uint8_t, 3>& colour :
             {std::array<uint8_t, 3>{200, 30, 40}, std::array<uint8_t, 3>{20, 180, 90},
              std::array<uint8_t, 3>{255, 255, 255}}) {
            const std::string path = scratch.file("colour.mp4");
            VideoWriter writer(path, width, height);
            writer.write(plain(width, height, colour));
            writer.finish();
            const Image image = open_frames(path)->frame(0);
            const uint8_t* pixel = image.at(width / 2, height / 2);
            for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(pixel[c], colour[c], 3) << height << " rows, channel " << c;
        }
    }
}

TEST(VideoWriter, MakesOddSizesEvenByRepeatingTheEdge) {
    const Scratch scratch;
    const std::string path = scratch.file("odd.mp4");
    Image image = plain(65, 47, {0, 0, 0});
    for (int y = 0; y < 47; ++y) std::fill_n(image.at(33, y), 32 * 3, static_cast<uint8_t>(255));
    VideoWriter writer(path, 65, 47);
    for (int i = 0; i < 3; ++i) writer.write(image);
    writer.finish();
    const auto frames = open_frames(path);
    EXPECT_EQ(frames->info().width, 66);
    EXPECT_EQ(frames->info().height, 48);
    EXPECT_EQ(frames->info().frame_count, 3);
    const Image found = frames->frame(1);
    EXPECT_GT(*found.at(65, 47), 250);
    EXPECT_LT(*found.at(0, 47), 5);
}

TEST(VideoWriter, KeepsEveryFrameAndTheRate) {
    const Scratch scratch;
    for (const int count : {1, 2, 33}) {
        const std::string path = scratch.file("rate.mp4");
        VideoWriter writer(path, 64, 32, {.fps = {30000, 1001}});
        for (int i = 0; i < count; ++i) writer.write(test::numbered_frame(i, 64, 32));
        EXPECT_EQ(writer.frames_written(), count);
        writer.finish();
        const auto frames = open_frames(path);
        EXPECT_EQ(frames->info().frame_count, count);
        EXPECT_EQ(frames->info().fps.numerator, 30000);
        EXPECT_EQ(frames->info().fps.denominator, 1001);
        Image image;
        for (int i = 0; i < count; ++i) {
            ASSERT_TRUE(frames->read(image));
            EXPECT_EQ(test::number_of(image), i);
        }
    }
}

#ifdef __GLIBC__
// A resumed run must give the file of an undisturbed one, so nothing may depend on what memory held before.
TEST(VideoWriter, TheSameFramesGiveTheSameFile) {
    const Scratch scratch;
    std::vector<std::vector<uint8_t>> files;
    for (const int filling : {0, 1, 85, 165}) {
        mallopt(M_PERTURB, filling);
        const std::string path = scratch.file(std::to_string(filling) + ".mp4");
        VideoWriter writer(path, 336, 336);
        Image image(336, 336, 3);
        uint32_t noise = 1;
        for (int frame = 0; frame < 16; ++frame) {
            for (int y = 0; y < image.height; ++y) {
                for (int x = 0; x < image.width; ++x) {
                    noise = noise * 1664525 + 1013904223;
                    const int tile = (x + 3 * frame) / 17 * 31 + (y + 16 - frame) / 23 * 57;
                    std::fill_n(image.at(x, y), 3, static_cast<uint8_t>(tile % 200 + (noise >> 29)));
                }
            }
            writer.write(image);
        }
        writer.finish();
        files.push_back(read_file(path));
    }
    mallopt(M_PERTURB, 0);
    for (size_t i = 1; i < files.size(); ++i) EXPECT_TRUE(files[i] == files[0]) << i;
}
#endif

TEST(VideoWriter, PutsTheIndexBeforeThePictures) {
    const Scratch scratch;
    const std::vector<uint8_t> bytes = read_file(test::write_clip(scratch.file("clip.mp4"), 5));
    const std::string index = "moov", pictures = "mdat";
    EXPECT_LT(std::search(bytes.begin(), bytes.end(), index.begin(), index.end()),
              std::search(bytes.begin(), bytes.end(), pictures.begin(), pictures.end()));
}

TEST(VideoWriter, LeavesNothingBehindWhenAbandoned) {
    const Scratch scratch;
    const std::string path = scratch.file("clip.mp4");
    test::write_clip(path, 3);
    {
        VideoWriter writer(path, 64, 64);
        for (int i = 0; i < 5; ++i) writer.write(test::numbered_frame(i, 64, 64));
        EXPECT_EQ(scratch.entries(), 2U);
    }
    EXPECT_EQ(scratch.entries(), 1U);
    EXPECT_EQ(open_frames(path)->info().frame_count, 3);  // the old file is as it was
}

TEST(VideoWriter, RefusesWhatItCannotWrite) {
    const Scratch scratch;
    const auto refusal = [&](const std::string& name, int width, int height, const VideoWriterOptions& options = {}) {
        return message_of([&] { VideoWriter(scratch.file(name), width, height, options); });
    };
    EXPECT_TRUE(contains(refusal("clip.avi", 32, 32), "clip.avi: expected the name of a video that ends in .mp4"));
    EXPECT_TRUE(contains(refusal("none/clip.mp4", 32, 32), "does not exist; create it first"));
    EXPECT_TRUE(contains(refusal("clip.mp4", 0, 32), "no pixels"));
    EXPECT_TRUE(contains(refusal("clip.mp4", 32, 32, {.fps = {0, 1}}), "frames a second, found 0/1"));
    EXPECT_TRUE(contains(refusal("clip.mp4", 32, 32, {.crf = 52}), "a quality from 0 to 51, found 52"));
    VideoWriter writer(scratch.file("clip.mp4"), 32, 32);
    EXPECT_TRUE(contains(message_of([&] { writer.finish(); }), "at least one frame"));
    EXPECT_TRUE(contains(message_of([&] { writer.write(Image(32, 16, 3)); }),
                         "expected RGB frames of 32 x 32 pixels, found 32 x 16 with 3 channels"));
    EXPECT_TRUE(contains(message_of([&] { writer.write(Image(32, 32, 4)); }), "with 4 channels"));
    writer.write(Image(32, 32, 3));
    EXPECT_TRUE(contains(message_of([&] { writer.copy_audio_from("x", 0); }), "before the first frame"));
    writer.finish();
    EXPECT_TRUE(contains(message_of([&] { writer.write(Image(32, 32, 3)); }), "after the video was finished"));
}

TEST(VideoWriter, CopiesSoundUnchangedForAsLongAsThereAreFrames) {
    const Scratch scratch;
    const std::string source = scratch.file("sound.mp3"), path = scratch.file("clip.mp4");
    write_file(source, test::mp3_sound(100));  // 2.6 s in packets of 26.1 ms
    EXPECT_TRUE(write_second(path, source, 0).empty());
    EXPECT_TRUE(open_frames(path)->info().has_audio);
    EXPECT_EQ(open_frames(path)->info().frame_count, 25);
    const Sound whole = sound_in(path);
    EXPECT_EQ(whole.first, 0);
    EXPECT_EQ(whole.last, 38);  // the last that starts before 1 s
    EXPECT_EQ(whole.count, 39);

    EXPECT_TRUE(write_second(path, source, 0.5).empty());
    const Sound later = sound_in(path);
    EXPECT_EQ(later.first, 19);  // the first that ends after 0.5 s
    EXPECT_EQ(later.last, 57);
    EXPECT_EQ(later.count, 39);

    // From the video that now has the sound: the same packets once more.
    const std::string again = scratch.file("again.mp4");
    EXPECT_TRUE(write_second(again, path, 0).empty());
    EXPECT_EQ(sound_in(again).first, 19);
    EXPECT_EQ(sound_in(again).count, 39);
}

TEST(VideoWriter, SaysWhenThereIsNoSoundToCopy) {
    const Scratch scratch;
    const std::string silent = test::write_clip(scratch.file("silent.mp4"), 3), path = scratch.file("clip.mp4");
    const std::vector<std::string> missing = write_second(path, silent, 0);
    ASSERT_EQ(missing.size(), 1U);
    EXPECT_TRUE(contains(missing[0], "has no sound"));

    // A-law at 8 kHz in a WAV file, which MP4 has no place for.
    const uint8_t header[] = {'R', 'I', 'F', 'F', 0x24, 0x10, 0,   0,   'W', 'A',  'V',  'E',  'f', 'm',  't',
                              ' ', 16,  0,   0,   0,    6,    0,   1,   0,   0x40, 0x1F, 0,    0,   0x40, 0x1F,
                              0,   0,   1,   0,   8,    0,    'd', 'a', 't', 'a',  0,    0x10, 0,   0};
    std::vector<uint8_t> wav(std::begin(header), std::end(header));
    wav.resize(wav.size() + 0x1000, 0x55);
    write_file(scratch.file("sound.wav"), wav);
    const std::vector<std::string> refused = write_second(path, scratch.file("sound.wav"), 0);
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_TRUE(contains(refused[0], "sound.wav is pcm_alaw, which an MP4 file cannot hold")) << refused[0];
    EXPECT_EQ(open_frames(path)->info().frame_count, 25);
    EXPECT_FALSE(open_frames(path)->info().has_audio);

    VideoWriter writer(path, 32, 32);
    EXPECT_TRUE(contains(message_of([&] { writer.copy_audio_from(scratch.file("none.mp4")); }), "found nothing there"));
}

}  // namespace
}  // namespace sam3
