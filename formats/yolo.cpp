#include "formats/yolo.h"

#include "formats/format_rows.h"
#include "formats/json_masks.h"
#include "formats/record_files.h"
#include "mask/polygon.h"
#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"
#include "util/output_names.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

// YOLO's segmentation labels: labels/NAME.txt beside images/NAME.jpg, a line an object with the number of its class and
// one outline in fractions of the picture's size; data.yaml names the classes.
namespace sam3 {

namespace {

namespace fs = std::filesystem;

std::string yolo_lines(const Segmentation& record, LabelNumbers& labels, float tolerance) {
    labels.add(record);
    std::string text;
    for (const Segmentation::Instance& instance : record.instances) {
        const Ring ring = joined_ring(mask_to_polygons(instance.mask, tolerance));
        if (ring.empty()) continue;
        text += std::to_string(labels.add(instance.label));
        for (const Point& point : ring) {
            char numbers[64];
            std::snprintf(numbers, sizeof numbers, " %.7g %.7g", static_cast<double>(point.x) / record.width,
                          static_cast<double>(point.y) / record.height);
            text += numbers;
        }
        text += "\n";
    }
    return text;
}

class YoloWriter : public DatasetWriter {
public:
    YoloWriter(std::string path, const WriteOptions& options) : path_(std::move(path)), options_(options) {
        make_folder((fs::path(path_) / "labels").string());
    }

    void add(const Segmentation& record) override {
        const std::string stem = record_stem(record, options_.folder);
        if (!stems_.insert(stem).second)
            fail("two pictures are called '", stem, "' but for their ending, and YOLO's label files have none: '",
                 record.file, "' is the second");
        const fs::path file = fs::path(path_) / "labels" / (stem + ".txt");
        make_folder_of(file.string());
        write_file_atomically(file.string(), yolo_lines(record, labels_, options_.tolerance));
    }

    void finish() override {
        std::string yaml =
            "# Labels of instance segmentation. Put the pictures into images/, named as the labels.\n"
            "path: .\ntrain: images\nval: images\nnames:\n";
        for (size_t i = 0; i < labels_.labels().size(); ++i)
            yaml += "  " + std::to_string(i) + ": " + json_text(Json(labels_.labels()[i])) + "\n";
        if (labels_.labels().empty()) yaml += "  {}\n";
        write_file_atomically((fs::path(path_) / "data.yaml").string(), yaml);
    }

private:
    std::string path_;
    WriteOptions options_;
    LabelNumbers labels_;
    std::set<std::string> stems_;
};

// The picture that a label file is about: same name, any ending that is read.
std::string picture_for(const fs::path& images, const std::string& stem) {
    for (const char* ending : {".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG"}) {
        const fs::path path = images / (stem + ending);
        std::error_code error;
        if (fs::is_regular_file(path, error)) return stem + ending;
    }
    fail("there is no picture '", stem, "' in ", images.string(), ", which the labels are fractions of");
}

class YoloReader {
public:
    YoloReader(const std::string& path, const ReadOptions& options) : options_(options) {
        const fs::path root = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
        labels_ = fs::is_directory(root / "labels") ? root / "labels" : root;
        images_ = !options.images.empty() ? fs::path(options.images) : root / "images";
        if (!fs::is_directory(images_))
            fail(path,
                 ": YOLO's labels are fractions of the picture's size, which they do not say: name the folder of ",
                 "the pictures by --images");
        for (const fs::path& yaml : {root / "data.yaml", root.parent_path() / "data.yaml"})
            if (names_.empty() && fs::is_regular_file(yaml)) names_ = parse_yolo_names(read_file(yaml.string()));
    }

    std::string labels() const { return labels_.string(); }

    Segmentation read(const std::string& file) const {
        const std::string name = fs::path(file).lexically_relative(labels_).generic_string();
        const std::string picture = picture_for(images_, name.substr(0, name.rfind('.')));
        const Image image = read_image((images_ / picture).string());
        LineReader lines(file);
        Segmentation record = parse_yolo_labels(lines, image.width, image.height, names_, options_.most_mask_bytes);
        record.file = picture;
        return record;
    }

private:
    ReadOptions options_;
    fs::path labels_, images_;
    std::map<int, std::string> names_;
};

Ring yolo_ring(std::string_view numbers, int width, int height) {
    std::vector<double> values;
    for (const char *at = numbers.data(), *const end = at + numbers.size();;) {
        while (at != end && (*at == ' ' || *at == '\t')) ++at;
        if (at == end) break;
        double value = 0;
        const auto [next, error] = std::from_chars(at, end, value);
        if (error != std::errc() || !std::isfinite(value) || (next != end && *next != ' ' && *next != '\t'))
            fail("expected finite numbers, found '", std::string(at, std::min(end, at + 20)), "'");
        values.push_back(value);
        at = next;
    }
    if (values.size() == 4)
        fail(
            "expected an outline of at least three points, found a box: these labels are for detection, without masks");
    if (values.size() < 6 || values.size() % 2 != 0)
        fail("expected a class and an outline of at least three points x, y, found ", values.size(), " numbers");
    Ring ring;
    for (size_t i = 0; i < values.size(); i += 2)
        ring.push_back({static_cast<float>(values[i] * width), static_cast<float>(values[i + 1] * height)});
    return ring;
}

}  // namespace

Segmentation parse_yolo_labels(LineReader& lines, int width, int height, const std::map<int, std::string>& names,
                               int64_t most_mask_bytes) {
    Segmentation record;
    record.width = width;
    record.height = height;
    MaskBudget budget(most_mask_bytes);
    std::string line;
    while (lines.next(line)) {
        if (line.find_first_not_of(" \t") == std::string::npos) continue;
        name_json_errors(lines.where(), "", [&] {
            int number = 0;
            const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
            if (error != std::errc() || number < 0)
                fail("expected the number of a class, found '", line.substr(0, 20), "'");
            const Polygon polygon{
                yolo_ring(std::string_view(line).substr(static_cast<size_t>(end - line.data())), width, height), {}};
            budget.take(width, height);
            Segmentation::Instance instance;
            const auto name = names.find(number);
            instance.label = name == names.end() ? str("class ", number) : name->second;
            instance.score = 1;
            instance.mask = rasterize({&polygon, 1}, width, height);
            set_box_from_mask(instance);
            record.instances.push_back(std::move(instance));
        });
    }
    add_missing_prompts(record);
    return record;
}

std::unique_ptr<DatasetWriter> yolo_writer(const std::string& path, const WriteOptions& options) {
    return std::make_unique<YoloWriter>(path, options);
}

std::unique_ptr<RecordReader> yolo_reader(const std::string& path, const ReadOptions& options) {
    auto reader = std::make_shared<YoloReader>(path, options);
    std::vector<std::string> files = files_at(fs::is_directory(path) ? reader->labels() : path, ".txt");
    return file_by_file(std::move(files), [reader](const std::string& file) { return reader->read(file); });
}

}  // namespace sam3
