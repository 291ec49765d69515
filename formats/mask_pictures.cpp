#include "formats/format_rows.h"
#include "formats/record_files.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <charconv>
#include <tuple>

// Reads black and white masks back: STEM_mask_N.png, all with one STEM are one picture.
namespace sam3 {

namespace {

constexpr std::string_view kMaskMark = "_mask_";

struct MaskFile {
    std::string stem;
    int number = 0;
    std::string path;

    bool operator<(const MaskFile& other) const {
        return std::tie(stem, number, path) < std::tie(other.stem, other.number, other.path);
    }
};

std::optional<MaskFile> mask_file(const std::string& root, const std::string& path) {
    const std::string name = name_below(root, path);
    const size_t mark = name.rfind(kMaskMark);
    if (mark == std::string::npos || !name.ends_with(".png")) return std::nullopt;
    MaskFile file{name.substr(0, mark), 0, path};
    const char* const end = name.data() + name.size() - 4;
    const auto [stop, error] = std::from_chars(name.data() + mark + kMaskMark.size(), end, file.number);
    if (error != std::errc() || stop != end || file.number < 0) return std::nullopt;
    return file;
}

class MaskPicturesReader : public RecordReader {
public:
    MaskPicturesReader(const std::string& path, int64_t most_mask_bytes) : left_(most_mask_bytes) {
        for (const std::string& file : files_at(path, ".png"))
            if (const auto found = mask_file(path, file)) files_.push_back(*found);
        if (files_.empty()) fail(path, ": expected masks called NAME_mask_0.png, NAME_mask_1.png, ..., found none");
        std::sort(files_.begin(), files_.end());
    }

    bool next(Segmentation& record) override {
        if (at_ == files_.size()) return false;
        record = Segmentation();
        record.file = files_[at_].stem;
        int64_t left = left_;
        for (; at_ < files_.size() && files_[at_].stem == record.file; ++at_) add(record, files_[at_], left);
        add_missing_prompts(record);
        return true;
    }

private:
    static void add(Segmentation& record, const MaskFile& file, int64_t& left) {
        const Image image = read_image(file.path);
        if (record.instances.empty()) {
            record.width = image.width;
            record.height = image.height;
        }
        if (image.width != record.width || image.height != record.height)
            fail(file.path, ": expected ", record.width, " x ", record.height,
                 " pixels, as the masks before it, found ", image.width, " x ", image.height);
        left -= int64_t{image.width} * image.height;
        if (left < 0) fail(file.path, ": the masks of one picture take more memory than is accepted");
        Segmentation::Instance instance;
        instance.label = "object";
        instance.id = file.number;
        instance.score = 1;
        instance.mask = Mask(image.width, image.height);
        for (size_t i = 0; i < instance.mask.data.size(); ++i) instance.mask.data[i] = image.pixels[i * 3] >= 128;
        set_box_from_mask(instance);
        record.instances.push_back(std::move(instance));
    }

    std::vector<MaskFile> files_;
    int64_t left_;
    size_t at_ = 0;
};

}  // namespace

std::unique_ptr<RecordReader> png_reader(const std::string& path, const ReadOptions& options) {
    return std::make_unique<MaskPicturesReader>(path, options.most_mask_bytes);
}

}  // namespace sam3
