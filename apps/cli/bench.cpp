#include "command.h"
#include "engine/image_session.h"
#include "media/image_io.h"
#include "model_options.h"
#include "status.h"
#include "util/error.h"
#include "values.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

namespace sam3::cli {
namespace {

struct Options {
    ModelOptions model;
    std::string image, text = "object";
    int runs = 3;
    bool profile = false;
    bool json = false;
};

// Smooth colours: timing does not depend on what is seen, but a constant picture could take short cuts.
Image synthetic_picture() {
    Image image(1280, 960, 3);
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x)
            for (int c = 0; c < 3; ++c)
                image.at(x, y)[c] = static_cast<uint8_t>((x * (c + 1) / 5 + y * (3 - c) / 4) & 255);
    return image;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void run_once(ImageSession& session, const Image& image, const Options& options) {
    session.encode({&image, 1});
    if (session.model().finds_concepts()) {
        ConceptPrompt prompt;
        prompt.text = options.text;
        session.segment({&prompt, 1});
    }
    if (session.model().answers_clicks()) {
        VisualQuery query;
        query.points.push_back({static_cast<float>(image.width) / 2, static_cast<float>(image.height) / 2, true});
        session.segment({&query, 1});
    }
}

void run(const Options& options) {
    const Image image = options.image.empty() ? synthetic_picture() : read_image(options.image);
    Status status(false);
    status.show("loading " + options.model.path);
    const std::shared_ptr<const Model> model = options.model.load();
    ImageSession session(model, options.model.threads);
    std::map<std::string, std::vector<double>> steps;
    for (int i = 0; i < options.runs; ++i) {
        status.show("run " + std::to_string(i + 1) + " of " + std::to_string(options.runs));
        run_once(session, image, options);
        double whole = 0;
        for (const auto& [step, seconds] : session.seconds()) {
            steps[step].push_back(seconds);
            whole += seconds;
        }
        steps["whole"].push_back(whole);
    }
    Profiler profiler;
    if (options.profile) {
        status.show("profiling");
        session.ops().set_profiler(&profiler);
        run_once(session, image, options);
    }
    status.clear();

    if (options.json) {
        nlohmann::ordered_json json = {
            {"model", options.model.path}, {"threads", options.model.threads}, {"runs", options.runs}};
        for (const auto& [step, seconds] : steps)
            json["seconds"][step] = {{"median", median(seconds)},
                                     {"best", *std::min_element(seconds.begin(), seconds.end())}};
        json["peak_tensor_bytes"] = model->device().memory().peak;
        if (options.profile) json["profile"] = nlohmann::ordered_json::parse(profiler.json());
        std::cout << json.dump(2) << "\n";
        return;
    }
    std::cout << "step                  median s      best s\n" << std::fixed << std::setprecision(4);
    for (const auto& [step, seconds] : steps)
        std::cout << std::left << std::setw(18) << step << std::right << std::setw(12) << median(seconds)
                  << std::setw(12) << *std::min_element(seconds.begin(), seconds.end()) << "\n";
    std::cout << "tensors and weights at most " << pretty_size(model->device().memory().peak) << "\n";
    if (options.profile) std::cout << "\n" << profiler.table();
}

}  // namespace

void add_bench(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("bench", "Measure the steps of an image, and where the time goes");
    options->model.add_to(*command);
    command->add_option("-i,--image", options->image, "Picture to use (default: a synthetic one of 1280 x 960)");
    command->add_option("-t,--text", options->text, "Phrase to look for")->capture_default_str();
    command->add_option("--runs", options->runs, "How often to measure; the median and the best are shown")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command->add_flag("--profile", options->profile, "Also time every operator in one more run, with its GFLOP/s");
    command->add_flag("--json", options->json, "Print JSON");
    command->footer(
        "Examples:\n"
        "  sam3 bench -m models/sam3-shapes.gguf --runs 10\n"
        "  sam3 bench -m sam3 -i photo.jpg -t car --runs 1 --profile");
    command->callback([options, &chosen] { chosen = [options] { run(*options); }; });
}

}  // namespace sam3::cli
