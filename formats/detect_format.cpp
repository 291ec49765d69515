#include "formats/json_masks.h"
#include "formats/record_files.h"
#include "formats/result_formats.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <filesystem>

// Which format a file or folder has, by its content.
namespace sam3 {

namespace {

namespace fs = std::filesystem;

std::string_view json_format(const std::string& path) {
    const std::vector<uint8_t> bytes = read_file(path);
    const Json json = parse_json(bytes, path);
    const auto has = [&](const char* key) { return json.is_object() && json.contains(key); };
    if (json.is_array()) {
        if (!json.empty() && json[0].is_object() && json[0].contains("video_id")) return "veval";
        return "coco-results";
    }
    if (has("shapes")) return "labelme";
    if (has("detections")) return "json";
    if (has("annotations") && has("images")) return "coco";
    if (has("annotations") && has("videos")) return "ytvis";
    return "";
}

std::string_view png_format(const std::string& path) {
    const std::string stem = fs::path(path).stem().string();
    if (stem.ends_with("_ids")) return "ids";
    return stem.find("_mask_") != std::string::npos ? "png" : "davis";
}

std::string_view file_format(const std::string& path) {
    const std::string ending = fs::path(path).extension().string();
    if (ending == ".jsonl") return "jsonl";
    if (ending == ".json") return json_format(path);
    if (ending == ".png") return png_format(path);
    if (ending != ".txt") return "";
    LineReader lines(path);
    std::string line;
    lines.next(line);
    return std::count(line.begin(), line.end(), ' ') == 5 && line.find('.') == std::string::npos ? "mots" : "yolo";
}

// Files of several formats may lie in one folder: the first that has a record of its own tells.
std::string_view folder_format(const std::string& path) {
    if (fs::is_regular_file(fs::path(path) / "data.yaml")) return "yolo";
    for (const char* ending : {".json", ".jsonl", ".txt", ".png"}) {
        std::vector<std::string> files;
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
            if (entry.path().extension() == ending && entry.is_regular_file()) files.push_back(entry.path().string());
        std::sort(files.begin(), files.end());
        for (const std::string& file : files) {
            const std::string_view name = file_format(file);
            const bool single = name == "coco" || name == "coco-results" || name == "ytvis" || name == "veval";
            if (!name.empty() && !single) return name;
        }
    }
    return "";
}

}  // namespace

const FormatInfo& detect_format(const std::string& path) {
    std::error_code error;
    if (!fs::exists(path, error)) fail(path, ": expected results in a file or folder, found nothing; check the path");
    const std::string_view name = fs::is_directory(path, error) ? folder_format(path) : file_format(path);
    if (name.empty()) fail(path, ": the format of these results cannot be told: name it by --from");
    return result_format(name);
}

}  // namespace sam3
