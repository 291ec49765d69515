#pragma once

#include "formats/result_formats.h"

#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Pieces that the readers and writers of result formats share.
namespace sam3 {

std::vector<uint8_t> bytes_of(std::string_view text);

// `path` itself, or all files below it that end in `extension`, sorted; a sentence when there is none.
std::vector<std::string> files_at(const std::string& path, std::string_view extension);
// "a/b.json" below the folder "a" is "b.json"; of a file its last part.
std::string name_below(const std::string& path, const std::string& file);

// Whether `path` is a folder and `bytes` are JSON of another kind, without `key`: results of several formats may lie in
// one folder.
bool is_other_json(const std::string& path, std::span<const uint8_t> bytes, std::string_view key);

// Lines of a text file; one longer than 1 GiB is refused.
class LineReader {
public:
    explicit LineReader(const std::string& path);
    LineReader(std::string name, const std::string& text);  // of a text in memory
    bool next(std::string& line);                           // without its end
    std::string where() const;                              // "file: line 3"

private:
    std::string path_;
    std::unique_ptr<std::istream> file_;
    int64_t number_ = 0;
};

// What the files of a record are called by, without an ending: "street/00012" of a frame, else the picture's own name,
// relative to `folder` where it lies there.
std::string record_stem(const Segmentation& record, const std::string& folder = "");

// A reader of formats whose every file is one record; nothing: a file of another kind, which is passed over.
using ReadRecord = std::function<std::optional<Segmentation>(const std::string& file)>;
std::unique_ptr<RecordReader> file_by_file(std::vector<std::string> files, ReadRecord read);

// The place of each label in the order of their first appearance, prompts before instances.
class LabelNumbers {
public:
    void add(const Segmentation& record);
    int add(const std::string& label);
    const std::vector<std::string>& labels() const { return labels_; }

private:
    std::map<std::string, int> places_;
    std::vector<std::string> labels_;
};

// Prompts for a record that comes from a format without: one for each label, present where there is an instance.
void add_missing_prompts(Segmentation& record);
// The box of a mask, for formats that have none.
void set_box_from_mask(Segmentation::Instance& instance);

}  // namespace sam3
