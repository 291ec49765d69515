#include "formats/clip_files.h"
#include "formats/format_rows.h"
#include "formats/json_masks.h"
#include "formats/label_maps.h"
#include "formats/record_files.h"
#include "util/error.h"

#include <charconv>

// MOTS' text: a line an object and frame, "frame id class height width counts". An id is 1000 times the class plus the
// number of the object; objects do not overlap.
namespace sam3 {

namespace {

constexpr int kMotsObjects = 1000;  // of a class

std::string mots_lines(const Segmentation& record, LabelNumbers& labels) {
    labels.add(record);
    const std::vector<Mask> masks = separate_masks(record);
    std::string text;
    for (size_t i = 0; i < masks.size(); ++i) {
        if (mask_area(masks[i]) == 0) continue;
        const int id = instance_id(record, i), number = labels.add(record.instances[i].label) + 1;
        if (id >= kMotsObjects)
            fail("MOTS numbers the objects of a class from 0 to ", kMotsObjects - 1, ", found ", id);
        text += str(record.frame, " ", number * kMotsObjects + id, " ", number, " ", record.height, " ", record.width,
                    " ", rle_to_string(rle_encode(masks[i])), "\n");
    }
    return text;
}

struct MotsLine {
    int64_t frame = 0;
    int id = 0, category = 0, height = 0, width = 0;
    std::string counts;
};

MotsLine parse_mots(const std::string& line) {
    MotsLine out;
    const char* at = line.data();
    const char* const end = at + line.size();
    const auto number = [&](auto& value) {
        const auto [next, error] = std::from_chars(at, end, value);
        if (error != std::errc() || next == end || *next != ' ' || value < 0)
            fail("expected 'frame id class height width counts', numbers from 0 on, found '", line.substr(0, 80), "'");
        at = next + 1;
    };
    number(out.frame);
    number(out.id);
    number(out.category);
    number(out.height);
    number(out.width);
    out.counts.assign(at, end);
    check_picture_size(out.width, out.height);
    return out;
}

// Frame by frame; the line that ended a frame waits for the next.
class MotsReader : public RecordReader {
public:
    MotsReader(const std::string& path, const ReadOptions& options)
        : path_(path), files_(files_at(path, ".txt")), options_(options) {}

    bool next(Segmentation& record) override {
        while (!waiting_ && !read_line())
            if (!open_next()) return false;
        record = Segmentation();
        record.clip = clip_;
        record.frame = waiting_->frame;
        record.width = waiting_->width;
        record.height = waiting_->height;
        MaskBudget budget(options_.most_mask_bytes);
        do name_json_errors(lines_->where(), "", [&] { add(record, budget); });
        while (read_line() && waiting_->frame == record.frame);
        if (waiting_ && waiting_->frame < record.frame)
            fail(lines_->where(), ": expected frames in ascending order, found ", waiting_->frame, " after ",
                 record.frame, "; 'sort -n -s' brings them into order");
        add_missing_prompts(record);
        return true;
    }

private:
    bool open_next() {
        if (at_ == files_.size()) return false;
        const std::string name = name_below(path_, files_[at_]);
        clip_ = name.substr(0, name.rfind('.'));
        lines_.emplace(files_[at_++]);
        return true;
    }

    bool read_line() {
        waiting_.reset();
        std::string line;
        while (lines_ && lines_->next(line)) {
            if (line.empty()) continue;
            name_json_errors(lines_->where(), "", [&] { waiting_ = parse_mots(line); });
            return true;
        }
        return false;
    }

    void add(Segmentation& record, MaskBudget& budget) {
        const MotsLine& line = *waiting_;
        if (line.width != record.width || line.height != record.height)
            fail("expected ", record.width, " x ", record.height, " pixels, as the lines before, found ", line.width,
                 " x ", line.height);
        budget.take(line.width, line.height);
        Segmentation::Instance instance;
        instance.label = str("class ", line.category);
        instance.id = line.id / kMotsObjects == line.category ? line.id % kMotsObjects : line.id;
        instance.score = 1;
        instance.mask = rle_decode(rle_from_string(line.counts, line.width, line.height));
        set_box_from_mask(instance);
        record.instances.push_back(std::move(instance));
    }

    std::string path_;
    std::vector<std::string> files_;
    ReadOptions options_;
    size_t at_ = 0;
    std::string clip_;
    std::optional<LineReader> lines_;
    std::optional<MotsLine> waiting_;
};

}  // namespace

std::unique_ptr<DatasetWriter> mots_writer(const std::string& path, const WriteOptions&) {
    return clip_writer(path, ".txt", [labels = LabelNumbers()](const Segmentation& record) mutable {
        return mots_lines(record, labels);
    });
}

std::unique_ptr<RecordReader> mots_reader(const std::string& path, const ReadOptions& options) {
    return std::make_unique<MotsReader>(path, options);
}

}  // namespace sam3
