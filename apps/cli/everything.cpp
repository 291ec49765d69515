#include "command.h"
#include "engine/mask_generation.h"
#include "formats/amg.h"
#include "formats/segmentation.h"
#include "image/draw.h"
#include "media/image_io.h"
#include "model_options.h"
#include "status.h"
#include "util/error.h"
#include "util/folders.h"
#include "values.h"

#include <cmath>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <set>

namespace sam3::cli {
namespace {

struct Options {
    ModelOptions model;
    std::string image, output;
    std::vector<std::string> formats;
    bool convert_to_rle = false;
    MaskGenerationOptions generation;
    bool overwrite = false;
    bool quiet = false;

    // Without any choice an overlay goes beside the picture.
    bool beside() const { return output.empty() && formats.empty() && !convert_to_rle; }
    std::string stem() const {
        const std::filesystem::path path(image);
        if (beside()) return std::filesystem::path(path).replace_extension().string();
        return (std::filesystem::path(output) / path.stem()).string();
    }
};

std::set<std::string> checked_formats(const Options& options) {
    std::set<std::string> formats(options.formats.begin(), options.formats.end());
    if (options.beside()) return {"overlay"};
    if (options.convert_to_rle || (formats.empty() && !options.output.empty())) formats.insert("json");
    for (const std::string& format : formats) {
        if (format != "json" && format != "png" && format != "overlay")
            throw UsageError(str("--format knows json, png and overlay, found '", printable(format), "'"));
        if (format != "json" && options.output.empty()) throw UsageError("--format png and overlay need --output DIR");
    }
    return formats;
}

std::string to_json(const std::vector<GeneratedMask>& masks) {
    std::vector<AmgMask> list;
    for (const GeneratedMask& mask : masks)
        list.push_back({mask.segmentation, mask.box, mask.predicted_iou, mask.stability_score, mask.point.x,
                        mask.point.y, mask.crop_box});
    return to_amg_json(list);
}

// Large masks below, small ones on top; no boxes and labels, which would hide a picture full of masks.
Image draw_masks(const Image& image, const std::vector<GeneratedMask>& masks) {
    std::vector<size_t> order(masks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return rle_area(masks[a].segmentation) > rle_area(masks[b].segmentation);
    });
    Image out = image;
    const float size = std::sqrt(static_cast<float>(out.width) * static_cast<float>(out.height));
    for (const size_t i : order) {
        const Mask mask = rle_decode(masks[i].segmentation);
        blend_mask(out, mask.data, palette_color(static_cast<int>(i)));
        draw_contour(out, mask.data, palette_color(static_cast<int>(i)), std::max(1.0F, size / 480.0F));
    }
    return out;
}

// Results are replaced only when that is asked for.
void check_free(const Options& options, const std::set<std::string>& formats) {
    if (options.overwrite || (options.output.empty() && !options.beside())) return;
    const std::pair<const char*, const char*> endings[] = {
        {"json", ".json"}, {"overlay", "_overlay.png"}, {"png", "_mask_0.png"}};
    for (const auto& [format, ending] : endings)
        if (formats.count(format) != 0 && std::filesystem::exists(options.stem() + ending))
            fail(options.stem(), ending,
                 ": the file is there already; --overwrite replaces it, --output DIR writes elsewhere");
}

// DIR/STEM.json, STEM_overlay.png, STEM_mask_N.png
void write_files(const Options& options, const std::set<std::string>& formats, const Image& image,
                 const std::vector<GeneratedMask>& masks) {
    const std::string stem = options.stem();
    if (formats.count("json") != 0) {
        const std::string json = to_json(masks);
        write_file(stem + ".json", {reinterpret_cast<const uint8_t*>(json.data()), json.size()});
    }
    if (formats.count("overlay") != 0) write_file(stem + "_overlay.png", encode_png(draw_masks(image, masks)));
    if (formats.count("png") == 0) return;
    for (size_t i = 0; i < masks.size(); ++i)
        write_file(str(stem, "_mask_", i, ".png"), encode_png(to_grey(rle_decode(masks[i].segmentation))));
}

void print_table(const std::vector<GeneratedMask>& masks) {
    if (masks.empty()) {
        std::cout << "no mask passed: lower --pred-iou-thresh or --stability-score-thresh\n";
        return;
    }
    std::cout << "mask    iou  stability    x0    y0    x1    y1      area\n" << std::fixed << std::setprecision(3);
    for (size_t i = 0; i < masks.size(); ++i) {
        const PixelBox& box = masks[i].box;
        std::cout << std::setw(4) << i << std::setw(7) << masks[i].predicted_iou << std::setw(11)
                  << masks[i].stability_score;
        for (const int value : {box.x0, box.y0, box.x1, box.y1}) std::cout << std::setw(6) << value;
        std::cout << std::setw(10) << rle_area(masks[i].segmentation) << "\n";
    }
}

std::string describe(const MaskGenerationProgress& progress) {
    const std::string where =
        progress.crops > 1 ? str("crop ", progress.crop + 1, " of ", progress.crops, ", ") : std::string();
    return str(where, "point ", progress.point, " of ", progress.points, ", ", progress.masks, " masks");
}

void run(const Options& options) {
    const std::set<std::string> formats = checked_formats(options);
    check_free(options, formats);
    make_folder(options.output);
    Status status(options.quiet);
    status.show("reading " + options.image);
    const Image image = read_image(options.image);
    status.show("loading " + options.model.path);
    const std::shared_ptr<const Model> model = options.model.load({.concepts = false, .clicks = true, .video = false});
    ImageSession session(model, options.model.threads);
    status.show("encoding the image");
    const MaskGeneration found =
        generate_masks(session, image, options.generation,
                       [&status](const MaskGenerationProgress& progress) { status.show(describe(progress)); });
    status.clear();

    if (options.output.empty() && !options.beside()) {
        std::cout << to_json(found.masks);
        return;
    }
    write_files(options, formats, image, found.masks);
    if (options.quiet) return;
    print_table(found.masks);
    const std::string stem = printable(options.stem());
    if (formats.count("json") != 0) std::cout << stem << ".json\n";
    if (formats.count("overlay") != 0) std::cout << stem << "_overlay.png\n";
    if (formats.count("png") != 0 && !found.masks.empty())
        std::cout << stem << "_mask_0.png" << (found.masks.size() == 1 ? "" : str(" to ", found.masks.size() - 1))
                  << "\n";
}

// The names and defaults of Meta's amg.py.
void add_generation_options(CLI::App& command, MaskGenerationOptions& options) {
    constexpr int kMany = 1 << 20;
    const auto add = [&command](const char* name, auto& value, auto low, auto high, const char* text) {
        command.add_option(name, value, text)
            ->check(CLI::Range(low, high))
            ->capture_default_str()
            ->group("What to keep");
    };
    add("--points-per-side", options.points_per_side, 1, 4096, "Points along a side of the grid of clicks");
    add("--points-per-batch", options.points_per_batch, 1, 4096,
        "Points decoded together; more need more memory, the result is the same");
    add("--pred-iou-thresh", options.pred_iou_thresh, 0.0, 1.0, "Keep masks whose predicted quality is above this");
    add("--stability-score-thresh", options.stability_score_thresh, 0.0, 1.0,
        "Keep masks of which at least this share stays when the mask threshold moves");
    add("--stability-score-offset", options.stability_score_offset, 0.0, 100.0,
        "How far it moves, up and down, in logits");
    add("--box-nms-thresh", options.box_nms_thresh, 0.0, 1.0,
        "Drop the weaker of two masks whose boxes overlap more than this IoU");
    add("--crop-n-layers", options.crop_n_layers, 0, kMostCropLayers,
        "Also look at crops of the image: 4 in the first layer, 16 more in the second, ...");
    add("--crop-nms-thresh", options.crop_nms_thresh, 0.0, 1.0,
        "The same for masks of different crops, where the smaller crop wins");
    add("--crop-overlap-ratio", options.crop_overlap_ratio, 0.0, 0.99,
        "How much crops overlap, in parts of the image's shorter side");
    add("--crop-n-points-downscale-factor", options.crop_n_points_downscale_factor, 1, 4096,
        "Divide the points a side by this in every layer");
    add("--min-mask-region-area", options.min_mask_region_area, 0, kMany,
        "Fill holes and remove islands of fewer pixels (0: leave them)");
}

}  // namespace

void add_everything(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("everything", "Outline everything in an image, without a prompt");
    command->add_option("-i,--image,IMAGE", options->image, "JPEG, PNG or WebP file")->required()->group("Input");
    const char* group = "Results";
    command->add_option("-o,--output", options->output, "Folder for result files; made when missing")
        ->type_name("DIR")
        ->group(group);
    command
        ->add_option(
            "-f,--format", options->formats,
            "json, png (a file a mask), overlay; separated by commas (default: json with --output, else an overlay "
            "beside the picture)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LIST:{json,png,overlay}")
        ->group(group);
    command->add_flag("--convert-to-rle", options->convert_to_rle, "The same as --format json")->group(group);
    command->add_flag("--overwrite", options->overwrite, "Replace results that are there")->group(group);
    command->add_flag("-q,--quiet", options->quiet, "No table, no progress")->group(group);
    add_generation_options(*command, options->generation);
    options->model.add_to(*command);
    command->footer(
        "Examples:\n"
        "  sam3 everything -m sam3 photo.jpg             # writes photo_overlay.png, prints a table\n"
        "  sam3 everything -m sam3 photo.jpg -o out -f json,overlay\n"
        "  sam3 everything -m sam3 -i photo.jpg --points-per-side 16 --min-mask-region-area 100 -f json | jq length\n"
        "  sam3 everything -m sam3 -i photo.jpg --crop-n-layers 1 --crop-n-points-downscale-factor 2 -o out -f png\n"
        "Options, defaults and the JSON are those of Meta's amg.py. Without --output, --format json prints the JSON.");
    command->callback([options, &chosen] { chosen = [options] { run(*options); }; });
}

}  // namespace sam3::cli
