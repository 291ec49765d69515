#include "formats/result_formats.h"

#include "util/error.h"

#include <algorithm>

namespace sam3 {

const FormatInfo& result_format(std::string_view name) {
    std::string names;
    for (const FormatInfo& info : result_formats()) {
        if (info.name == name) return info;
        names += (names.empty() ? "" : ", ") + std::string(info.name);
    }
    fail("there is no format '", name, "'; known are ", names);
}

namespace {

void check_record(const FormatInfo& info, const Segmentation& record) {
    if (record.frame >= 0 && !info.frames)
        fail("the format ", info.name, " holds still images, found frame ", record.frame, " of a clip");
    if (record.frame < 0 && !info.stills)
        fail("the format ", info.name, " follows objects through clips; '", record.file,
             "' is a still image (clips come from 'sam3 track')");
    if (record.width < 1 || record.height < 1) fail(record.file, ": a record without the picture's size");
    for (const Segmentation::Instance& instance : record.instances)
        if (instance.mask.width != record.width || instance.mask.height != record.height)
            fail(record.file, ": expected masks of the picture's ", record.width, " x ", record.height,
                 " pixels, found ", instance.mask.width, " x ", instance.mask.height);
}

// Holds every writer to what its row says it takes.
class CheckedWriter : public DatasetWriter {
public:
    CheckedWriter(const FormatInfo& info, std::unique_ptr<DatasetWriter> writer)
        : info_(info), writer_(std::move(writer)) {}
    void add(const Segmentation& record) override {
        check_record(info_, record);
        writer_->add(record);
    }
    void finish() override { writer_->finish(); }

private:
    const FormatInfo& info_;
    std::unique_ptr<DatasetWriter> writer_;
};

}  // namespace

std::vector<OutputFile> item_files(const FormatInfo& info, const Segmentation& record, const std::string& stem,
                                   const Image* pixels, const WriteOptions& options) {
    if (info.item == nullptr) fail("the format ", info.name, " has no files for a single picture");
    check_record(info, record);
    if (info.pixels) {
        if (pixels == nullptr) fail("the format ", info.name, " needs the picture itself: name its folder by --images");
        if (pixels->width != record.width || pixels->height != record.height)
            fail(record.file, ": expected a picture of ", record.width, " x ", record.height,
                 " pixels, as the record says, found ", pixels->width, " x ", pixels->height);
    }
    return info.item(record, stem, info.pixels ? pixels : nullptr, options);
}

std::unique_ptr<DatasetWriter> dataset_writer(const FormatInfo& info, const std::string& path,
                                              const WriteOptions& options) {
    if (info.dataset == nullptr) fail("the format ", info.name, " has no files about several pictures");
    return std::make_unique<CheckedWriter>(info, info.dataset(path, options));
}

std::unique_ptr<RecordReader> record_reader(const FormatInfo& info, const std::string& path,
                                            const ReadOptions& options) {
    if (info.reader == nullptr)
        fail(path, ": results are not read from the format ", info.name, ", which loses ", info.loses);
    return info.reader(path, options);
}

}  // namespace sam3
