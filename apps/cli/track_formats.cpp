#include "track_formats.h"

#include "formats/record_files.h"
#include "formats/result_formats.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"
#include "values.h"

#include <filesystem>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

// Drawn or written while the frames are there.
bool is_direct(const std::string& name) { return name == "json" || name == "png" || name == "overlay"; }

void write_items(const FormatInfo& info, const std::string& lines, const std::string& folder) {
    const std::unique_ptr<RecordReader> reader = record_reader(result_format("tracks"), lines);
    Segmentation record;
    while (reader->next(record)) {
        for (const OutputFile& file : item_files(info, record, record_stem(record), nullptr)) {
            const fs::path path = fs::path(folder) / file.name;
            make_folder_of(path.string());
            write_file_atomically(path.string(), file.bytes);
        }
    }
}

void write_dataset(const FormatInfo& info, const std::string& lines, const std::string& path,
                   const std::string& truth) {
    const std::unique_ptr<RecordReader> reader = record_reader(result_format("tracks"), lines);
    const std::unique_ptr<DatasetWriter> writer = dataset_writer(info, path, {.truth = truth});
    Segmentation record;
    while (reader->next(record)) writer->add(record);
    writer->finish();
}

}  // namespace

std::set<std::string> checked_track_formats(const std::vector<std::string>& names, const std::string& truth) {
    std::set<std::string> formats(names.begin(), names.end());
    for (const std::string& name : formats) {
        if (is_direct(name)) continue;
        try {
            const FormatInfo& info = result_format(name);
            if (!info.writes() || !info.frames) fail("the format ", name, " does not hold clips");
            if (name == "veval" && truth.empty()) fail("veval names clips and phrases by number: give --truth FILE");
            if (info.pixels) fail("the format ", name, " is drawn on still images; use overlay for a video");
        } catch (const Error& error) {
            throw UsageError(std::string("--format: ") + error.what());
        }
    }
    return formats;
}

std::vector<std::string> write_track_formats(const std::string& stem, const std::set<std::string>& names,
                                             const std::string& truth) {
    std::vector<std::string> paths;
    for (const std::string& name : names) {
        if (is_direct(name) || name == "tracks") continue;  // the lines are tracks
        const FormatInfo& info = result_format(name);
        const std::string place(info.place.empty() ? info.name : info.place);
        paths.push_back(stem + "_" + place);
        if (info.per_item())
            write_items(info, stem + ".jsonl", paths.back());
        else
            write_dataset(info, stem + ".jsonl", paths.back(), truth);
    }
    return paths;
}

}  // namespace sam3::cli
