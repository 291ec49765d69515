#include "engine/mask_generation.h"

#include "engine/timing.h"
#include "mask/components.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace sam3 {

namespace {

// A mask that comes nearer to the edge of its crop is cut off by it, unless that is the edge of the image too.
constexpr int kEdgePixels = 20;

void check(const MaskGenerationOptions& options) {
    for (const double value :
         {static_cast<double>(options.pred_iou_thresh), static_cast<double>(options.stability_score_thresh),
          options.box_nms_thresh, options.crop_nms_thresh})
        if (std::isnan(value)) fail("one of the thresholds for masks is not a number");
    if (options.points_per_side < 1)
        fail("a grid needs at least one point a side, found points-per-side ", options.points_per_side);
    if (options.points_per_batch < 1)
        fail("a batch needs at least one point, found points-per-batch ", options.points_per_batch);
    if (options.crop_n_layers < 0 || options.crop_n_layers > kMostCropLayers)
        fail("expected crop-n-layers from 0 to ", kMostCropLayers, ", found ", options.crop_n_layers);
    if (options.crop_n_points_downscale_factor < 1)
        fail("expected a crop-n-points-downscale-factor of 1 or more, found ", options.crop_n_points_downscale_factor);
    if (!(options.stability_score_offset >= 0))
        fail("expected a stability-score-offset of 0 or more, found ", options.stability_score_offset);
    if (options.min_mask_region_area < 0)
        fail("expected a min-mask-region-area of 0 or more, found ", options.min_mask_region_area);
}

int points_in_layer(const MaskGenerationOptions& options, int layer) {
    int side = options.points_per_side;
    for (int i = 0; i < layer; ++i) side /= options.crop_n_points_downscale_factor;
    if (side < 1)
        fail("crop layer ", layer, " has no points: ", options.points_per_side, " a side divided ", layer, " times by ",
             options.crop_n_points_downscale_factor, "; lower crop-n-points-downscale-factor");
    return side;
}

// The centres of side x side equal cells, row by row.
std::vector<Point> point_grid(int side, int width, int height) {
    const auto at = [side](int i, int length) { return static_cast<float>((i + 0.5) / side * length); };
    std::vector<Point> points;
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) points.push_back({at(x, width), at(y, height)});
    return points;
}

Image cut(const Image& image, const PixelBox& box) {
    Image part(box.x1 - box.x0, box.y1 - box.y0, image.channels);
    for (int y = 0; y < part.height; ++y) std::memcpy(part.row(y), image.at(box.x0, box.y0 + y), part.row_bytes());
    return part;
}

// A mask of the crop as one of the image.
Rle encode_on_image(const Mask& mask, const PixelBox& crop, int width, int height) {
    if (mask.width == width && mask.height == height) return rle_encode(mask);
    Mask whole(width, height);
    for (int y = 0; y < mask.height; ++y)
        std::memcpy(&whole.at(crop.x0, crop.y0 + y), mask.data.data() + mask.index(0, y),
                    static_cast<size_t>(mask.width));
    return rle_encode(whole);
}

// Both references name the last pixel, not the one past it: overlaps and distances are measured on such boxes.
Box reference_box(const PixelBox& box) {
    return {static_cast<float>(box.x0), static_cast<float>(box.y0), static_cast<float>(box.x1 - 1),
            static_cast<float>(box.y1 - 1)};
}

bool touches_crop_edge(const PixelBox& box, const PixelBox& crop, int width, int height) {
    const auto cut_off = [](int edge, int crop_edge, int image_edge) {
        return std::abs(edge - crop_edge) <= kEdgePixels && std::abs(edge - image_edge) > kEdgePixels;
    };
    return cut_off(box.x0, crop.x0, 0) || cut_off(box.y0, crop.y0, 0) || cut_off(box.x1 - 1, crop.x1, width) ||
           cut_off(box.y1 - 1, crop.y1, height);
}

void drop_duplicates(std::vector<GeneratedMask>& masks, std::span<const float> scores, double threshold) {
    std::vector<Box> boxes;
    for (const GeneratedMask& mask : masks) boxes.push_back(reference_box(mask.box));
    std::vector<GeneratedMask> kept;
    for (const int i : nms_boxes(boxes, scores, threshold)) kept.push_back(std::move(masks[static_cast<size_t>(i)]));
    masks = std::move(kept);
}

template <typename ScoreOf>
std::vector<float> scores_of(const std::vector<GeneratedMask>& masks, const ScoreOf& score_of) {
    std::vector<float> scores;
    for (const GeneratedMask& mask : masks) scores.push_back(score_of(mask));
    return scores;
}

// Smaller crops have the higher score.
float crop_score(const GeneratedMask& mask) {
    const PixelBox& box = mask.crop_box;
    return 1.0F / (static_cast<float>(box.x1 - box.x0) * static_cast<float>(box.y1 - box.y0));
}

class Generator {
public:
    Generator(ImageSession& session, const Image& image, const MaskGenerationOptions& options,
              const std::function<void(const MaskGenerationProgress&)>& progress)
        : session_(session), image_(image), options_(options), progress_(progress) {}

    MaskGeneration run() {
        const std::vector<CropBox> crops =
            generate_crop_boxes(image_.width, image_.height, options_.crop_n_layers, options_.crop_overlap_ratio);
        for (const CropBox& crop : crops) points_in_layer(options_, crop.layer);  // fails before the long work
        state_.crops = crops.size();
        for (const CropBox& crop : crops) {
            process(crop);
            ++state_.crop;
        }
        const Timing timing(result_.seconds["post_process"]);
        if (crops.size() > 1)
            drop_duplicates(result_.masks, scores_of(result_.masks, crop_score), options_.crop_nms_thresh);
        if (options_.min_mask_region_area > 0)
            remove_small_regions(result_.masks, options_.min_mask_region_area,
                                 std::max(options_.box_nms_thresh, options_.crop_nms_thresh));
        return std::move(result_);
    }

private:
    void process(const CropBox& crop) {
        const Image part = cut(image_, crop.box);
        session_.encode({&part, 1});
        const std::vector<Point> points = point_grid(points_in_layer(options_, crop.layer), part.width, part.height);
        state_.points = points.size();
        const auto batch = static_cast<size_t>(options_.points_per_batch);
        std::vector<GeneratedMask> masks;
        for (size_t start = 0; start < points.size(); start += batch) {
            state_.point = start;
            state_.masks = result_.masks.size() + masks.size();
            if (progress_) progress_(state_);
            const std::span<const Point> some(points.data() + start, std::min(batch, points.size() - start));
            const PointCandidates candidates = session_.decode_points(some);
            const Timing timing(result_.seconds["filter"]);
            filter(candidates, some, crop.box, masks);
        }
        for (const auto& [step, seconds] : session_.seconds()) result_.seconds[step] += seconds;
        const Timing timing(result_.seconds["post_process"]);
        const auto quality = [](const GeneratedMask& mask) { return mask.predicted_iou; };
        drop_duplicates(masks, scores_of(masks, quality), options_.box_nms_thresh);
        std::move(masks.begin(), masks.end(), std::back_inserter(result_.masks));
    }

    // Appends what passes; a mask is enlarged after its predicted quality passed.
    void filter(const PointCandidates& candidates, std::span<const Point> points, const PixelBox& crop,
                std::vector<GeneratedMask>& masks) const {
        const int64_t count = candidates.iou.dim(1);
        for (int64_t i = 0; i < candidates.iou.numel(); ++i) {
            const float iou = candidates.iou.data<float>()[i];
            if (options_.pred_iou_thresh > 0 && !(iou > options_.pred_iou_thresh)) continue;
            const Tensor logits = candidates.logits.select(0, i / count).select(0, i % count);
            const StableMask found = session_.enlarge(logits, options_.stability_score_offset);
            if (options_.stability_score_thresh > 0 && !(found.stability >= options_.stability_score_thresh)) continue;
            PixelBox box = mask_bounds(found.mask);
            if (box.empty()) continue;
            box = {box.x0 + crop.x0, box.y0 + crop.y0, box.x1 + crop.x0, box.y1 + crop.y0};
            if (touches_crop_edge(box, crop, image_.width, image_.height)) continue;
            const Point& point = points[static_cast<size_t>(i / count)];
            masks.push_back({encode_on_image(found.mask, crop, image_.width, image_.height),
                             box,
                             iou,
                             found.stability,
                             {point.x + static_cast<float>(crop.x0), point.y + static_cast<float>(crop.y0)},
                             crop});
        }
    }

    ImageSession& session_;
    const Image& image_;
    const MaskGenerationOptions& options_;
    const std::function<void(const MaskGenerationProgress&)>& progress_;
    MaskGenerationProgress state_;
    MaskGeneration result_;
};

}  // namespace

std::vector<CropBox> generate_crop_boxes(int width, int height, int layers, double overlap_ratio) {
    if (!(overlap_ratio >= 0 && overlap_ratio < 1))
        fail("expected a crop-overlap-ratio from 0 to below 1, found ", overlap_ratio);
    std::vector<CropBox> crops = {{{0, 0, width, height}, 0}};
    for (int layer = 1; layer <= layers; ++layer) {
        const int side = 1 << layer;
        const auto overlap = static_cast<int>(overlap_ratio * std::min(width, height) * (2.0 / side));
        const auto length_of = [&](int whole) {
            return static_cast<int>((static_cast<int64_t>(overlap) * (side - 1) + whole + side - 1) / side);
        };
        const int crop_width = length_of(width);
        const int crop_height = length_of(height);
        if ((crop_width - overlap) * (side - 1) >= width || (crop_height - overlap) * (side - 1) >= height)
            fail("the image of ", width, " x ", height, " pixels is too small for ", layers,
                 " layers of crops: lower crop-n-layers");
        for (int i = 0; i < side; ++i)
            for (int k = 0; k < side; ++k) {
                const int left = (crop_width - overlap) * i;
                const int top = (crop_height - overlap) * k;
                crops.push_back(
                    {{left, top, std::min(left + crop_width, width), std::min(top + crop_height, height)}, layer});
            }
    }
    return crops;
}

void remove_small_regions(std::vector<GeneratedMask>& masks, int64_t min_area, double nms_threshold) {
    std::vector<float> scores;
    for (GeneratedMask& mask : masks) {
        Mask pixels = rle_decode(mask.segmentation);
        const bool filled = fill_small_holes(pixels, min_area);
        const bool removed = remove_small_islands(pixels, min_area);
        scores.push_back(filled || removed ? 0.0F : 1.0F);
        if (!filled && !removed) continue;
        mask.segmentation = rle_encode(pixels);
        mask.box = mask_bounds(pixels);
    }
    drop_duplicates(masks, scores, nms_threshold);
}

MaskGeneration generate_masks(ImageSession& session, const Image& image, const MaskGenerationOptions& options,
                              const std::function<void(const MaskGenerationProgress&)>& progress) {
    check(options);
    check_image(image);
    session.model().interactive_head();  // fails with a sentence where there is none
    return Generator(session, image, options, progress).run();
}

}  // namespace sam3
