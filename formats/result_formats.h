#pragma once

#include "formats/segmentation.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Every format that results are written in and read from: one row a format, one file a format.
//
// Between them stands one record, Segmentation: what was found on one picture, be it a still image or a frame of a
// clip. Frames of a clip come one after another.
namespace sam3 {

struct OutputFile {
    std::string name;  // relative to the format's folder
    std::vector<uint8_t> bytes;
};

struct WriteOptions {
    bool polygons = false;  // COCO, YouTube-VIS: polygons instead of run lengths
    float tolerance = 0;    // of polygons: how many pixels an outline may deviate; 0: exact
    int jpeg_quality = 92;  // of overlays
    float soft_edge = 2;    // of mattes: pixels on both sides of the outline
    std::string folder{};   // with its slash: pictures in it are called relative to it, in COCO and YOLO
    std::string truth{};    // COCO or SA-Co ground truth whose ids the results must name; empty: ids of their own
};

struct ReadOptions {
    std::string images{};  // folder of the pictures, for formats that do not say how large they are
    std::string truth{};   // the same for formats that name pictures and labels by number only
    int64_t most_mask_bytes = int64_t{4} << 30;  // all masks of one picture together
};

// Files about all pictures together. Records come in the order of the result; nothing is there before finish().
class DatasetWriter {
public:
    virtual ~DatasetWriter() = default;
    virtual void add(const Segmentation& record) = 0;
    virtual void finish() = 0;
};

// One record after another, whatever the files are. Everything is checked: a failure is a sentence that begins with the
// file's name.
class RecordReader {
public:
    virtual ~RecordReader() = default;
    virtual bool next(Segmentation& record) = 0;  // false: there is no further one
};

struct FormatInfo {
    std::string_view name;       // as in --format
    std::string_view what;       // in a line
    std::string_view loses;      // what of a record is not in the files, in a line; "nothing"
    std::string_view extension;  // of its files, with the dot
    // Where a program that writes several formats into one folder puts it: of a format with files a picture the
    // sub-folder (may be empty), of the others the name of the file, or of the folder when it has several files.
    std::string_view place;
    bool pixels = false;  // needs the picture itself
    bool stills = true;   // takes still images
    bool frames = true;   // takes frames of clips
    bool stems = false;   // knows pictures without their endings: "a.jpg" and "a.png" cannot both be in it

    // Files for one picture; their names begin with `stem`. `pixels` is null unless the format needs them.
    std::vector<OutputFile> (*item)(const Segmentation& record, const std::string& stem, const Image* pixels,
                                    const WriteOptions& options) = nullptr;
    // Files about all pictures, at `path`: a file, or a folder, which is made.
    std::unique_ptr<DatasetWriter> (*dataset)(const std::string& path, const WriteOptions& options) = nullptr;
    // `path`: a file of this format, or a folder of them.
    std::unique_ptr<RecordReader> (*reader)(const std::string& path, const ReadOptions& options) = nullptr;

    bool per_item() const { return item != nullptr; }
    bool writes() const { return item != nullptr || dataset != nullptr; }
    bool reads() const { return reader != nullptr; }
};

const std::vector<FormatInfo>& result_formats();
// Fails with a sentence that lists the names, or has a guess.
const FormatInfo& result_format(std::string_view name);
// Told by the content of the file or folder; fails with a sentence when it is none of them.
const FormatInfo& detect_format(const std::string& path);

// The same as info.item, checked: a sentence when the format has no files a picture, or lacks pixels it needs, or does
// not take such records.
std::vector<OutputFile> item_files(const FormatInfo& info, const Segmentation& record, const std::string& stem,
                                   const Image* pixels, const WriteOptions& options = {});
std::unique_ptr<DatasetWriter> dataset_writer(const FormatInfo& info, const std::string& path,
                                              const WriteOptions& options = {});
std::unique_ptr<RecordReader> record_reader(const FormatInfo& info, const std::string& path,
                                            const ReadOptions& options = {});

}  // namespace sam3
