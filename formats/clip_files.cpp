#include "formats/clip_files.h"

#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"
#include "util/output_names.h"

#include <filesystem>
#include <optional>

namespace sam3 {

namespace {

class ClipWriter : public DatasetWriter {
public:
    ClipWriter(std::string path, std::string extension, std::function<std::string(const Segmentation&)> text_of)
        : path_(std::move(path)), extension_(std::move(extension)), text_of_(std::move(text_of)) {
        single_ = std::filesystem::path(path_).extension() == extension_;
        if (single_) file_.emplace(path_);
    }

    void add(const Segmentation& record) override {
        if (order_.begins(record)) begin(record.clip);
        file_->write(text_of_(record));
    }

    void finish() override {
        if (file_) file_->finish();
        file_.reset();
    }

private:
    void begin(const std::string& clip) {
        if (single_) {
            if (clips_++ > 0) fail(path_, ": holds one clip, but there are several: name a folder");
            return;
        }
        finish();
        const std::filesystem::path file =
            std::filesystem::path(path_) / (safe_output_name(clip.empty() ? "clip" : clip) + extension_);
        make_folder_of(file.string());
        file_.emplace(file.string());
    }

    std::string path_, extension_;
    std::function<std::string(const Segmentation&)> text_of_;
    bool single_ = false;
    int clips_ = 0;
    ClipOrder order_;
    std::optional<AtomicFile> file_;
};

}  // namespace

std::unique_ptr<DatasetWriter> clip_writer(const std::string& path, const std::string& extension,
                                           std::function<std::string(const Segmentation&)> text_of) {
    return std::make_unique<ClipWriter>(path, extension, std::move(text_of));
}

bool ClipOrder::begins(const Segmentation& record) {
    const auto [found, fresh] = last_frames_.emplace(record.clip, record.frame);
    if (!fresh && (record.clip != clip_ || record.frame <= found->second))
        fail("expected the frames of clip '", record.clip, "' one after another, found frame ", record.frame,
             " after frame ", found->second);
    found->second = record.frame;
    clip_ = record.clip;
    return fresh;
}

}  // namespace sam3
