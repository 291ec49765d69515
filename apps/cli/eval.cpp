#include "command.h"
#include "eval_figures.h"
#include "eval_model.h"
#include "media/image_io.h"
#include "util/error.h"
#include "values.h"

#include <iostream>
#include <memory>

namespace sam3::cli {
namespace {

struct Options {
    ModelOptions model;
    std::vector<std::string> truths;
    std::string predictions, images, task, output, baseline;
    float threshold = 0.5F;
    double tolerance = 0.01;
    size_t limit = 0;  // 0: all
    bool json = false, quiet = false;
};

void check(const Options& options) {
    const bool runs = !options.model.path.empty() || !options.images.empty();
    if (runs && !options.predictions.empty())
        throw UsageError("--predictions scores a file, --model and --images run a model: give one of the two");
    if (!runs && options.predictions.empty())
        throw UsageError("there is nothing to score: give --predictions FILE, or --model and --images DIR");
    if (runs && (options.model.path.empty() || options.images.empty()))
        throw UsageError("running a model needs both --model and --images DIR");
    if (!options.output.empty() && !runs) throw UsageError("--output keeps what a model predicts: it needs --model");
}

EvalTask task_of(const Options& options, const GroundTruth& truth) {
    if (options.task.empty()) return truth.video ? EvalTask::video_text : EvalTask::text;
    const EvalTask task = kEvalTasks.at(options.task);
    if (is_video(task) != truth.video)
        fail(truth.path, ": holds ", truth.video ? "clips" : "images", ", so --task ", options.task,
             " does not fit: ", truth.video ? "video-text and video-click do" : "text, exemplar, click and clicks3 do");
    return task;
}

std::vector<GroundTruth> read_truths(const Options& options) {
    std::vector<GroundTruth> truths;
    for (const std::string& path : options.truths) {
        truths.push_back(read_ground_truth(path));
        if (options.limit > 0) keep_first(truths.back(), options.limit);
    }
    for (const GroundTruth& truth : truths)
        if (truths.size() > 1 && !truth.pairs)
            fail(truth.path, ": several ground truths are those of SA-Co/Gold's annotators; this is of another layout");
    return truths;
}

void run(const Options& options) {
    check(options);
    Status status(options.quiet);
    status.show("reading " + options.truths.front());
    std::vector<GroundTruth> truths = read_truths(options);
    const EvalTask task = task_of(options, truths[0]);
    const std::vector<Prediction> predictions =
        options.predictions.empty() ? predict(truths[0], task, options.images, options.model, options.threshold, status)
                                    : read_predictions(options.predictions, asked_by(task), truths[0]);
    if (!options.output.empty()) {
        const std::string text = to_results(predictions, asked_by(task), truths[0]);
        write_file(options.output, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    }
    status.show("scoring");
    const std::vector<Figure> figures = score_predictions(truths, task, predictions, options.threshold);
    status.clear();
    if (options.json) {
        const nlohmann::ordered_json json = {{"ground_truth", options.truths}, {"figures", figures_json(figures)}};
        std::cout << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    } else if (!options.quiet) {
        print_figures(figures);
    }
    if (!options.baseline.empty()) compare_with(options.baseline, figures, options.tolerance);
}

}  // namespace

void add_eval(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("eval", "Score predictions, or a model, against ground truth");
    command
        ->add_option("GT", options->truths,
                     "Ground truth: COCO, YouTube-VIS or SA-Co JSON; of SA-Co/Gold the files of all annotators")
        ->required();
    command->add_option("-p,--predictions", options->predictions,
                        "Score these: COCO or YouTube-VIS results, what 'segment' or 'track' wrote, or a folder of it");
    options->model.add_to(*command, /*required=*/false);
    command->add_option("--images", options->images, "Run the model on the files of the ground truth in this folder");
    command
        ->add_option("--task", options->task,
                     "text, exemplar, click, clicks3, video-text or video-click (default: text or video-text)")
        ->check(CLI::IsMember({"text", "exemplar", "click", "clicks3", "video-text", "video-click"}));
    command->add_option("-o,--output", options->output, "Write what the model predicts, to be scored with -p again");
    command->add_option("--threshold", options->threshold, "Count concepts' predictions from this score on")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--limit", options->limit, "Only the first so many images or clips");
    command->add_option("--baseline", options->baseline, "Fail when a figure is worse than in this --json output");
    command->add_option("--tolerance", options->tolerance, "How much worse than the baseline is no failure")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command->add_flag("--json", options->json, "Print JSON");
    command->add_flag("-q,--quiet", options->quiet, "No table, no progress");
    command->footer(
        "Examples:\n"
        "  sam3 eval images.json -m models/sam3-shapes.gguf --images heldout -o predictions.json\n"
        "  sam3 eval images.json -p predictions.json --json\n"
        "  sam3 eval images.json -m models/sam3-shapes.gguf --images heldout --task clicks3 --baseline before.json\n"
        "  sam3 eval gold_a.json gold_b.json gold_c.json -p coco_predictions_segm.json      # SA-Co/Gold\n"
        "  sam3 eval saco_veval_sav_test.json -m sam3 --images JPEGImages_24fps            # SA-Co/VEval\n"
        "docs/eval.md defines every figure and layout.");
    command->callback([options, &chosen] { chosen = [options] { run(*options); }; });
}

}  // namespace sam3::cli
