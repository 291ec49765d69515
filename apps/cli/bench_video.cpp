#include "bench_video.h"

#include "bench_clock.h"
#include "engine/concept_tracker.h"
#include "engine/visual_tracker.h"
#include "frames_ahead.h"
#include "util/error.h"

#include <algorithm>
#include <optional>

namespace sam3::cli {
namespace {

constexpr int kPixelsPerFrame = 8;  // how far the picture moves from frame to frame

// What frames come from. They never end.
class BenchFrames {
public:
    virtual ~BenchFrames() = default;
    virtual void prepare() {}         // what is not measured of the next frame
    virtual const Image& next() = 0;  // valid until the next call
};

// The picture moves to the right and comes in again on the left: objects keep moving, however many frames there are.
class MovingPicture final : public BenchFrames {
public:
    explicit MovingPicture(Image picture) : frame_(std::move(picture)) {}

    void prepare() override {
        const auto step = std::min(frame_.row_bytes(), static_cast<size_t>(kPixelsPerFrame * frame_.channels));
        for (int y = 0; moves_ && y < frame_.height; ++y) {
            uint8_t* row = frame_.row(y);
            std::rotate(row, row + (frame_.row_bytes() - step), row + frame_.row_bytes());
        }
        moves_ = true;
    }
    const Image& next() override { return frame_; }

private:
    Image frame_;
    bool moves_ = false;  // not before the first frame
};

// A video file from its first frame to its last, again and again, decoded ahead in a thread of its own.
class DecodedVideo final : public BenchFrames {
public:
    explicit DecodedVideo(const std::string& path)
        : path_(path), source_(open_frames(path)), ahead_(*source_, numbers(*source_)) {}

    const Image& next() override {
        std::optional<Image> image = ahead_.next();
        if (!image) fail(path_, " ends before the frames that it says it has");
        frame_ = std::move(*image);
        return frame_;
    }

private:
    static std::vector<int64_t> numbers(FrameSource& source) {
        constexpr int64_t kMost = int64_t{1} << 16;  // more than any benchmark asks for
        const int64_t count = std::max<int64_t>(1, source.count_frames());
        std::vector<int64_t> all(kMost);
        for (int64_t i = 0; i < kMost; ++i) all[static_cast<size_t>(i)] = i % count;
        return all;
    }

    std::string path_;
    std::unique_ptr<FrameSource> source_;
    FramesAhead ahead_;
    Image frame_;
};

std::unique_ptr<BenchFrames> frames_of(const BenchJob& job) {
    if (job.video.empty()) return std::make_unique<MovingPicture>(job.picture);
    return std::make_unique<DecodedVideo>(job.video);
}

class VideoRunner : public BenchRunner {
public:
    VideoRunner(std::shared_ptr<ImageSession> session, const BenchJob& job, const char* wait)
        : session_(std::move(session)), frames_(frames_of(job)), wait_(wait) {}

    // Clocks that wait for the device after each step keep it from working ahead: on a device of its own the steps are
    // those of one more frame.
    void run(BenchTimes& times) override {
        session_->wait_for_steps(false);
        double whole = next_frame(times);
        times.waits[wait_].push_back(whole);
        session_->wait_for_steps(true);
        if (!session_->model().device().is_host()) whole = next_frame(times);
        times.steps["objects"].push_back(whole - add_steps(*session_, times));
        times.steps["whole"].push_back(whole);
    }

protected:
    virtual VideoFrameResult look_at(const Image& frame, int64_t number) = 0;
    virtual void check() const {}
    const Image& first_frame() {
        frames_->prepare();
        return frames_->next();
    }

private:
    double next_frame(BenchTimes& times) {
        frames_->prepare();
        ++number_;
        const double seconds = seconds_of(session_->model().device(), [&] {
            times.masks = static_cast<int64_t>(look_at(frames_->next(), number_).objects.size());
        });
        check();
        return seconds;
    }

    std::shared_ptr<ImageSession> session_;
    std::unique_ptr<BenchFrames> frames_;
    const char* wait_;
    int64_t number_ = 0;
};

class ClickVideoRunner final : public VideoRunner {
public:
    ClickVideoRunner(const std::shared_ptr<ImageSession>& session, const BenchJob& job)
        : VideoRunner(session, job, "video_frame"), tracker_(session) {
        const Image& frame = first_frame();
        for (int i = 0; i < job.objects; ++i) {
            const double across = (i + 1.0) / (job.objects + 1.0);
            tracker_.prompt(frame, 0, i + 1, click_at(frame, across, 0.5));
        }
        tracker_.track(frame, 0);
    }

private:
    VideoFrameResult look_at(const Image& frame, int64_t number) override { return tracker_.track(frame, number); }

    VisualTracker tracker_;
};

// On every frame the best so many of the queries are detections; those of the first frame become objects, and neither
// does one go nor another come. The rest of the rules are as usual.
ConceptVideoOptions fixed_number(const BenchJob& job) {
    ConceptVideoOptions options;
    options.phrases = {job.text};
    options.most_detections = job.objects;
    options.rules.score_threshold_detection = 0;
    options.rules.det_nms_thresh = 0;
    options.rules.hotstart_delay = 0;
    options.rules.max_num_objects = job.objects;
    return options;
}

class ConceptVideoRunner final : public VideoRunner {
public:
    ConceptVideoRunner(const std::shared_ptr<ImageSession>& session, const BenchJob& job)
        : VideoRunner(session, job, "concept_frame"),
          objects_(static_cast<size_t>(job.objects)),
          tracker_(session, fixed_number(job)) {
        tracker_.push(first_frame());
        check();
    }

private:
    VideoFrameResult look_at(const Image& frame, int64_t number) override {
        return std::move(tracker_.push(frame, number).front());
    }
    void check() const override {
        if (tracker_.ids().size() != objects_)
            fail("the video follows ", tracker_.ids().size(), " objects instead of ", objects_,
                 ": the model has no more queries, or finds nothing at all; ask for fewer --objects");
    }

    size_t objects_;
    ConceptTracker tracker_;
};

}  // namespace

std::unique_ptr<BenchRunner> make_click_video_runner(const std::shared_ptr<ImageSession>& session,
                                                     const BenchJob& job) {
    return std::make_unique<ClickVideoRunner>(session, job);
}

std::unique_ptr<BenchRunner> make_concept_video_runner(const std::shared_ptr<ImageSession>& session,
                                                       const BenchJob& job) {
    return std::make_unique<ConceptVideoRunner>(session, job);
}

}  // namespace sam3::cli
