#include "command.h"
#include "media/image_io.h"
#include "model_pull.h"
#include "model_store.h"
#include "util/error.h"
#include "util/mapped_file.h"
#include "util/sha1.h"
#include "util/sha256.h"
#include "weights/weight_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

namespace sam3::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void list_models(bool json) {
    const std::vector<StoredModel> models = stored_models();
    if (json) {
        Json list = Json::array();
        for (const StoredModel& model : models)
            list.push_back({{"name", model.name}, {"path", model.path}, {"bytes", model.bytes}});
        std::cout << list.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
        return;
    }
    if (models.empty())
        std::cout << "no models were found; put one into " << models_folder()
                  << " or into ./models, or see `sam3 models pull "
                     "--help`\n";
    size_t width = 0;
    for (const StoredModel& model : models) width = std::max(width, model.name.size());
    for (const StoredModel& model : models)
        std::cout << std::left << std::setw(static_cast<int>(width) + 2) << printable(model.name) << std::right
                  << std::setw(9) << pretty_size(model.bytes) << "  " << printable(model.path) << "\n";
}

std::string sha256_of(const std::string& path) {
    const MappedFile file(path);
    Sha256 hash;
    hash.add(file.data(), file.size());
    return hash.hex();
}

// The sum that a file should have: from `sam3 models pull`, or from the name of the blob that a cache's link leads to.
struct ExpectedSum {
    std::string sha256, git_sha1;
};

ExpectedSum expected_sum(const fs::path& file, const Json& checksums) {
    ExpectedSum sum;
    const std::string name = file.filename().string();
    if (checksums.is_object() && checksums.contains("files") && checksums["files"].contains(name)) {
        sum.sha256 = checksums["files"][name].value("sha256", "");
        sum.git_sha1 = checksums["files"][name].value("git_sha1", "");
        return sum;
    }
    std::error_code error;
    if (!fs::is_symlink(file, error)) return sum;
    const std::string blob = fs::read_symlink(file, error).filename().string();
    if (blob.size() == 64) sum.sha256 = blob;
    if (blob.size() == 40) sum.git_sha1 = blob;
    return sum;
}

// Prints a line about the file; false when it is damaged.
bool verify_file(const fs::path& file, const Json& checksums) {
    const ExpectedSum expected = expected_sum(file, checksums);
    std::string found, wanted = expected.sha256;
    if (wanted.empty() && !expected.git_sha1.empty()) {
        wanted = expected.git_sha1;
        const std::vector<uint8_t> bytes = read_file(file.string());
        found = sha1_hex(str("blob ", bytes.size()) + '\0' + std::string(bytes.begin(), bytes.end()));
    } else {
        found = sha256_of(file.string());
    }
    const char* verdict = wanted.empty() ? "no checksum known" : wanted == found ? "good" : "DAMAGED";
    std::cout << found << "  " << printable(file.filename().string()) << "  " << verdict << "\n";
    return wanted.empty() || wanted == found;
}

void verify_model(const std::string& name) {
    const fs::path path = resolve_model(name);
    const bool folder = fs::is_directory(path);
    std::vector<fs::path> files;
    if (folder) {
        for (const auto& entry : fs::directory_iterator(path))
            if (entry.is_regular_file() && entry.path().filename() != kChecksumsFile) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
    } else {
        files.push_back(path);
    }
    Json checksums;
    const fs::path list = (folder ? path : path.parent_path()) / kChecksumsFile;
    if (fs::exists(list)) {
        const std::vector<uint8_t> bytes = read_file(list.string());
        checksums = Json::parse(bytes.begin(), bytes.end(), nullptr, false);
    }
    size_t damaged = 0;
    for (const fs::path& file : files)
        if (fs::file_size(file) > 0 && !verify_file(file, checksums)) ++damaged;
    if (damaged > 0)
        fail(path.string(), ": ", damaged, " of ", files.size(),
             " files are damaged: remove them and fetch them again");
    const auto weights = open_weight_file(path.string());  // fails for a header that cannot be read
    std::cout << "readable: " << weights->tensors().size() << " tensors\n";
}

}  // namespace

void add_models(CLI::App& program, Action& chosen) {
    CLI::App* command = program.add_subcommand("models", "List, find, check and fetch models");
    command->require_subcommand(1);

    const auto json = std::make_shared<bool>(false);
    CLI::App* list = command->add_subcommand("list", "Show the models that can be given by name");
    list->add_flag("--json", *json, "Print JSON");
    list->callback([json, &chosen] { chosen = [json] { list_models(*json); }; });

    const auto name = std::make_shared<std::string>();
    CLI::App* path = command->add_subcommand("path", "Print where a model is");
    path->add_option("NAME", *name, "Name or path of a model")->required();
    path->callback([name, &chosen] { chosen = [name] { std::cout << resolve_model(*name) << "\n"; }; });

    CLI::App* verify = command->add_subcommand("verify", "Check a model's files against their checksums");
    verify->add_option("NAME", *name, "Name or path of a model")->required();
    verify->callback([name, &chosen] { chosen = [name] { verify_model(*name); }; });

    const auto pull = std::make_shared<PullOptions>();
    CLI::App* fetch = command->add_subcommand("pull", "Fetch a model from Hugging Face; goes on where it was stopped");
    fetch->add_option("REPOSITORY", pull->repository, "ORGANISATION/NAME, such as facebook/sam3")->required();
    fetch->add_option("FILE", pull->files, "Names or patterns of files (default: weights, configuration, tokenizer)");
    fetch->add_option("--revision", pull->revision, "Branch, tag or commit")->capture_default_str();
    fetch->add_option("--endpoint", pull->endpoint, "Server (default: $HF_ENDPOINT or https://huggingface.co)");
    fetch->add_option("-o,--output", pull->output, "Folder (default: REPOSITORY in the folder of models)");
    fetch->add_flag("-n,--dry-run", pull->dry_run, "List the files, and fetch nothing");
    fetch->add_flag("-q,--quiet", pull->quiet, "No progress");
    fetch->callback([pull, &chosen] { chosen = [pull] { pull_model(*pull); }; });

    const char* examples =
        "Examples:\n"
        "  sam3 models list\n"
        "  sam3 segment -m sam3 photo.jpg -t dog         # the model called sam3, wherever it is\n"
        "  HF_TOKEN=hf_... sam3 models pull facebook/sam3\n"
        "  sam3 models verify facebook/sam3\n"
        "Models are looked for in the folders of $SAM3_MODELS, in ~/.local/share/sam3/models, in ./models and in "
        "Hugging\n"
        "Face's cache. Nothing is fetched but by `sam3 models pull`.";
    for (CLI::App* app : {command, list, path, verify, fetch}) app->footer(examples);
}

}  // namespace sam3::cli
