#include "formats/label_maps.h"

#include "formats/format_rows.h"
#include "formats/record_files.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace sam3 {

namespace {

constexpr int kMostDavisId = 254;
constexpr int kMostGreyId = 65534;

// Places in the list of instances, the lowest layer first.
std::vector<size_t> layers_of(const Segmentation& record) {
    std::vector<size_t> order(record.instances.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        if (record.frame >= 0) return instance_id(record, a) < instance_id(record, b);
        const float score_a = record.instances[a].score, score_b = record.instances[b].score;
        return score_a == score_b ? a > b : score_a < score_b;
    });
    return order;
}

// Which instance is seen where: its place + 1.
std::vector<uint32_t> visible_instances(const Segmentation& record) {
    std::vector<uint32_t> seen(static_cast<size_t>(record.width) * static_cast<size_t>(record.height));
    for (const size_t place : layers_of(record)) {
        const Mask& mask = record.instances[place].mask;
        for (size_t i = 0; i < seen.size(); ++i)
            if (mask.data[i] != 0) seen[i] = static_cast<uint32_t>(place) + 1;
    }
    return seen;
}

void check_ids(const Segmentation& record, int most, const char* format, const char* advice) {
    if (!has_distinct_ids(record)) fail(record.file, ": two objects have one id, which ", format, " cannot hold");
    for (size_t i = 0; i < record.instances.size(); ++i)
        if (const int id = instance_id(record, i); id > most)
            fail(record.file, ": ", format, " holds ids from 0 to ", most, ", found ", id, advice);
}

// The bits of the index, three by three, become the upper bits of red, green and blue.
std::vector<uint8_t> davis_palette() {
    std::vector<uint8_t> palette;
    for (unsigned index = 0; index < 256; ++index) {
        std::array<unsigned, 3> color{};
        for (unsigned bit = 0; bit < 8; ++bit)
            for (unsigned c = 0; c < 3; ++c)
                if (bit * 3 + c < 8) color[c] |= (index >> (bit * 3 + c) & 1U) << (7 - bit);
        for (const unsigned value : color) palette.push_back(static_cast<uint8_t>(value));
    }
    return palette;
}

// "street/00012" is frame 12 of "street", as DAVIS names its files; anything else is a still image.
void name_frame(Segmentation& record, const std::string& stem) {
    const size_t slash = stem.rfind('/');
    const std::string last = slash == std::string::npos ? stem : stem.substr(slash + 1);
    const bool digits = !last.empty() && last.size() <= 9 &&
                        std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || slash == std::string::npos) {
        record.file = stem;
        return;
    }
    record.clip = stem.substr(0, slash);
    record.frame = std::stoll(last);
}

Segmentation record_from_labels(const std::string& file, const std::string& stem, const ReadOptions& options) {
    const LabelMap map = decode_png_labels(read_file(file), file);
    Segmentation record;
    record.width = map.width;
    record.height = map.height;
    name_frame(record, stem);
    std::map<uint16_t, size_t> places;
    for (const uint16_t label : map.labels)
        if (label != 0) places.emplace(label, 0);
    if (static_cast<int64_t>(places.size()) * map.width * map.height > options.most_mask_bytes)
        fail(file, ": the masks of its ", places.size(), " objects take more than ", options.most_mask_bytes >> 20,
             " MiB, the most that is accepted");
    for (auto& [label, place] : places) {
        place = record.instances.size();
        Segmentation::Instance instance;
        instance.label = "object";
        instance.id = label - 1;
        instance.score = 1;
        instance.mask = Mask(map.width, map.height);
        record.instances.push_back(std::move(instance));
    }
    for (size_t i = 0; i < map.labels.size(); ++i)
        if (map.labels[i] != 0) record.instances[places[map.labels[i]]].mask.data[i] = 1;
    for (Segmentation::Instance& instance : record.instances) set_box_from_mask(instance);
    add_missing_prompts(record);
    return record;
}

std::unique_ptr<RecordReader> label_map_reader(const std::string& path, const std::string& suffix,
                                               const ReadOptions& options) {
    return file_by_file(files_at(path, ".png"), [=](const std::string& file) {
        std::string stem = name_below(path, file);
        stem.resize(stem.size() - std::min(stem.size(), std::string_view(".png").size()));
        if (stem.ends_with(suffix)) stem.resize(stem.size() - suffix.size());
        return record_from_labels(file, stem, options);
    });
}

}  // namespace

std::vector<uint16_t> label_pixels(const Segmentation& record) {
    check_ids(record, kMostGreyId, "a label map", "");
    const std::vector<uint32_t> seen = visible_instances(record);
    std::vector<uint16_t> labels(seen.size());
    std::transform(seen.begin(), seen.end(), labels.begin(), [&](uint32_t place) {
        return place == 0 ? uint16_t{0} : static_cast<uint16_t>(instance_id(record, place - 1) + 1);
    });
    return labels;
}

std::vector<Mask> separate_masks(const Segmentation& record) {
    std::vector<Mask> masks(record.instances.size(), Mask(record.width, record.height));
    const std::vector<uint32_t> seen = visible_instances(record);
    for (size_t i = 0; i < seen.size(); ++i)
        if (seen[i] != 0) masks[seen[i] - 1].data[i] = 1;
    return masks;
}

std::vector<uint8_t> to_davis_png(const Segmentation& record) {
    check_ids(record, kMostDavisId, "the palette of DAVIS", "; write the format ids, which has 16 bits");
    const std::vector<uint16_t> labels = label_pixels(record);
    Image indices(record.width, record.height, 1);
    std::transform(labels.begin(), labels.end(), indices.pixels.begin(),
                   [](uint16_t label) { return static_cast<uint8_t>(label); });
    return encode_png_palette(indices, davis_palette());
}

std::vector<uint8_t> to_ids_png(const Segmentation& record) {
    return encode_png_grey16(label_pixels(record), record.width, record.height);
}

ItemFiles davis_item(const Segmentation& record, const std::string& stem, const Image*, const WriteOptions&) {
    return {{stem + ".png", to_davis_png(record)}};
}

ItemFiles ids_item(const Segmentation& record, const std::string& stem, const Image*, const WriteOptions&) {
    return {{stem + "_ids.png", to_ids_png(record)}};
}

std::unique_ptr<RecordReader> davis_reader(const std::string& path, const ReadOptions& options) {
    return label_map_reader(path, "", options);
}

std::unique_ptr<RecordReader> ids_reader(const std::string& path, const ReadOptions& options) {
    return label_map_reader(path, "_ids", options);
}

}  // namespace sam3
