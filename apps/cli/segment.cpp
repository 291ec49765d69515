#include "clicks.h"
#include "command.h"
#include "engine/image_session.h"
#include "formats/npy.h"
#include "formats/segmentation.h"
#include "media/image_io.h"
#include "model_options.h"
#include "status.h"
#include "util/error.h"
#include "values.h"

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <set>

namespace sam3::cli {
namespace {

struct Options {
    ModelOptions model;
    std::string image, output, dump;
    std::vector<std::string> texts, exemplars, negative_exemplars, points, negative_points, formats;
    std::vector<ClickObject> objects;  // what --point, --neg-point, --box and --mask describe
    bool multimask = false;
    float threshold = -1;  // below 0: the behaviour's default
    float nms = 1;
    std::string nms_on = "masks";
    int top_k = 0;
    bool semantic = false;
    bool quiet = false;
};

const std::set<std::string> kFormats = {"json", "png", "overlay"};

bool has_concept(const Options& options) {
    return !(options.texts.empty() && options.exemplars.empty() && options.negative_exemplars.empty() &&
             options.points.empty());
}

void check(const Options& options) {
    for (const std::string& format : options.formats)
        if (kFormats.count(format) == 0)
            throw UsageError(str("--format knows json, png and overlay, found '", printable(format), "'"));
    if (!has_concept(options) && options.objects.empty())
        throw UsageError("there is nothing to look for: give --text, --exemplar, --point, --box or --mask");
    const bool files = std::any_of(options.formats.begin(), options.formats.end(),
                                   [](const std::string& format) { return format != "json"; });
    if (files && options.output.empty()) throw UsageError("--format png and overlay need --output DIR");
}

std::vector<ConceptPrompt> prompts_of(const Options& options, float threshold) {
    ConceptPrompt common;
    for (const std::string& text : options.exemplars) common.positive_boxes.push_back(parse_box("--exemplar", text));
    for (const std::string& text : options.negative_exemplars)
        common.negative_boxes.push_back(parse_box("--neg-exemplar", text));
    const auto point = [](const char* option, const std::string& text) {
        const std::vector<float> n = parse_numbers(option, text, 2);
        return Point{n[0], n[1]};
    };
    for (const std::string& text : options.points) common.positive_points.push_back(point("--exemplar-point", text));
    for (const std::string& text : options.negative_points)
        common.negative_points.push_back(point("--neg-exemplar-point", text));
    common.options.threshold = threshold;
    common.options.nms_threshold = options.nms;
    common.options.nms_on_boxes = options.nms_on == "boxes";
    common.options.top_k = options.top_k;
    common.options.semantic = options.semantic;

    std::vector<ConceptPrompt> prompts;
    for (const std::string& text : options.texts) {
        prompts.push_back(common);
        prompts.back().text = text;
    }
    if (prompts.empty()) prompts.push_back(common);
    return prompts;
}

// Every traced tensor as NAME.npy; a name that comes again (one phrase after another) becomes NAME.1.npy, NAME.2.npy.
Ops::TraceSink dump_to(const std::string& folder, Ops& ops) {
    std::filesystem::create_directories(folder);
    auto seen = std::make_shared<std::map<std::string, int>>();
    return [folder, &ops, seen](const std::string& name, const Tensor& tensor) {
        const int times = (*seen)[name]++;
        const Tensor host = ops.download(tensor);
        const std::string file = times == 0 ? name : name + "." + std::to_string(times);
        write_npy(folder + "/" + file + ".npy", {host.data<float>(), static_cast<size_t>(host.numel())},
                  {host.shape().begin(), host.shape().end()});
    };
}

void add_concepts(Segmentation& out, const std::vector<ConceptPrompt>& prompts, std::vector<ConceptResult>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
        const std::string label = prompts[i].text.empty() ? "visual" : prompts[i].text;
        out.prompts.push_back({label, results[i].presence, std::move(results[i].semantic)});
        for (Detection& d : results[i].detections)
            out.instances.push_back(
                {label, static_cast<int>(i), d.score, d.box.x0, d.box.y0, d.box.x1, d.box.y1, std::move(d.mask)});
    }
}

void take_answer(Segmentation::Instance& instance, VisualAnswer& answer, bool multimask) {
    if (multimask)
        for (const VisualCandidate& candidate : answer.candidates)
            instance.candidates.push_back({candidate.iou, candidate.mask});
    instance.mask = std::move(answer.candidates.front().mask);
    const Box box = box_around(instance.mask);
    instance.x0 = box.x0;
    instance.y0 = box.y0;
    instance.x1 = box.x1;
    instance.y1 = box.y1;
}

// Objects that were pointed at, without a concept: one instance each.
void add_objects(Segmentation& out, const std::vector<VisualQuery>& queries, ImageSession& session) {
    std::vector<VisualAnswer> answers = session.segment(queries);
    for (size_t i = 0; i < answers.size(); ++i) {
        Segmentation::Instance instance;
        instance.label = "object " + std::to_string(i);
        instance.prompt = static_cast<int>(out.prompts.size());
        instance.score = answers[i].candidates.front().iou;
        out.prompts.push_back({instance.label, answers[i].object_score, {}});
        take_answer(instance, answers[i], queries[i].multimask);
        out.instances.push_back(std::move(instance));
    }
}

bool contains(const Mask& mask, const VisualQuery& query) {
    for (const auto& point : query.points) {
        if (!point.positive) continue;
        const int x = std::clamp(static_cast<int>(point.x), 0, mask.width - 1);
        const int y = std::clamp(static_cast<int>(point.y), 0, mask.height - 1);
        if (mask.at(x, y) != 0) return true;
    }
    return false;
}

// The found instance that a click or box means: under a positive click, else the one with the most similar box.
Detection* meant_by(const VisualQuery& query, std::vector<ConceptResult>& results) {
    Detection* best = nullptr;
    float overlap = 0;
    for (ConceptResult& result : results) {
        for (Detection& detection : result.detections) {
            if (contains(detection.mask, query)) return &detection;
            const float iou = query.box ? box_iou(*query.box, detection.box) : 0.0F;
            if (iou > overlap) {
                overlap = iou;
                best = &detection;
            }
        }
    }
    return best;
}

// Clicks after a concept correct the instance that they are on.
void refine(std::vector<ConceptResult>& results, const std::vector<VisualQuery>& queries, ImageSession& session) {
    for (VisualQuery query : queries) {
        Detection* detection = meant_by(query, results);
        if (detection == nullptr)
            fail(
                "none of the instances that were found lies under the click or box: lower --threshold or leave --text "
                "out");
        if (!query.mask_logits && query.mask.data.empty())
            query.mask_logits = session.ops().contiguous(detection->logits);
        query.multimask = false;
        VisualAnswer answer = session.segment({&query, 1}).front();
        detection->mask = std::move(answer.candidates.front().mask);
        detection->box = box_around(detection->mask);
    }
}

// Three readings of every found instance, from the interactive head.
void add_candidates(Segmentation& out, const std::vector<VisualQuery>& queries, ImageSession& session) {
    const std::vector<VisualAnswer> answers = session.segment(queries);
    for (size_t i = 0; i < answers.size(); ++i)
        for (const VisualCandidate& candidate : answers[i].candidates)
            out.instances[i].candidates.push_back({candidate.iou, candidate.mask});
}

std::vector<VisualQuery> candidate_queries(const std::vector<ConceptResult>& results) {
    std::vector<VisualQuery> queries;
    for (const ConceptResult& result : results) {
        for (const Detection& detection : result.detections) {
            VisualQuery query;
            query.box = detection.box;
            query.mask_logits = detection.logits;
            query.multimask = true;
            queries.push_back(std::move(query));
        }
    }
    return queries;
}

Segmentation find(const Options& options, const std::vector<ConceptPrompt>& prompts,
                  const std::vector<VisualQuery>& queries, ImageSession& session) {
    Segmentation out;
    if (!has_concept(options)) {
        add_objects(out, queries, session);
        return out;
    }
    std::vector<ConceptResult> results = session.segment(prompts);
    if (!queries.empty()) refine(results, queries, session);
    const std::vector<VisualQuery> more = options.multimask ? candidate_queries(results) : std::vector<VisualQuery>();
    add_concepts(out, prompts, results);
    if (options.multimask) add_candidates(out, more, session);
    return out;
}

// DIR/STEM.json, STEM_overlay.png, STEM_mask_N.png, STEM_semantic_N.png
void write_files(const Options& options, const Image& image, const Segmentation& segmentation) {
    const std::filesystem::path folder(options.output);
    std::filesystem::create_directories(folder);
    const std::string stem = (folder / std::filesystem::path(options.image).stem()).string();
    const std::set<std::string> formats(options.formats.begin(), options.formats.end());
    if (formats.count("json") != 0) {
        const std::string json = to_json(segmentation);
        write_file(stem + ".json", {reinterpret_cast<const uint8_t*>(json.data()), json.size()});
    }
    if (formats.count("overlay") != 0) write_file(stem + "_overlay.png", encode_png(draw_overlay(image, segmentation)));
    if (formats.count("png") == 0) return;
    for (size_t i = 0; i < segmentation.instances.size(); ++i)
        write_file(str(stem, "_mask_", i, ".png"), encode_png(to_grey(segmentation.instances[i].mask)));
    for (size_t i = 0; i < segmentation.prompts.size(); ++i)
        if (!segmentation.prompts[i].semantic.data.empty())
            write_file(str(stem, "_semantic_", i, ".png"), encode_png(to_grey(segmentation.prompts[i].semantic)));
}

void print_table(const Segmentation& segmentation) {
    size_t width = 5;
    for (const auto& instance : segmentation.instances) width = std::max(width, printable(instance.label).size());
    std::cout << std::left << std::setw(static_cast<int>(width)) << "label" << std::right
              << "  score      x0      y0      x1      y1      area\n"
              << std::fixed;
    for (const auto& instance : segmentation.instances) {
        std::cout << std::left << std::setw(static_cast<int>(width)) << printable(instance.label) << std::right
                  << std::setprecision(3) << std::setw(7) << instance.score << std::setprecision(1);
        for (const float value : {instance.x0, instance.y0, instance.x1, instance.y1})
            std::cout << std::setw(8) << value;
        std::cout << std::setw(10) << mask_area(instance.mask) << "\n";
    }
    for (const auto& prompt : segmentation.prompts) {
        const auto count = std::count_if(segmentation.instances.begin(), segmentation.instances.end(),
                                         [&](const auto& instance) { return instance.label == prompt.label; });
        if (count == 0)
            std::cout << "nothing found for '" << printable(prompt.label) << "' (presence " << std::setprecision(3)
                      << prompt.presence << ")\n";
    }
}

void run(Options& options) {
    check(options);
    prompts_of(options, 0.5F);  // wrong numbers are found before the long work
    Status status(options.quiet);
    status.show("reading " + options.image);
    const Image image = read_image(options.image);
    std::vector<VisualQuery> queries;
    for (ClickObject& object : options.objects) {
        load_mask(object);
        object.query.multimask = options.multimask;
        queries.push_back(std::move(object.query));
    }
    status.show("loading " + options.model.path);
    const std::shared_ptr<const Model> model = options.model.load(
        {.concepts = has_concept(options), .clicks = !queries.empty() || options.multimask, .video = false});
    if (has_concept(options)) model->detector();
    if (!queries.empty() || options.multimask) model->interactive_head();
    const float threshold = options.threshold >= 0 ? options.threshold : model->behaviour().threshold;

    ImageSession session(model, options.model.threads);
    if (!options.dump.empty()) session.ops().set_trace(dump_to(options.dump, session.ops()));
    status.show("encoding the image");
    session.encode({&image, 1});
    status.show("segmenting");
    Segmentation segmentation = find(options, prompts_of(options, threshold), queries, session);
    segmentation.file = options.image;
    segmentation.width = image.width;
    segmentation.height = image.height;
    segmentation.seconds = session.seconds();
    status.clear();

    if (!options.output.empty()) write_files(options, image, segmentation);
    if (options.output.empty() && !options.formats.empty())
        std::cout << to_json(segmentation);
    else if (!options.quiet)
        print_table(segmentation);
}

}  // namespace

void add_segment(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    auto clicks = std::make_shared<ClickOptions>();
    CLI::App* command = program.add_subcommand("segment", "Find and outline objects in an image");
    options->model.add_to(*command);
    command->add_option("-i,--image", options->image, "JPEG, PNG or WebP file")->required();
    command->add_option("-t,--text", options->texts, "Noun phrase to look for; may be given several times")
        ->expected(1)
        ->take_all();
    command->add_option("--exemplar", options->exemplars, "X0,Y0,X1,Y1: box around an example of the concept")
        ->expected(1)
        ->take_all();
    command->add_option("--neg-exemplar", options->negative_exemplars, "X0,Y0,X1,Y1: box around what it is not")
        ->expected(1)
        ->take_all();
    command->add_option("--exemplar-point", options->points, "X,Y on an example (files with the point weights)")
        ->expected(1)
        ->take_all();
    command->add_option("--neg-exemplar-point", options->negative_points, "X,Y on what it is not")
        ->expected(1)
        ->take_all();
    clicks->add_to(*command);
    command->add_flag("--multimask", options->multimask,
                      "Also give the three candidate masks of each object, best first");
    command->add_option("--threshold", options->threshold, "Keep scores above this (default: the model's, 0.5 or 0.3)")
        ->check(CLI::Range(0.0, 1.0));
    command
        ->add_option("--nms", options->nms,
                     "Drop the weaker of two instances that overlap more than this IoU (default: keep all)")
        ->check(CLI::Range(0.0, 1.0));
    command->add_option("--nms-on", options->nms_on, "What overlaps are measured on: masks or boxes")
        ->check(CLI::IsMember({"masks", "boxes"}))
        ->capture_default_str();
    command->add_option("--top-k", options->top_k, "Keep only the best so many for each phrase (0: all)")
        ->check(CLI::Range(0, 100000));
    command->add_flag("--semantic", options->semantic, "Also give one mask of everything that matches a phrase");
    command->add_option("-o,--output", options->output, "Folder for result files; made when missing");
    command->add_option("-f,--format", options->formats, "json, png (a mask an instance), overlay; separated by commas")
        ->delimiter(',');
    command->add_option("--dump", options->dump,
                        "Write every named intermediate as .npy into this folder (docs/parity.md)");
    command->add_flag("-q,--quiet", options->quiet, "No table, no progress");
    command->footer(
        "Examples:\n"
        "  sam3 segment -m sam3 -i photo.jpg -t \"red car\" -t wheel -o out -f json,overlay\n"
        "  sam3 segment -m sam3 -i photo.jpg --exemplar 120,80,260,190 -f json | jq .detections[].score\n"
        "  sam3 segment -m sam3 -i photo.jpg --point 210,130 --neg-point 40,40 --object --box 300,80,420,200 -o out -f "
        "png\n"
        "  sam3 segment -m sam3 -i photo.jpg -t wheel --point 210,130 -o out -f overlay   # find, then correct by a "
        "click\n"
        "Without --output the result is printed: a table, or JSON with --format json.");
    command->callback([options, clicks, &chosen] {
        chosen = [options, clicks] {
            if (clicks->given()) options->objects = clicks->objects();
            run(*options);
        };
    });
}

}  // namespace sam3::cli
