#include "formats/format_rows.h"
#include "formats/json_masks.h"
#include "formats/record_files.h"
#include "formats/tracks.h"
#include "media/image_io.h"
#include "util/atomic_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>

// The program's own records: a file each, or a line each.
namespace sam3 {

namespace {

class JsonLinesWriter : public DatasetWriter {
public:
    explicit JsonLinesWriter(const std::string& path) : file_(path) {}
    void add(const Segmentation& record) override { file_.write(to_json_line(record)); }
    void finish() override { file_.finish(); }

private:
    AtomicFile file_;
};

// The journal of `sam3 segment` has the same records, with a line about the run and lines of inputs that failed.
bool is_journal(const std::string& path) {
    return std::filesystem::path(path).filename().string().starts_with("journal");
}

bool is_about_the_run(const std::string& line, const std::string& where) {
    if (line.starts_with("{\"journal\"")) return true;
    return line.starts_with("{\"input\"") && parse_json(bytes_of(line), where).contains("error");
}

// Of a folder with results and their journal, the results.
std::vector<std::string> line_files(const std::string& path) {
    std::vector<std::string> files = files_at(path, ".jsonl");
    if (!std::all_of(files.begin(), files.end(), is_journal)) std::erase_if(files, is_journal);
    return files;
}

class JsonLinesReader : public RecordReader {
public:
    JsonLinesReader(const std::string& path, int64_t most_mask_bytes)
        : path_(path), files_(line_files(path)), most_mask_bytes_(most_mask_bytes) {}

    bool next(Segmentation& record) override {
        std::string line;
        for (;;) {
            if (!lines_) {
                if (at_ == files_.size()) return false;
                lines_.emplace(files_[at_++]);
            }
            if (!lines_->next(line)) {
                lines_.reset();
            } else if (!line.empty() && !is_about_the_run(line, lines_->where())) {
                record = record_of(line);
                return true;
            }
        }
    }

private:
    // A line of `sam3 segment`, or one of `sam3 track`, whose clip is called as its file.
    Segmentation record_of(const std::string& line) const {
        const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(line.data()), line.size());
        if (!line.starts_with("{\"frame\"")) return from_json(bytes, lines_->where(), most_mask_bytes_);
        const std::string name = name_below(path_, files_[at_ - 1]);
        return to_record(from_json_line(line, lines_->where(), most_mask_bytes_), name.substr(0, name.rfind('.')));
    }

    std::string path_;
    std::vector<std::string> files_;
    int64_t most_mask_bytes_;
    size_t at_ = 0;
    std::optional<LineReader> lines_;
};

}  // namespace

ItemFiles json_item(const Segmentation& record, const std::string& stem, const Image*, const WriteOptions&) {
    return {{stem + ".json", bytes_of(to_json(record))}};
}

std::unique_ptr<RecordReader> json_reader(const std::string& path, const ReadOptions& options) {
    return file_by_file(files_at(path, ".json"), [=](const std::string& file) -> std::optional<Segmentation> {
        const std::vector<uint8_t> bytes = read_file(file);
        if (is_other_json(path, bytes, "detections")) return std::nullopt;
        return from_json(bytes, file, options.most_mask_bytes);
    });
}

std::unique_ptr<DatasetWriter> jsonl_writer(const std::string& path, const WriteOptions&) {
    return std::make_unique<JsonLinesWriter>(path);
}

std::unique_ptr<RecordReader> jsonl_reader(const std::string& path, const ReadOptions& options) {
    return std::make_unique<JsonLinesReader>(path, options.most_mask_bytes);
}

}  // namespace sam3
