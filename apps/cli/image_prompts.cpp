#include "image_prompts.h"

#include "media/image_io.h"
#include "media/image_names.h"
#include "util/error.h"
#include "util/sha256.h"
#include "values.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

namespace sam3::cli {

namespace {

using Json = nlohmann::ordered_json;

std::vector<float> numbers(const Json& json, size_t count, const char* what) {
    auto list = json.get<std::vector<float>>();
    const bool finite = std::all_of(list.begin(), list.end(), [](float value) { return std::isfinite(value); });
    if (list.size() != count || !finite) fail("expected ", count, " numbers in ", what, ", found ", json.dump());
    return list;
}

Box box_of(const Json& json, const char* what) {
    const std::vector<float> n = numbers(json, 4, what);
    return {n[0], n[1], n[2], n[3]};
}

std::vector<Box> boxes_of(const Json& line, const char* key) {
    std::vector<Box> boxes;
    if (line.contains(key))
        for (const Json& item : line[key]) boxes.push_back(box_of(item, key));
    return boxes;
}

// A name that is misspelt would silently ask for nothing.
void check_keys(const Json& json, const std::set<std::string>& known) {
    if (!json.is_object()) fail("expected an object in braces, found ", json.type_name());
    for (const auto& [key, value] : json.items()) {
        if (known.count(key) != 0) continue;
        std::string list;
        for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
        fail("there is no '", key, "' here: expected ", list);
    }
}

ClickObject object_of(const Json& json, const std::string& folder) {
    check_keys(json, {"points", "negative_points", "box", "mask"});
    ClickObject object;
    for (const char* key : {"points", "negative_points"}) {
        if (!json.contains(key)) continue;
        for (const Json& item : json[key]) {
            const std::vector<float> n = numbers(item, 2, key);
            object.query.points.push_back({n[0], n[1], std::string_view(key) == "points"});
        }
    }
    if (json.contains("box")) object.query.box = box_of(json["box"], "box");
    if (json.contains("mask"))
        object.mask_file = (std::filesystem::path(folder) / json["mask"].get<std::string>()).string();
    if (object.empty()) fail("an object needs points, a box or a mask");
    return object;
}

std::vector<std::string> texts_of(const Json& json) {
    if (json.is_string()) return {json.get<std::string>()};
    return json.get<std::vector<std::string>>();
}

class PromptReader {
public:
    PromptReader(std::string folder, const ImagePromptOptions& options)
        : folder_(std::move(folder)), options_(options) {}

    void add(const std::string& text) {
        hash_.add(text.data(), text.size());
        hash_.add("\n", 1);
        if (text.find_first_not_of(" \t\r") == std::string::npos) return;
        const Json json = Json::parse(text);
        check_keys(json, {"image", "text", "exemplars", "negative_exemplars", "objects"});
        const std::string image = json.at("image").get<std::string>();
        const std::string path = (std::filesystem::path(folder_) / image).string();
        if (!names_.insert(path).second) fail("a second line for ", image, ": one line holds all prompts of a picture");
        out_.inputs.push_back({.name = utf8_name(path), .path = path, .task = out_.tasks.size()});
        out_.tasks.push_back(options_.task_of(json, folder_));
        if (out_.tasks.back().empty())
            fail("there is nothing to look for: give text, exemplars or objects here, or --text on the command line");
    }

    PromptedInputs take() {
        std::sort(out_.inputs.begin(), out_.inputs.end(),
                  [](const Input& a, const Input& b) { return natural_less(a.name, b.name); });
        out_.fingerprint = hash_.hex();
        return std::move(out_);
    }

private:
    std::string folder_;
    const ImagePromptOptions& options_;
    PromptedInputs out_;
    std::set<std::string> names_;
    Sha256 hash_;
};

}  // namespace

void ImagePromptOptions::add_to(CLI::App& command) {
    const auto repeated = [&](const char* name, std::vector<std::string>& values, const char* type, const char* help) {
        command.add_option(name, values, help)
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->type_name(type)
            ->group("What to look for");
    };
    repeated("-t,--text", texts_, "PHRASE", "Noun phrase to look for; may be given several times");
    repeated("--exemplar", exemplars_, "X0,Y0,X1,Y1", "Box around an example of the concept, in pixels");
    repeated("--neg-exemplar", negative_exemplars_, "X0,Y0,X1,Y1", "Box around what it is not");
    repeated("--exemplar-point", points_, "X,Y", "On an example (files with the point weights)");
    repeated("--neg-exemplar-point", negative_points_, "X,Y", "On what it is not");
    clicks_.add_to(command);
    command.add_flag("--multimask", multimask_, "Also give the three candidate masks of each object, best first")
        ->group("Point at objects");
    const char* group = "What to keep";
    command.add_option("--threshold", threshold_, "Keep scores above this (default: the model's, 0.5 or 0.3)")
        ->check(CLI::Range(0.0, 1.0))
        ->group(group);
    command
        .add_option("--nms", nms_,
                    "Drop the weaker of two instances that overlap more than this IoU (default: keep all)")
        ->check(CLI::Range(0.0, 1.0))
        ->group(group);
    command.add_option("--nms-on", nms_on_, "What overlaps are measured on: masks or boxes")
        ->check(CLI::IsMember({"masks", "boxes"}))
        ->capture_default_str()
        ->group(group);
    command.add_option("--top-k", top_k_, "Keep only the best so many for each phrase (0: all)")
        ->check(CLI::Range(0, 100000))
        ->group(group);
    command.add_flag("--semantic", semantic_, "Also give one mask of everything that matches a phrase")->group(group);
}

ConceptPrompt ImagePromptOptions::common() const {
    ConceptPrompt prompt;
    for (const std::string& text : exemplars_) prompt.positive_boxes.push_back(parse_box("--exemplar", text));
    for (const std::string& text : negative_exemplars_)
        prompt.negative_boxes.push_back(parse_box("--neg-exemplar", text));
    const auto point = [](const char* option, const std::string& text) {
        const std::vector<float> n = parse_numbers(option, text, 2);
        return Point{n[0], n[1]};
    };
    for (const std::string& text : points_) prompt.positive_points.push_back(point("--exemplar-point", text));
    for (const std::string& text : negative_points_)
        prompt.negative_points.push_back(point("--neg-exemplar-point", text));
    prompt.options.threshold = threshold_;
    prompt.options.nms_threshold = nms_;
    prompt.options.nms_on_boxes = nms_on_ == "boxes";
    prompt.options.top_k = top_k_;
    prompt.options.semantic = semantic_;
    return prompt;
}

ImageTask ImagePromptOptions::task() const {
    ImageTask task;
    const ConceptPrompt prompt = common();
    for (const std::string& text : texts_) {
        task.concepts.push_back(prompt);
        task.concepts.back().text = text;
    }
    const bool examples = !(exemplars_.empty() && negative_exemplars_.empty() && points_.empty());
    if (texts_.empty() && examples) task.concepts.push_back(prompt);
    if (clicks_.given()) task.objects = clicks_.objects();
    task.multimask = multimask_;
    return task;
}

ImageTask ImagePromptOptions::task_of(const Json& line, const std::string& folder) const {
    ImageTask task;
    ConceptPrompt prompt = common();
    for (const Box& box : boxes_of(line, "exemplars")) prompt.positive_boxes.push_back(box);
    for (const Box& box : boxes_of(line, "negative_exemplars")) prompt.negative_boxes.push_back(box);
    for (const std::string& text : line.contains("text") ? texts_of(line["text"]) : texts_) {
        task.concepts.push_back(prompt);
        task.concepts.back().text = text;
    }
    if (task.concepts.empty() && !(prompt.positive_boxes.empty() && prompt.negative_boxes.empty()))
        task.concepts.push_back(prompt);
    if (line.contains("objects")) {
        for (const Json& object : line["objects"]) task.objects.push_back(object_of(object, folder));
    } else if (clicks_.given()) {
        task.objects = clicks_.objects();
    }
    task.multimask = multimask_;
    return task;
}

Json ImagePromptOptions::settings() const {
    return {{"text", texts_},
            {"exemplars", exemplars_},
            {"negative_exemplars", negative_exemplars_},
            {"exemplar_points", points_},
            {"negative_exemplar_points", negative_points_},
            {"objects", clicks_.words()},
            {"multimask", multimask_},
            {"threshold", threshold_},
            {"nms", nms_},
            {"nms_on", nms_on_},
            {"top_k", top_k_},
            {"semantic", semantic_}};
}

PromptedInputs read_prompts(const std::string& path, const ImagePromptOptions& options) {
    std::ifstream file;
    if (path != "-") file.open(path);
    if (path != "-" && !file) fail(path, ": the prompts cannot be read; check the path and its permissions");
    std::istream& stream = path == "-" ? std::cin : file;
    PromptReader reader(path == "-" ? "" : std::filesystem::path(path).parent_path().string(), options);
    std::string line;
    for (size_t number = 1; std::getline(stream, line); ++number) {
        const std::string where = str(path == "-" ? "stdin" : path, ": line ", number);
        try {
            reader.add(line);
        } catch (const Json::exception& error) {
            fail(where, ": expected {\"image\": FILE, \"text\": [...]} (", error.what(), ")");
        } catch (const Error& error) {
            fail(where, ": ", error.what());
        }
    }
    PromptedInputs out = reader.take();
    if (out.inputs.empty()) fail(path, ": expected a line for each picture, found none");
    return out;
}

}  // namespace sam3::cli
