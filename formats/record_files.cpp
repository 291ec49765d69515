#include "formats/record_files.h"

#include "mask/geometry.h"
#include "media/image_io.h"
#include "util/error.h"
#include "util/output_names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sam3 {

namespace {

namespace fs = std::filesystem;

class FileByFile : public RecordReader {
public:
    FileByFile(std::vector<std::string> files, ReadRecord read) : files_(std::move(files)), read_(std::move(read)) {}
    bool next(Segmentation& record) override {
        while (at_ < files_.size())
            if (std::optional<Segmentation> read = read_(files_[at_++])) {
                record = std::move(*read);
                return true;
            }
        return false;
    }

private:
    std::vector<std::string> files_;
    ReadRecord read_;
    size_t at_ = 0;
};

}  // namespace

std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::vector<std::string> files_at(const std::string& path, std::string_view extension) {
    std::error_code error;
    if (!fs::exists(path, error)) fail(path, ": expected a file or a folder, found nothing there; check the path");
    if (!fs::is_directory(path, error)) return {path};
    std::vector<std::string> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
        if (entry.path().extension() == extension && entry.is_regular_file()) files.push_back(entry.path().string());
    if (files.empty()) fail(path, ": expected files that end in ", extension, " in this folder, found none");
    std::sort(files.begin(), files.end());
    return files;
}

std::string name_below(const std::string& path, const std::string& file) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return fs::path(file).filename().string();
    return fs::path(file).lexically_relative(path).generic_string();
}

bool is_other_json(const std::string& path, std::span<const uint8_t> bytes, std::string_view key) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return false;
    const std::string quoted = "\"" + std::string(key) + "\"";
    return std::search(bytes.begin(), bytes.end(), quoted.begin(), quoted.end()) == bytes.end();
}

LineReader::LineReader(const std::string& path)
    : path_(path), file_(std::make_unique<std::ifstream>(path, std::ios::binary)) {
    if (!*file_) fail(path, ": the file cannot be opened; check the path and its permissions");
}

LineReader::LineReader(std::string name, const std::string& text)
    : path_(std::move(name)), file_(std::make_unique<std::istringstream>(text)) {}

bool LineReader::next(std::string& line) {
    line.clear();
    std::streambuf* buffer = file_->rdbuf();
    constexpr int kEnd = std::char_traits<char>::eof();
    int c = buffer->sbumpc();
    if (c == kEnd) return false;
    ++number_;
    for (; c != kEnd && c != '\n'; c = buffer->sbumpc()) {
        if (line.size() >= kMaxFileBytes) fail(where(), ": expected a line of at most ", kMaxFileBytes >> 20, " MiB");
        line.push_back(static_cast<char>(c));
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
}

std::string LineReader::where() const { return str(path_, ": line ", number_); }

std::string record_stem(const Segmentation& record, const std::string& folder) {
    return record.frame >= 0 ? frame_stem(record.clip, record.frame) : output_stem(name_in_folder(record.file, folder));
}

std::unique_ptr<RecordReader> file_by_file(std::vector<std::string> files, ReadRecord read) {
    return std::make_unique<FileByFile>(std::move(files), std::move(read));
}

void LabelNumbers::add(const Segmentation& record) {
    for (const Segmentation::Prompt& prompt : record.prompts) add(prompt.label);
    for (const Segmentation::Instance& instance : record.instances) add(instance.label);
}

int LabelNumbers::add(const std::string& label) {
    const auto [found, fresh] = places_.emplace(label, static_cast<int>(labels_.size()));
    if (fresh) labels_.push_back(label);
    return found->second;
}

void add_missing_prompts(Segmentation& record) {
    LabelNumbers labels;
    for (Segmentation::Instance& instance : record.instances) instance.prompt = labels.add(instance.label);
    for (const std::string& label : labels.labels()) record.prompts.push_back({label, 1, {}});
}

void set_box_from_mask(Segmentation::Instance& instance) {
    const Box box = box_around(instance.mask);
    instance.x0 = box.x0;
    instance.y0 = box.y0;
    instance.x1 = box.x1;
    instance.y1 = box.y1;
}

}  // namespace sam3
