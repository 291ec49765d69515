#include "bench_tasks.h"
#include "command.h"
#include "engine/timing.h"
#include "host.h"
#include "media/image_io.h"
#include "media/video_reader.h"
#include "model_options.h"
#include "status.h"
#include "values.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

namespace sam3::cli {
namespace {

bool is_video(const BenchJob& job) { return job.task == "video" || job.task == "concepts"; }

struct Options {
    ModelOptions model;
    BenchJob job;
    std::string image;
    int runs = 0, warmup = -1;  // 0 and -1: what suits the device
    double pause = 0;           // seconds
    bool profile = false;
    bool json = false;
    bool random = false;
};

constexpr int kRuns = 3, kGpuRuns = 50, kGpuWarmup = 5;

// One more run with a clock around every operator, and what the machine could do at most.
struct Profile {
    Profiler operators;
    double seconds = 0;
    double peak = 0;  // GFLOP/s

    double flops() const {
        double total = 0;
        for (const auto& [name, entry] : operators.operators()) total += entry.flops;
        return total;
    }
    double speed() const { return seconds > 0 ? flops() / seconds * 1e-9 : 0.0; }  // GFLOP/s
    double percent_of_peak() const { return peak > 0 ? 100 * speed() / peak : 0.0; }
};

struct Report {
    std::string device, precision;
    int runs = 0, warmup = 0;
    BenchTimes times;
    double load_seconds = 0;
    size_t tensor_bytes = 0;
    uint64_t process_bytes = 0;
    std::optional<Profile> profile;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double best(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

double seconds_of_run(BenchRunner& runner) {
    BenchTimes once;
    double seconds = 0;
    {
        const Timing timing(seconds);  // a run ends with the device idle
        runner.run(once);
    }
    return seconds;
}

void measure_profile(ImageSession& session, BenchRunner& runner, Profile& profile) {
    session.ops().set_profiler(&profile.operators);
    profile.seconds = seconds_of_run(runner);
    session.ops().set_profiler(nullptr);
    // Clocks around single operators keep a GPU waiting; its speed is that of a run without them.
    if (!session.model().device().is_host()) profile.seconds = seconds_of_run(runner);
    profile.peak = measure_peak(session.ops(), session.model().precision());
}

void check_video(const Options& options) {
    const std::string& video = options.job.video;
    if (video.empty()) return;
    if (!is_video(options.job)) throw UsageError("--video is for --task video and --task concepts");
    if (!options.image.empty())
        throw UsageError("--video and --image exclude each other: frames come from one of them");
    if (video == "-" || is_camera(video))
        throw UsageError("--video takes a file or a folder of images: it begins again where it ends, which " +
                         std::string(video == "-" ? "a pipe" : "a camera") + " cannot");
}

Report measure(const Options& options) {
    Report report;
    Status status(false);
    BenchJob job = options.job;
    check_video(options);
    job.picture = options.image.empty() ? synthetic_picture() : read_image(options.image);
    status.show("loading " + options.model.path);
    std::shared_ptr<const Model> model;
    {
        const Timing timing(report.load_seconds);
        model = options.model.load(bench_parts(job.task), options.random);
    }
    report.device = model->device().name();
    report.precision = name_of(model->precision());
    const bool host = model->device().is_host();
    report.runs = options.runs > 0 ? options.runs : host ? kRuns : kGpuRuns;
    report.warmup = options.warmup >= 0 ? options.warmup : host ? 0 : kGpuWarmup;
    const auto session = std::make_shared<ImageSession>(model, options.model.threads);
    session->wait_for_steps(true);
    status.show("preparing");
    const std::unique_ptr<BenchRunner> runner = make_bench_runner(session, job);
    BenchTimes unused;
    for (int i = 0; i < report.warmup; ++i) runner->run(unused);
    for (int i = 0; i < report.runs; ++i) {
        std::this_thread::sleep_for(std::chrono::duration<double>(options.pause));
        status.show("run " + std::to_string(i + 1) + " of " + std::to_string(report.runs));
        runner->run(report.times);
    }
    report.tensor_bytes = model->device().memory().peak;
    report.process_bytes = peak_resident_bytes();
    if (options.profile) {
        status.show("profiling");
        measure_profile(*session, *runner, report.profile.emplace());
    }
    return report;
}

nlohmann::ordered_json json_of(const BenchTimes::Seconds& times) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [name, seconds] : times)
        json[name] = {{"median", median(seconds)}, {"best", best(seconds)}, {"all", seconds}};
    return json;
}

void print_json(const Options& options, const Report& report) {
    nlohmann::ordered_json json = {{"model", options.random ? "random SAM 3" : options.model.path},
                                   {"task", options.job.task},
                                   {"device", report.device},
                                   {"precision", report.precision},
                                   {"threads", options.model.threads},
                                   {"runs", report.runs},
                                   {"warmup", report.warmup},
                                   {"pause_seconds", options.pause},
                                   {"batch", options.job.batch}};
    const bool video = is_video(options.job);
    if (!options.job.video.empty()) json["video"] = options.job.video;
    if (video) json["objects"] = options.job.objects;
    if (video) json["masks"] = report.times.masks;
    json["load_seconds"] = report.load_seconds;
    json["waits"] = json_of(report.times.waits);
    json["seconds"] = json_of(report.times.steps);
    if (report.times.waits.count("second_phrase") != 0) json["detections"] = report.times.detections;
    json["peak_tensor_bytes"] = report.tensor_bytes;
    json["peak_process_bytes"] = report.process_bytes;
    if (report.profile) {
        json["gflop"] = report.profile->flops() * 1e-9;
        json["gflops"] = report.profile->speed();
        json["peak_gflops"] = report.profile->peak;
        json["percent_of_peak"] = report.profile->percent_of_peak();
        json["profile"] = nlohmann::ordered_json::parse(report.profile->operators.json());
    }
    std::cout << json.dump(2) << "\n";
}

void print_row(const std::string& name, const std::vector<double>& seconds) {
    std::cout << std::left << std::setw(18) << name << std::right << std::setw(12) << median(seconds) << std::setw(12)
              << best(seconds) << "\n";
}

// Of whole batches: a picture of one waits for all of it.
void print_throughput(int batch, const BenchTimes& times) {
    for (const auto& [key, words] : bench_waits())
        if (times.waits.count(key) != 0 && key.starts_with("image_"))
            std::cout << words << ", " << batch << " at a time: " << std::setprecision(1)
                      << batch / median(times.waits.at(key)) << " images/s\n";
    std::cout << std::setprecision(4);
}

void print_table(const Options& options, const Report& report) {
    std::cout << report.device << ", " << report.precision << ", " << report.runs << " runs after " << report.warmup
              << "\n\n";
    std::cout << std::fixed << std::setprecision(4) << "wait                  median s      best s\n";
    for (const auto& [key, words] : bench_waits())
        if (report.times.waits.count(key) != 0) print_row(words, report.times.waits.at(key));
    if (options.job.batch > 1) print_throughput(options.job.batch, report.times);
    std::cout << "\nstep                  median s      best s\n";
    for (const auto& [step, seconds] : report.times.steps) print_row(step, seconds);
    std::cout << "\nloaded in " << std::setprecision(2) << report.load_seconds << " s; tensors and weights at most "
              << pretty_size(report.tensor_bytes) << ", the process at most " << pretty_size(report.process_bytes)
              << "\n";
    if (!report.profile) return;
    const Profile& profile = *report.profile;
    std::cout << "\n"
              << profile.operators.table() << "\n"
              << options.job.task << ": " << std::setprecision(1) << profile.speed() << " GFLOP/s, "
              << profile.percent_of_peak() << " % of the measured peak of " << profile.peak << "\n";
}

void run(const Options& options) {
    const Report report = measure(options);
    if (options.json)
        print_json(options, report);
    else
        print_table(options, report);
}

}  // namespace

void add_bench(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        program.add_subcommand("bench", "Measure how long an image, a click or a video frame takes, and why");
    options->model.add_to(*command);
    command
        ->add_option("--task", options->job.task,
                     "image (phrases and clicks), encoder (its features alone), phrase, click, video (a frame with "
                     "clicked objects), or concepts (a frame on which --text is looked for and --objects are followed)")
        ->check(CLI::IsMember({"image", "encoder", "phrase", "click", "video", "concepts"}))
        ->capture_default_str();
    command->add_option("-i,--image", options->image,
                        "Picture to use (default: a synthetic one of 1280 x 960); a video's frames are it, moved");
    command->add_option("--video", options->job.video,
                        "For --task video and concepts: a video file (or a folder of images) whose frames are decoded "
                        "in a thread of their own; what a frame waits for that counts too");
    command->add_option("-t,--text", options->job.text, "Phrase to look for")->capture_default_str();
    command->add_option("--second", options->job.second, "Phrase to look for next on the same picture")
        ->capture_default_str();
    command
        ->add_option("--threshold", options->job.threshold,
                     "Objects with a score above it get a mask, and every mask takes time")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--top-k", options->job.top_k, "Only so many objects get a mask, the best ones; 0: all")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str();
    command->add_option("--batch", options->job.batch, "Pictures at a time; also shows images per second")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    command->add_option("--objects", options->job.objects, "Objects to follow in the video")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command
        ->add_option("--runs", options->runs,
                     "How many images, or video frames after the first, to measure; the median and the best are shown "
                     "(default: 3, on a GPU 50)")
        ->check(CLI::Range(1, 1000));
    command->add_option("--warmup", options->warmup, "Runs before those that count (default: 0, on a GPU 5)")
        ->check(CLI::Range(0, 1000));
    command
        ->add_option("--pause", options->pause,
                     "Seconds between runs, as when pictures come one at a time: a GPU that never rests can reach its "
                     "power limit and slow down")
        ->check(CLI::Range(0.0, 60.0))
        ->capture_default_str();
    command->add_flag("--random", options->random,
                      "Random weights of the published SAM 3's size, made in memory; the model's file gives only the "
                      "tokenizer. Time does not depend on the weights, but --top-k should say how many masks to make");
    command->add_flag("--profile", options->profile,
                      "Also time every operator in one more run, and the largest product this machine can do");
    command->add_flag("--json", options->json, "Print JSON");
    command->footer(
        "Examples:\n"
        "  sam3 bench -m models/sam3-shapes.gguf --runs 10\n"
        "  sam3 bench -m models/sam3-shapes.gguf --task video --objects 3 --runs 8\n"
        "  sam3 bench -m models/sam3-shapes.gguf --task concepts --objects 3 --runs 8\n"
        "  sam3 bench -m models/sam3-shapes.gguf --task concepts --objects 3 --runs 8 --video assets/clip.mp4\n"
        "  sam3 bench -m sam3 -i photo.jpg -t car --runs 1 --profile\n"
        "  sam3 bench -m models/sam3-shapes.gguf --random --threshold 0 --top-k 10 --device cuda");
    command->callback([options, &chosen] { chosen = [options] { run(*options); }; });
}

}  // namespace sam3::cli
