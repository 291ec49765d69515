#include "outputs.h"

#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"
#include "util/output_names.h"
#include "values.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

const FormatInfo& known_format(const std::string& name) {
    try {
        return result_format(name);
    } catch (const Error& error) {
        throw UsageError(str("--format: ", error.what()));
    }
}

// Whether a name from a journal, which may have been tampered with, stays in the folder.
bool is_inside_name(const std::string& name) {
    const fs::path relative = fs::path(name).lexically_normal();
    return !relative.is_absolute() && !relative.empty() && *relative.begin() != "..";
}

}  // namespace

Outputs::Outputs(std::string folder, const std::vector<std::string>& formats, const WriteOptions& options)
    : folder_(std::move(folder)), options_(options) {
    std::set<std::string> seen;
    for (const std::string& name : formats) {
        const FormatInfo& info = known_format(name);
        if (!info.writes()) throw UsageError(str("--format: ", name, " can be read but not written"));
        if (!info.stills) throw UsageError(str("--format: ", name, " is for videos: `sam3 track` writes it"));
        if (!seen.insert(name).second) continue;
        formats_.push_back(name);
        (info.per_item() ? items_ : datasets_).push_back(&info);
    }
}

Outputs Outputs::as_before(std::string folder, const nlohmann::ordered_json& settings,
                           const std::vector<std::string>& more_formats) {
    WriteOptions options;
    options.polygons = settings.at("polygons").get<bool>();
    options.tolerance = settings.at("tolerance").get<float>();
    options.jpeg_quality = settings.at("jpeg_quality").get<int>();
    options.soft_edge = settings.at("soft_edge").get<float>();
    options.folder = settings.at("folder").get<std::string>();
    options.truth = settings.at("truth").get<std::string>();
    auto formats = settings.at("formats").get<std::vector<std::string>>();
    formats.insert(formats.end(), more_formats.begin(), more_formats.end());
    return {std::move(folder), formats, options};
}

void Outputs::protect(std::span<const Input> inputs) {
    for (const Input& input : inputs)
        if (!input.path.empty()) inputs_.insert(fs::weakly_canonical(input.path).string());
}

std::string Outputs::names() const {
    std::string text;
    for (const auto* list : {&items_, &datasets_})
        for (const FormatInfo* info : *list) text += (text.empty() ? "" : ", ") + std::string(info->name);
    return text;
}

nlohmann::ordered_json Outputs::settings() const {
    return {{"formats", formats_},
            {"polygons", options_.polygons},
            {"tolerance", options_.tolerance},
            {"jpeg_quality", options_.jpeg_quality},
            {"soft_edge", options_.soft_edge},
            {"folder", options_.folder},
            {"truth", options_.truth}};
}

std::string Outputs::path_of(const std::string& name) const { return (fs::path(folder_) / name).string(); }

void Outputs::check_replaceable(const std::string& path) const {
    if (inputs_.count(fs::weakly_canonical(path).string()) != 0)
        fail(path, ": this result would replace an input; give another folder with --output");
    if (existing_ == Existing::refuse && fs::exists(fs::symlink_status(path)))
        fail(path, ": the file is there already; --overwrite replaces it, --output DIR writes elsewhere");
}

void Outputs::check_free(std::span<const Input> inputs) const {
    for (const FormatInfo* info : datasets_) check_replaceable(path_of(std::string(info->place)));
    // Names that depend on what will be found are checked when they are written.
    Segmentation nothing;
    nothing.width = nothing.height = 1;
    const Image pixel(1, 1, 3);
    for (const Input& input : inputs) {
        nothing.file = input.name;
        for (const OutputFile& file : encode(nothing, input.stem, pixel)) check_replaceable(path_of(file.name));
    }
}

void Outputs::check_names(std::span<const std::string> names) const {
    const auto stems = std::find_if(datasets_.begin(), datasets_.end(), [](const auto* info) { return info->stems; });
    if (stems == datasets_.end()) return;
    std::map<std::string, std::string> seen;
    for (const std::string& name : names) {
        const auto [other, fresh] = seen.emplace(output_stem(name_in_folder(name, options_.folder)), name);
        if (!fresh)
            fail(name, ": differs from ", other->second, " in its ending only, and the format ", (*stems)->name,
                 " knows pictures without: rename one, or leave the format out");
    }
}

std::vector<OutputFile> Outputs::encode(const Segmentation& record, const std::string& stem, const Image& image) const {
    std::vector<OutputFile> files;
    for (const FormatInfo* info : items_) {
        for (OutputFile& file : item_files(*info, record, stem, info->pixels ? &image : nullptr, options_)) {
            file.name = (fs::path(info->place) / file.name).string();
            files.push_back(std::move(file));
        }
    }
    return files;
}

std::vector<std::string> Outputs::write(const std::vector<OutputFile>& files) const {
    std::vector<std::string> names;
    for (const OutputFile& file : files) {
        const std::string path = path_of(file.name);
        check_replaceable(path);
        make_folder_of(path);
        write_file_atomically(path, file.bytes);
        names.push_back(file.name);
    }
    return names;
}

void Outputs::copy(const JournalEntry& entry, const std::string& from) const {
    for (const std::string& name : entry.files) {
        if (!is_inside_name(name)) fail(entry.journal, ": names a file outside its folder: ", name);
        const std::string path = path_of(name);
        check_replaceable(path);
        make_folder_of(path);
        write_file_atomically(path, read_file((fs::path(from) / name).string()));
    }
}

std::vector<std::string> Outputs::write_datasets(std::span<const JournalEntry* const> entries) const {
    std::vector<std::string> paths;
    std::vector<std::unique_ptr<DatasetWriter>> writers;
    for (const FormatInfo* info : datasets_) {
        paths.push_back(path_of(std::string(info->place)));
        check_replaceable(paths.back());
        writers.push_back(dataset_writer(*info, paths.back(), options_));
    }
    if (writers.empty()) return paths;
    for (const JournalEntry* entry : entries) {
        const std::string line = read_line(*entry);
        const Segmentation record =
            from_json({reinterpret_cast<const uint8_t*>(line.data()), line.size()}, entry->journal);
        for (const auto& writer : writers) writer->add(record);
    }
    for (const auto& writer : writers) writer->finish();
    return paths;
}

void Outputs::remove_leftovers() const {
    std::vector<fs::path> leftovers;
    std::error_code ignored;
    for (fs::recursive_directory_iterator entry(folder_, ignored), end; !ignored && entry != end;
         entry.increment(ignored))
        if (!name_behind_leftover(entry->path().filename().string()).empty()) leftovers.push_back(entry->path());
    for (const fs::path& path : leftovers) fs::remove(path, ignored);
}

void Outputs::remove_earlier(const JournalContents& earlier) const {
    std::error_code ignored;
    const auto remove = [&](const std::string& name) {
        const std::string path = path_of(name);
        if (is_inside_name(name) && inputs_.count(fs::weakly_canonical(path).string()) == 0 &&
            !fs::is_directory(path, ignored))  // a folder may hold files of the user's by now
            fs::remove(path, ignored);
    };
    for (const auto& [input, entry] : earlier.entries)
        for (const std::string& name : entry.files) remove(name);
    const nlohmann::ordered_json& settings = earlier.header.settings;
    if (!settings.contains("output")) return;
    for (const std::string& name : settings["output"].value("formats", std::vector<std::string>()))
        for (const FormatInfo& info : result_formats())
            if (info.name == name && !info.per_item()) remove(std::string(info.place));
}

}  // namespace sam3::cli
