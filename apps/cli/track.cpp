#include "command.h"
#include "follower.h"
#include "formats/tracks.h"
#include "frames_ahead.h"
#include "interrupt.h"
#include "lines_behind.h"
#include "media/video_reader.h"
#include "media/video_writer.h"
#include "progress.h"
#include "status.h"
#include "track_files.h"
#include "track_formats.h"
#include "track_options.h"
#include "util/error.h"
#include "values.h"

#include <deque>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sam3::cli {
namespace {

// One frame to be processed.
struct Step {
    int64_t frame = 0;
    bool reverse = false;
};

// The frames in the order they are worked on. total: -1 when it is not known.
std::vector<Step> steps_of(const TrackOptions& options, int64_t total) {
    int64_t start = options.start;
    if (start < 0) {
        start = options.direction == "backward" ? total - 1 : 0;
        if (options.texts.empty())
            start = options.direction == "backward" ? options.prompts.back().frame : options.prompts.front().frame;
    }
    for (const VideoPrompt& prompt : options.prompts)
        if (prompt.frame >= total)
            fail(options.video, ": a prompt is on frame ", prompt.frame, ", but the video has ", total,
                 " frames, counted from 0");
    if (start >= total) fail(options.video, ": --start is ", start, ", but the video has ", total, " frames");
    const int64_t count = options.frames < 0 ? total : options.frames;
    std::vector<Step> steps;
    if (options.direction != "backward")
        for (int64_t i = start; i < std::min(total, start + count); ++i) steps.push_back({i, false});
    if (options.direction != "forward")
        for (int64_t i = options.direction == "both" ? start - 1 : start, done = 0; i >= 0 && done < count; --i, ++done)
            steps.push_back({i, true});
    return steps;
}

std::unique_ptr<Follower> make_follower(const TrackOptions& options, const std::shared_ptr<const Model>& model,
                                        int64_t total) {
    auto session = std::make_shared<ImageSession>(model, options.model.threads);
    if (options.texts.empty()) {
        VisualVideoOptions visual;
        visual.total_frames = total;
        visual.limits.history = options.history;
        visual.clean_up_area = options.clean_up;
        visual.separate = options.separate;
        return follow_clicks(std::move(session), visual, options.prompts);
    }
    ConceptVideoOptions concepts;
    concepts.phrases = options.texts;
    concepts.rules = model->video_rules();
    if (options.threshold >= 0) concepts.rules.score_threshold_detection = options.threshold;
    if (options.new_threshold >= 0) concepts.rules.new_det_thresh = options.new_threshold;
    if (options.max_objects >= 0) concepts.rules.max_num_objects = options.max_objects;
    concepts.total_frames = total;
    concepts.reverse = options.direction == "backward";
    concepts.delayed = !options.immediate;
    concepts.limits.history = options.history;
    return follow_concepts(std::move(session), concepts, options.prompts);
}

std::shared_ptr<const Model> load_model(const TrackOptions& options) {
    return options.model.load({.concepts = !options.texts.empty(), .clicks = true, .video = true});
}

TrackedObjects to_tracked(VideoFrameResult result, int width, int height) {
    TrackedObjects out{result.frame, width, height, {}};
    for (VideoObject& object : result.objects)
        out.objects.push_back({object.id, object.phrase.empty() ? "object" : object.phrase, object.score, object.box.x0,
                               object.box.y0, object.box.x1, object.box.y1, std::move(object.mask)});
    return out;
}

// "frame 12 of 93, 3 objects, 0.45 frames/s, 2:58 left"
class Progress {
public:
    Progress(Status& status, int64_t total) : status_(status), total_(total) {}

    void show(int64_t done, size_t objects) {
        status_.show(str("frame ", done, total_ > 0 ? str(" of ", total_) : "", ", ", objects,
                         objects == 1 ? " object, " : " objects, ", pace_.next(done, total_)));
    }

private:
    Status& status_;
    int64_t total_;
    Pace pace_{"frames"};
};

// The pictures again, with what was found on them. Frames that were not worked on are left out.
void write_overlay(const TrackOptions& options, const TrackFiles& files, FrameSource& frames, Status& status) {
    std::ifstream lines(files.lines_path());
    TrackedObjects tracked;
    int64_t number = 0;
    std::optional<VideoWriter> writer;
    Image image;
    while (files.next_line(lines, number, tracked)) {
        if (!writer) {
            frames.seek(tracked.frame);
            writer.emplace(files.overlay_path(), frames.info().width, frames.info().height,
                           VideoWriterOptions{.fps = frames.info().fps});
            if (frames.info().has_audio) writer->copy_audio_from(options.video, frames.time_of(tracked.frame));
        }
        if (!frames.read(image)) fail(options.video, ": ended before frame ", tracked.frame);
        writer->write(draw_overlay(image, to_segmentation(tracked)));
        status.show(str("drawing frame ", number, " of ", files.lines()));
    }
    if (!writer) return;
    writer->finish();
    status.clear();
    for (const std::string& note : writer->notes()) std::cerr << "sam3: " << note << "\n";
}

struct Totals {
    int64_t frames = 0;
    std::set<int> ids;
};

Totals count(const TrackFiles& files) {
    Totals totals;
    std::ifstream lines(files.lines_path());
    TrackedObjects tracked;
    while (files.next_line(lines, totals.frames, tracked))
        for (const auto& object : tracked.objects) totals.ids.insert(object.id);
    return totals;
}

void print_summary(const TrackFiles& files, const std::set<std::string>& formats,
                   const std::vector<std::string>& more) {
    const Totals totals = count(files);
    std::cout << totals.frames << (totals.frames == 1 ? " frame, " : " frames, ") << totals.ids.size()
              << (totals.ids.size() == 1 ? " object" : " objects") << "\n"
              << printable(files.lines_path()) << "\n";
    if (formats.count("png") != 0) std::cout << printable(files.masks_path()) << "\n";
    if (formats.count("overlay") != 0 && totals.frames > 0) std::cout << printable(files.overlay_path()) << "\n";
    for (const std::string& path : more) std::cout << printable(path) << "\n";
}

// Steps from `position` on; false when it was interrupted.
bool work_through(const TrackOptions& options, const std::vector<Step>& steps, int64_t position, Follower& follower,
                  TrackFiles& files, FrameSource& frames, Status& status) {
    const nlohmann::json job = options.job(frames.info());
    LinesBehind lines(files);
    const auto save = [&](int64_t at) {
        lines.wait();
        files.checkpoint({at, job}, [&](const std::string& path) { follower.save(path); });
    };
    Progress progress(status, static_cast<int64_t>(steps.size()));
    std::vector<int64_t> numbers;
    for (auto step = steps.begin() + position; step != steps.end(); ++step) numbers.push_back(step->frame);
    FramesAhead ahead(frames, std::move(numbers));
    for (; position < static_cast<int64_t>(steps.size()); ++position) {
        const Step step = steps[static_cast<size_t>(position)];
        if (interrupted()) {
            save(position);
            return false;
        }
        const std::optional<Image> image = ahead.next();
        if (!image) fail(options.video, ": ended before frame ", step.frame);
        std::vector<VideoFrameResult> finished = follower.push(*image, step.frame, step.reverse);
        const bool pass_ends = position + 1 == static_cast<int64_t>(steps.size()) ||
                               steps[static_cast<size_t>(position + 1)].reverse != step.reverse;
        if (pass_ends)
            for (VideoFrameResult& result : follower.end_pass()) finished.push_back(std::move(result));
        size_t objects = 0;
        for (VideoFrameResult& result : finished) {
            objects = result.objects.size();
            lines.add(to_tracked(std::move(result), image->width, image->height));
        }
        progress.show(position + 1, objects);
        if ((position + 1) % options.checkpoint == 0) save(position + 1);
    }
    lines.wait();
    return true;
}

// Answers the prompts on their frames before anything is followed.
void begin(Follower& follower, FrameSource& frames, Status& status) {
    for (const int64_t frame : follower.prompted_frames()) {
        status.show(str("looking at frame ", frame));
        follower.begin(frames.frame(frame), frame);
    }
}

void run_file(const TrackOptions& options, const std::set<std::string>& formats, TrackFiles& files, Status& status) {
    status.show("opening " + options.video);
    const std::unique_ptr<FrameSource> frames = open_frames(options.video, options.frame_options());
    const int64_t total = frames->count_frames();
    const std::vector<Step> steps = steps_of(options, total);
    if (files.exist() && !options.resume && !options.overwrite)
        fail(files.lines_path(), ": there are results already; --resume goes on, --overwrite starts again");
    const std::optional<TrackFiles::Checkpoint> checkpoint = options.resume ? files.resume() : std::nullopt;
    if (options.resume || options.overwrite) files.remove_leftovers();
    if (checkpoint && checkpoint->job != options.job(frames->info()))
        fail(files.lines_path(),
             ": the run to be resumed had other options, another model or another video: repeat its command line with "
             "--resume, or start again with --overwrite");
    const bool complete =
        options.resume && !checkpoint && files.exist() && files.complete_lines() == static_cast<int64_t>(steps.size());
    if (!complete) {
        status.show("loading " + options.model.path);
        const std::shared_ptr<const Model> model = load_model(options);
        const std::unique_ptr<Follower> follower = make_follower(options, model, total);
        if (checkpoint) {
            follower->restore(files.session_path(checkpoint->position));
        } else {
            begin(*follower, *frames, status);
            files.start();
        }
        if (!work_through(options, steps, checkpoint ? checkpoint->position : 0, *follower, files, *frames, status)) {
            status.clear();
            fail("stopped after ", files.lines(), " of ", steps.size(), " frames; they are in ", files.lines_path(),
                 ", and --resume goes on");
        }
    }
    files.finish(/*in_order=*/steps.empty() || !steps.back().reverse);
    if (formats.count("overlay") != 0) write_overlay(options, files, *frames, status);
}

// Frames that come once, of a number that is not known: the overlay is drawn on the way.
void run_pipe(const TrackOptions& options, const std::set<std::string>& formats, TrackFiles& files, Status& status) {
    status.show("loading " + options.model.path);
    const std::shared_ptr<const Model> model = load_model(options);
    const std::unique_ptr<Follower> follower = make_follower(options, model, -1);
    const std::unique_ptr<FrameSource> frames = open_frames(options.video, options.frame_options());
    if (files.exist() && !options.overwrite)
        fail(files.lines_path(), ": there are results already; --overwrite starts again");
    files.start();
    std::optional<VideoWriter> writer;
    std::deque<Image> waiting;  // pictures whose results are not finished
    const auto emit = [&](const std::vector<VideoFrameResult>& finished) {
        for (const VideoFrameResult& result : finished) {
            const Image image = std::move(waiting.front());
            waiting.pop_front();
            const TrackedObjects tracked = to_tracked(result, image.width, image.height);
            files.add(tracked);
            if (formats.count("overlay") == 0) continue;
            if (!writer)
                writer.emplace(files.overlay_path(), image.width, image.height,
                               VideoWriterOptions{.fps = frames->info().fps});
            writer->write(draw_overlay(image, to_segmentation(tracked)));
        }
    };
    Progress progress(status, -1);
    Image image;
    for (int64_t frame = 0; !interrupted() && frames->read(image); ++frame) {
        if (frame < options.start) continue;
        if (options.frames >= 0 && frame >= std::max<int64_t>(options.start, 0) + options.frames) break;
        waiting.push_back(image);
        const std::vector<VideoFrameResult> finished = follower->push(image, frame, false);
        emit(finished);
        progress.show(frame + 1, finished.empty() ? 0 : finished.back().objects.size());
    }
    emit(follower->end_pass());
    if (writer) writer->finish();
    files.finish(true);
}

void run(const TrackOptions& options) {
    const std::set<std::string> formats = checked_track_formats(options.formats, options.truth);
    std::string name = is_camera(options.video) ? "camera" : "stdin";
    if (!options.is_stream()) name = std::filesystem::absolute(options.video).lexically_normal().stem().string();
    const std::string stem = (std::filesystem::path(options.output) / (name.empty() ? "video" : name)).string();
    TrackFiles files(stem, formats.count("png") != 0);
    Status status(options.quiet);
    catch_interrupts();
    if (options.is_stream())
        run_pipe(options, formats, files, status);
    else
        run_file(options, formats, files, status);
    status.clear();
    const std::vector<std::string> more = write_track_formats(stem, formats, options.truth);
    if (!options.quiet) print_summary(files, formats, more);
}

}  // namespace

void add_track(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<TrackOptions>();
    CLI::App* command = program.add_subcommand("track", "Follow objects through a video");
    options->add_to(*command);
    command->footer(
        "Examples:\n"
        "  sam3 track -m sam3 -i clip.mp4 -t person -t dog -o out -f overlay\n"
        "  sam3 track -m sam3 -i clip.mp4 --point 0:1:210,130 --box 0:2:300,80,420,200 -o out -f png,overlay\n"
        "  sam3 track -m sam3 -i clip.mp4 --point 40:1:210,130 --direction both -o out\n"
        "  sam3 track -m sam3 -i clip.mp4 -t person -o out --resume        # after Ctrl-C or a crash\n"
        "  sam3 track -m sam3 -i camera: -t person -o out -f overlay       # until Ctrl-C\n"
        "  ffmpeg -i clip.mkv -f yuv4mpegpipe - | sam3 track -m sam3 -i - -t person -o out\n"
        "Results: NAME.jsonl (a line a frame: ids, labels, scores, boxes, masks as COCO RLE), NAME_masks/FRAME.png,\n"
        "NAME_overlay.mp4 with the sound of the video, NAME_mots and so on. Frames and coordinates are counted from "
        "0.");
    command->callback([options, &chosen] {
        chosen = [options] {
            options->check();
            run(*options);
        };
    });
}

}  // namespace sam3::cli
