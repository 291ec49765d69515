#include "command.h"
#include "format_names.h"
#include "formats/record_files.h"
#include "formats/result_formats.h"
#include "media/image_io.h"
#include "status.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"
#include "util/output_names.h"
#include "values.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

namespace sam3::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
    std::string input, output, from, to;
    ReadOptions read;
    WriteOptions write;
    bool list = false, overwrite = false, quiet = false;
};

// Where the records go: a file, a folder, or something that a dataset writer makes.
class Target {
public:
    virtual ~Target() = default;
    virtual void add(const Segmentation& record) = 0;
    virtual void finish() = 0;
};

class DatasetTarget : public Target {
public:
    DatasetTarget(const FormatInfo& format, const Options& options)
        : writer_(dataset_writer(format, options.output, options.write)) {}
    void add(const Segmentation& record) override { writer_->add(record); }
    void finish() override { writer_->finish(); }

private:
    std::unique_ptr<DatasetWriter> writer_;
};

// Files for each picture, below a folder; or, of one picture, the only file.
class ItemTarget : public Target {
public:
    ItemTarget(const FormatInfo& format, const Options& options) : format_(format), options_(options) {
        single_ = fs::path(options.output).extension() == format.extension;
        if (!single_) make_folder(options.output);
    }

    void add(const Segmentation& record) override {
        const Image pixels = format_.pixels ? read_image(picture_of(record)) : Image();
        const std::vector<OutputFile> files =
            item_files(format_, record, stem_of(record), format_.pixels ? &pixels : nullptr, options_.write);
        if (single_) {
            if (pictures_ > 0 || files.size() != 1)
                fail(options_.output, ": is one file, but there are several to write: name a folder");
            write_file_atomically(options_.output, files[0].bytes);
        } else {
            for (const OutputFile& file : files) {
                const fs::path path = fs::path(options_.output) / file.name;
                make_folder_of(path.string());
                write_file_atomically(path.string(), file.bytes);
            }
        }
        ++pictures_;
    }
    void finish() override {
        if (single_ && pictures_ == 0) fail(options_.input, ": has no picture to write");
    }

private:
    std::string stem_of(const Segmentation& record) {
        std::string stem = record_stem(record, options_.write.folder);
        if (stems_.insert(stem).second) return stem;
        stem = safe_output_name(
            name_in_folder(record.file, options_.write.folder));  // "a.jpg" and "a.png": the second keeps its ending
        if (!stems_.insert(stem).second) fail("two pictures are called '", record.file, "'");
        return stem;
    }

    std::string picture_of(const Segmentation& record) const {
        const std::string& folder = options_.read.images;
        if (record.file.empty())
            fail("frame ", record.frame, " of '", record.clip, "' has no picture of its own, which ", format_.name,
                 " needs; 'sam3 track -f overlay' draws on videos");
        if (!folder.empty()) return (fs::path(folder) / record.file).string();
        std::error_code error;
        if (!fs::is_regular_file(record.file, error))
            fail("the format ", format_.name, " needs the picture '", record.file,
                 "', which is not there: name the folder of the pictures by --images");
        return record.file;
    }

    const FormatInfo& format_;
    const Options& options_;
    bool single_ = false;
    size_t pictures_ = 0;
    std::set<std::string> stems_;
};

const FormatInfo& known(const std::string& option, const std::string& name) {
    try {
        return result_format(name);
    } catch (const Error& error) {
        throw UsageError(option + ": " + error.what());
    }
}

// By the ending of OUT, where only one format has it.
const FormatInfo& target_format(const Options& options) {
    if (!options.to.empty()) return known("--to", options.to);
    const std::string ending = fs::path(options.output).extension().string();
    if (ending == ".jsonl") return result_format("jsonl");
    if (ending == ".csv") return result_format("csv");
    throw UsageError(
        "what to write cannot be told by the name of OUT: name it by --to; 'sam3 convert-format --list' "
        "lists the formats");
}

void check_output(const Options& options) {
    std::error_code error;
    if (!fs::exists(options.output, error)) return;
    if (fs::equivalent(options.input, options.output, error))
        fail(options.output, ": IN and OUT are the same; results are never written over what is read");
    if (options.overwrite) return;
    if (!fs::is_directory(options.output, error) || !fs::is_empty(options.output, error))
        fail(options.output, ": exists already; give --overwrite to replace what is there");
}

// Names like /home/me/photos/a.jpg mean nothing in a data set: what all of them share is left out. They must be read
// once more for it.
std::string folder_to_leave_out(const FormatInfo& from, const Options& options) {
    const std::unique_ptr<RecordReader> reader = record_reader(from, options.input, options.read);
    std::vector<std::string> names;
    Segmentation record;
    while (reader->next(record)) {
        const bool outside = record.file.starts_with('/') || record.file.starts_with("..");
        if (!outside || record.frame >= 0) return "";
        names.push_back(record.file);
    }
    return shared_folder(names);
}

std::string counted(size_t count, const char* what) {
    return pretty_count(count) + " " + what + (count == 1 ? "" : "s");
}

void print_list() {
    size_t width = 0;
    for (const FormatInfo& info : result_formats()) width = std::max(width, info.name.size());
    for (const FormatInfo& info : result_formats()) {
        const std::string ways = info.reads() && info.writes() ? "read, written" : info.reads() ? "read" : "written";
        std::cout << info.name << std::string(width - info.name.size() + 2, ' ') << info.what << " (" << ways << ")\n"
                  << std::string(width + 2, ' ') << "loses: " << info.loses << "\n";
    }
}

void convert(Options& options) {
    if (options.list) return print_list();
    if (options.input.empty() || options.output.empty()) throw UsageError("expected IN and OUT, or --list");
    const FormatInfo& to = target_format(options);
    const FormatInfo& from = options.from.empty() ? detect_format(options.input) : known("--from", options.from);
    check_output(options);
    make_folder_of(options.output);
    Status status(options.quiet);
    status.show("reading " + options.input);
    options.write.folder = folder_to_leave_out(from, options);
    const std::unique_ptr<RecordReader> reader = record_reader(from, options.input, options.read);
    std::unique_ptr<Target> target;
    if (to.per_item())
        target = std::make_unique<ItemTarget>(to, options);
    else
        target = std::make_unique<DatasetTarget>(to, options);
    Segmentation record;
    size_t pictures = 0, objects = 0;
    while (reader->next(record)) {
        target->add(record);
        objects += record.instances.size();
        if (++pictures % 64 == 0) status.show(str(pictures, " pictures"));
    }
    target->finish();
    status.clear();
    if (options.quiet) return;
    std::cout << options.output << ": " << counted(pictures, "picture") << ", " << counted(objects, "object")
              << ", from " << from.name << " to " << to.name << "\n";
    if (to.loses != "nothing") std::cerr << "sam3: " << to.name << " does not keep: " << to.loses << "\n";
}

}  // namespace

void add_convert_format(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("convert-format", "Turn results from one format into another");
    command->add_option("IN", options->input, "Results: a file, or a folder of them");
    command->add_option("OUT", options->output, "The file or folder to write");
    command->add_option("--from", options->from, "Format of IN (default: told by its content)")
        ->type_name("FORMAT:{" + format_names([](const FormatInfo& info) { return info.reads(); }) + "}");
    command->add_option("--to", options->to, "Format of OUT (default: by the endings .jsonl and .csv)")
        ->type_name("FORMAT:{" + format_names([](const FormatInfo& info) { return info.writes(); }) + "}");
    command->add_flag("--list", options->list, "List the formats, and what each one loses");
    command
        ->add_option("--images", options->read.images,
                     "Folder of the pictures, for formats that draw on them or do not say how large they are")
        ->type_name("DIR");
    command
        ->add_option("--truth", options->read.truth, "Ground truth whose numbers predictions use (coco-results, veval)")
        ->type_name("FILE");
    command->add_flag("--polygons", options->write.polygons, "COCO and YouTube-VIS: polygons instead of run lengths");
    command
        ->add_option("--tolerance", options->write.tolerance,
                     "Of polygons: pixels that an outline may deviate (default: 0, exact)")
        ->check(CLI::Range(0.0, 1000.0));
    command->add_option("--soft-edge", options->write.soft_edge, "Of mattes: pixels on both sides of the outline")
        ->check(CLI::Range(0.0, 1000.0));
    command->add_option("--jpeg-quality", options->write.jpeg_quality, "Of overlays as JPEG")
        ->check(CLI::Range(1, 100));
    command->add_flag("--overwrite", options->overwrite, "Replace what is at OUT");
    command->add_flag("-q,--quiet", options->quiet, "No report, no progress");
    command->footer(
        "Everything goes through the program's own record, so any two formats convert into each other as far as they\n"
        "hold the same things; what each one loses is said at the end, by --list and in docs/formats.md.\n"
        "Examples:\n"
        "  sam3 convert-format out/ coco.json --to coco            # all JSON files of a folder as one COCO data set\n"
        "  sam3 convert-format coco.json yolo --to yolo            # labels/*.txt and data.yaml\n"
        "  sam3 convert-format yolo/ labelme --to labelme --images photos\n"
        "  sam3 convert-format clip.jsonl masks --to davis         # the lines of 'sam3 track' as indexed PNG\n"
        "  sam3 convert-format clip.jsonl clip.txt --to mots\n"
        "  sam3 convert-format out/ cut --to cutout --images photos\n"
        "  sam3 convert-format tracks/ predictions.json --to veval --truth saco_veval.json");
    command->callback([options, &chosen] {
        options->write.truth = options->read.truth;
        chosen = [options] { convert(*options); };
    });
}

}  // namespace sam3::cli
