#include "model_store.h"

#include "media/image_names.h"
#include "util/error.h"
#include "values.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kEndings[] = {".gguf", ".safetensors", ".pt", ".pth", ".ggml"};

fs::path in_home(const char* xdg_variable, const char* below_home) {
    if (const std::string xdg = environment(xdg_variable); !xdg.empty()) return xdg;
    const std::string home = environment("HOME");
    return home.empty() ? fs::path() : fs::path(home) / below_home;
}

std::vector<fs::path> search_folders() {
    std::vector<fs::path> folders;
    std::string list = environment("SAM3_MODELS");
    for (size_t colon = 0; !list.empty(); list = colon == std::string::npos ? "" : list.substr(colon + 1)) {
        colon = list.find(':');
        if (colon != 0) folders.emplace_back(list.substr(0, colon));
    }
    if (const fs::path data = in_home("XDG_DATA_HOME", ".local/share"); !data.empty())
        folders.push_back(data / "sam3" / "models");
    folders.emplace_back("models");
    return folders;
}

fs::path hub_cache() {
    if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
    if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
    const fs::path cache = in_home("XDG_CACHE_HOME", ".cache");
    return cache.empty() ? fs::path() : cache / "huggingface" / "hub";
}

std::vector<fs::path> entries_of(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (entry->path().filename().string().front() != '.') entries.push_back(entry->path());
    std::sort(entries.begin(), entries.end(),
              [](const fs::path& a, const fs::path& b) { return natural_less(a.string(), b.string()); });
    return entries;
}

bool is_weight_file(const fs::path& path) {
    std::error_code error;
    return std::find(std::begin(kEndings), std::end(kEndings), path.extension().string()) != std::end(kEndings) &&
           fs::is_regular_file(path, error);
}

bool is_model_folder(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path / "config.json", error);
}

uint64_t size_of(const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return fs::file_size(path, error);
    uint64_t bytes = 0;
    for (const fs::path& file : entries_of(path))
        if (fs::is_regular_file(file, error)) bytes += fs::file_size(file, error);
    return bytes;
}

class Collector {
public:
    // Files and folders below `folder`, at most two levels down: "sam3.gguf", "facebook/sam3".
    void add_folder(const fs::path& folder, const std::string& prefix = "", int depth = 0) {
        if (depth == 0) place_ = folder.string();
        std::error_code error;
        for (const fs::path& path : entries_of(folder)) {
            const std::string name = prefix + path.filename().string();
            if (is_weight_file(path))
                add(prefix + path.stem().string(), path);
            else if (is_model_folder(path))
                add(name, path);
            else if (depth < 1 && fs::is_directory(path, error))
                add_folder(path, name + "/", depth + 1);
        }
    }

    // models--ORGANISATION--NAME/snapshots/REVISION/...
    void add_cache(const fs::path& cache) {
        place_ = cache.string();
        for (const fs::path& path : entries_of(cache)) {
            std::string name = path.filename().string();
            if (!name.starts_with("models--")) continue;
            name = name.substr(8);
            if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
            const fs::path snapshot = snapshot_of(path);
            if (snapshot.empty()) continue;
            if (is_model_folder(snapshot)) add(name, snapshot);
            for (const fs::path& file : entries_of(snapshot))
                if (is_weight_file(file) && !(is_model_folder(snapshot) && file.extension() == ".safetensors"))
                    add(name + "/" + file.filename().string(), file);
        }
    }

    std::vector<StoredModel> take() { return std::move(models_); }

private:
    void add(const std::string& name, const fs::path& path) {
        models_.push_back({name, path.string(), place_, size_of(path)});
    }

    // The revision that "main" means; else the last one.
    static fs::path snapshot_of(const fs::path& repository) {
        std::ifstream file(repository / "refs" / "main");
        std::string revision;
        std::error_code error;
        if (file >> revision && fs::is_directory(repository / "snapshots" / revision, error))
            return repository / "snapshots" / revision;
        const std::vector<fs::path> snapshots = entries_of(repository / "snapshots");
        return snapshots.empty() ? fs::path() : snapshots.back();
    }

    std::string place_;
    std::vector<StoredModel> models_;
};

// Whether a model called `name` is meant: by its whole name, or without its organisation or ending.
bool means(const std::string& given, const StoredModel& model) {
    if (given == model.name || given == fs::path(model.path).filename()) return true;
    const size_t slash = model.name.find('/');
    return slash != std::string::npos && given == model.name.substr(slash + 1);
}

}  // namespace

std::vector<StoredModel> stored_models() {
    Collector collector;
    for (const fs::path& folder : search_folders()) collector.add_folder(folder);
    if (const fs::path cache = hub_cache(); !cache.empty()) collector.add_cache(cache);
    return collector.take();
}

std::string resolve_model(const std::string& given) {
    std::error_code error;
    if (fs::exists(given, error)) return given;
    // Something with a slash or an ending is most likely a mistyped path, but may be a name too.
    for (const StoredModel& model : stored_models())
        if (means(given, model)) return model.path;
    std::string places;
    for (const fs::path& folder : search_folders()) places += folder.string() + ", ";
    fail(given, ": expected the path or the name of a model, found neither a file nor a model of this name in ", places,
         "or Hugging Face's cache (", hub_cache().string(), "); `sam3 models list` shows what is there");
}

std::string models_folder() { return search_folders().front().string(); }

}  // namespace sam3::cli
