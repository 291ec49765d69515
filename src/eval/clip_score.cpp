#include "eval/clip_score.h"

#include "eval/assignment.h"
#include "mask/distance.h"
#include "mask/geometry.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>

namespace sam3 {

namespace {

constexpr double kContourTolerance = 0.008;  // of the diagonal
constexpr double kSameObject = 0.5;          // IoU from which a prediction stands for an object

bool is_empty(const Rle& mask) { return rle_area(mask) == 0; }

void check_sizes(const Rle& a, const Rle& b) {
    if (!a.counts.empty() && !b.counts.empty() && (a.width != b.width || a.height != b.height))
        fail("masks of ", a.width, " x ", a.height, " and ", b.width, " x ", b.height, " pixels cannot be compared");
}

void check_frames(const Track& predicted, const Track& truth, size_t first) {
    if (predicted.size() != truth.size())
        fail("expected a track of ", truth.size(), " frames, found ", predicted.size());
    if (first >= truth.size()) fail("there is no frame from ", first, " on in a track of ", truth.size());
}

// A pixel belongs to the contour when it differs from its neighbour to the right, below, or right below; the last row
// and column have fewer neighbours. Pixels on either side can be meant: it is DAVIS' half-pixel convention.
Mask contour(const Mask& mask) {
    Mask out(mask.width, mask.height);
    for (int y = 0; y < mask.height; ++y) {
        for (int x = 0; x < mask.width; ++x) {
            const uint8_t here = mask.at(x, y);
            const bool right = x + 1 < mask.width, below = y + 1 < mask.height;
            out.at(x, y) = (right && mask.at(x + 1, y) != here) || (below && mask.at(x, y + 1) != here) ||
                           (right && below && mask.at(x + 1, y + 1) != here);
        }
    }
    return out;
}

// An empty mask of the same size.
Rle blank(const Rle& like) {
    return {like.width, like.height, {static_cast<uint32_t>(like.width) * static_cast<uint32_t>(like.height)}};
}

// The part of a mask inside a box.
Mask cut(const Rle& rle, const PixelBox& box) {
    const Mask whole = rle_decode(rle);
    Mask out(box.x1 - box.x0, box.y1 - box.y0);
    for (int y = 0; y < out.height; ++y)
        for (int x = 0; x < out.width; ++x) out.at(x, y) = whole.at(box.x0 + x, box.y0 + y);
    return out;
}

// A box around both masks with a pixel to spare: all of their contours lie in it, also those before the first pixel.
PixelBox box_around_both(const Rle& a, const Rle& b) {
    const CocoBox first = rle_box(a), second = rle_box(b);
    return {std::max(0, std::min(first.x, second.x) - 1), std::max(0, std::min(first.y, second.y) - 1),
            std::min(a.width, std::max(first.x + first.width, second.x + second.width) + 1),
            std::min(a.height, std::max(first.y + first.height, second.y + second.height) + 1)};
}

// The share of `contour` that lies within the radius of `other`.
double share_near(const Mask& contour, const Mask& other, int64_t squared_radius) {
    const std::vector<int64_t> distances = squared_distances(other);
    int64_t near = 0;
    for (size_t i = 0; i < distances.size(); ++i)
        if (contour.data[i] != 0 && distances[i] <= squared_radius) ++near;
    return static_cast<double>(near) / static_cast<double>(mask_area(contour));
}

}  // namespace

double region_similarity(const Rle& predicted, const Rle& truth) {
    check_sizes(predicted, truth);
    if (is_empty(predicted) && is_empty(truth)) return 1.0;
    if (is_empty(predicted) || is_empty(truth)) return 0.0;
    return rle_iou(predicted, truth);
}

double contour_accuracy(const Rle& predicted, const Rle& truth) {
    check_sizes(predicted, truth);
    if (predicted.counts.empty() && truth.counts.empty()) return 1.0;
    const Rle first = predicted.counts.empty() ? blank(truth) : predicted;
    const Rle second = truth.counts.empty() ? blank(predicted) : truth;
    const PixelBox box = box_around_both(first, second);
    const Mask a = contour(cut(first, box)), b = contour(cut(second, box));
    const bool any_a = mask_area(a) > 0, any_b = mask_area(b) > 0;
    if (!any_a && !any_b) return 1.0;
    if (!any_a || !any_b) return 0.0;
    const auto radius = static_cast<int64_t>(std::ceil(kContourTolerance * std::hypot(first.width, first.height)));
    const double precision = share_near(a, b, radius * radius), recall = share_near(b, a, radius * radius);
    return precision + recall == 0 ? 0.0 : 2 * precision * recall / (precision + recall);
}

double mean_j(const Track& predicted, const Track& truth, size_t first) {
    check_frames(predicted, truth, first);
    double sum = 0;
    for (size_t i = first; i < truth.size(); ++i) sum += region_similarity(predicted[i], truth[i]);
    return sum / static_cast<double>(truth.size() - first);
}

ClipFigures score_track(const Track& predicted, const Track& truth, size_t first) {
    ClipFigures out;
    out.j = mean_j(predicted, truth, first);
    out.last_j = region_similarity(predicted.back(), truth.back());
    for (size_t i = first; i < truth.size(); ++i) out.f += contour_accuracy(predicted[i], truth[i]);
    out.f /= static_cast<double>(truth.size() - first);
    return out;
}

IdentityFigures count_switches(std::span<const Track* const> predicted, std::span<const Track* const> truth) {
    std::vector<int> holder(truth.size(), -1), switches(truth.size(), 0);
    const size_t frames = truth.empty() ? 0 : truth[0]->size();
    for (size_t frame = 0; frame < frames; ++frame) {
        std::vector<double> overlaps;
        for (const Track* object : truth)
            for (const Track* prediction : predicted) {
                const bool seen = !is_empty(object->at(frame)) && !is_empty(prediction->at(frame));
                overlaps.push_back(seen ? region_similarity(prediction->at(frame), object->at(frame)) : 0.0);
            }
        const std::vector<int> pairs = assign(overlaps, truth.size(), predicted.size());
        for (size_t i = 0; i < pairs.size(); ++i) {
            if (pairs[i] < 0 || overlaps[i * predicted.size() + static_cast<size_t>(pairs[i])] < kSameObject) continue;
            if (holder[i] >= 0 && holder[i] != pairs[i]) ++switches[i];
            holder[i] = pairs[i];
        }
    }
    IdentityFigures out;
    for (const int count : switches) {
        out.switches += count;
        if (count > 0) ++out.switched_tracks;
    }
    return out;
}

}  // namespace sam3
