#include "track_options.h"

#include "format_names.h"
#include "values.h"

namespace sam3::cli {

namespace {

// Formats that are made from the lines, besides those that are drawn or written on the way.
bool holds_clips(const FormatInfo& info) {
    return info.writes() && info.frames && !info.pixels && info.name != "json" && info.name != "png";
}

void add_frames(CLI::App& command, TrackOptions& options) {
    const char* group = "Which frames";
    command.add_option("--direction", options.direction, "forward, backward or both from the start frame")
        ->check(CLI::IsMember({"forward", "backward", "both"}))
        ->capture_default_str()
        ->group(group);
    command.add_option("--start", options.start, "First frame (default: 0, or the first frame with a prompt)")
        ->check(CLI::NonNegativeNumber)
        ->group(group);
    command.add_option("--frames", options.frames, "Frames to work on in each direction (default: all)")
        ->check(CLI::PositiveNumber)
        ->group(group);
    command
        .add_option("--raw-size", options.raw_size, "Size of raw RGB24 frames on stdin, or that a camera is asked for")
        ->type_name("WxH")
        ->group(group);
    command.add_option("--fps", options.fps, "Frames a second of folders and raw frames")
        ->check(CLI::Range(0.001, 1000.0))
        ->capture_default_str()
        ->group(group);
}

void add_rules(CLI::App& command, TrackOptions& options) {
    const char* group = "What to keep";
    command.add_option("--threshold", options.threshold, "Detections above this score count (default: the model's)")
        ->check(CLI::Range(0.0, 1.0))
        ->group(group);
    command
        .add_option("--new-threshold", options.new_threshold,
                    "An unmatched detection of at least this score becomes an object (default: the model's)")
        ->check(CLI::Range(0.0, 1.0))
        ->group(group);
    command.add_option("--max-objects", options.max_objects, "Follow at most so many objects (default: the model's)")
        ->check(CLI::Range(1, 65535))
        ->group(group);
    command
        .add_flag("--immediate", options.immediate,
                  "Give each frame's objects at once, mistakes included, instead of after the hot start")
        ->group(group);
    command
        .add_flag("--non-overlapping", options.separate,
                  "Give a pixel that several clicked objects claim to the surest of them")
        ->group(group);
    command
        .add_option("--fill-holes", options.clean_up,
                    "Clean holes and specks of clicked objects up to so many low-resolution pixels")
        ->check(CLI::Range(0, 1000000))
        ->group(group);
    command.add_option("--history", options.history, "Frames of memory kept for prompts that go back in time")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str()
        ->group(group);
}

void add_results(CLI::App& command, TrackOptions& options) {
    const char* group = "Results";
    command.add_option("-o,--output", options.output, "Folder for the result files; made when missing")
        ->required()
        ->type_name("DIR")
        ->group(group);
    command
        .add_option("-f,--format", options.formats,
                    "Separated by commas: json (always written: a line a frame), png (label maps), overlay (MP4), "
                    "mots, davis, ytvis, veval, csv and others (docs/formats.md)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LIST:{json,png,overlay," + format_names(holds_clips) + "}")
        ->group(group);
    command.add_option("--truth", options.truth, "Ground truth whose numbers veval and coco-results must use")
        ->type_name("FILE")
        ->group(group);
    command.add_flag("--resume", options.resume, "Go on with a run that was stopped")->group(group);
    command.add_flag("--overwrite", options.overwrite, "Start again where there are results")->group(group);
    command.add_option("--checkpoint", options.checkpoint, "Frames between two states kept for --resume")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str()
        ->group(group);
    command.add_flag("-q,--quiet", options.quiet, "No summary, no progress")->group(group);
}

}  // namespace

void TrackOptions::add_to(CLI::App& command) {
    command
        .add_option("-i,--video,VIDEO", video,
                    "Video file, folder of images, camera:/dev/video0, or - for raw RGB24 or YUV4MPEG2 frames on stdin")
        ->required()
        ->group("What to follow");
    command.add_option("-t,--text", texts, "Noun phrase to look for; may be given several times")
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false)
        ->type_name("PHRASE")
        ->group("What to follow");
    pointed.add_to(command);
    add_results(command, *this);
    add_frames(command, *this);
    add_rules(command, *this);
    model.add_to(command);
}

void TrackOptions::check() {
    prompts = pointed.prompts();
    if (texts.empty() && prompts.empty())
        throw UsageError("there is nothing to follow: give --text, or --point, --box or --mask");
    if (resume && overwrite) throw UsageError("--resume and --overwrite exclude each other");
    if (!is_stream()) return;
    if (direction != "forward") throw UsageError("frames from a pipe or a camera come forwards only");
    if (resume) throw UsageError("frames from a pipe or a camera cannot be resumed: they are gone");
}

FrameOptions TrackOptions::frame_options() const {
    FrameOptions out;
    out.fps = {static_cast<int>(fps * 1000.0F + 0.5F), 1000};
    if (raw_size.empty()) return out;
    const size_t cross = raw_size.find('x');
    const std::string numbers =
        cross == std::string::npos ? raw_size : raw_size.substr(0, cross) + "," + raw_size.substr(cross + 1);
    const std::vector<float> size = parse_numbers("--raw-size", numbers, 2);
    out.raw_width = static_cast<int>(size[0]);
    out.raw_height = static_cast<int>(size[1]);
    return out;
}

nlohmann::json TrackOptions::job(const VideoInfo& info) const {
    return {{"model", model.path},
            {"video", video},
            {"frames", info.frame_count},
            {"width", info.width},
            {"height", info.height},
            {"text", texts},
            {"prompts", pointed.words()},
            {"direction", direction},
            {"start", start},
            {"count", frames},
            {"threshold", threshold},
            {"new-threshold", new_threshold},
            {"max-objects", max_objects},
            {"immediate", immediate},
            {"separate", separate},
            {"clean-up", clean_up},
            {"history", history},
            {"behaviour", model.behaviour},
            {"image-size", model.image_size},
            {"device", model.device},
            {"precision", model.precision}};
}

}  // namespace sam3::cli
