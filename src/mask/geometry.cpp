#include "mask/geometry.h"

#include "util/error.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace sam3 {
namespace {

void check_scores(size_t items, std::span<const float> scores) {
    if (items != scores.size()) fail("expected a score for each of ", items, " items, found ", scores.size());
}

// NaN sorts last, so that the order is always defined.
std::vector<int> by_descending_score(std::span<const float> scores) {
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        const float left = scores[static_cast<size_t>(a)];
        const float right = scores[static_cast<size_t>(b)];
        return left > right || (left == left && right != right);
    });
    return order;
}

template <typename OverlapOf>
std::vector<int> greedy_nms(std::span<const float> scores, double threshold, OverlapOf overlap_of) {
    const std::vector<int> order = by_descending_score(scores);
    std::vector<char> gone(scores.size(), 0);
    std::vector<int> kept;
    for (size_t i = 0; i < order.size(); ++i) {
        const int best = order[i];
        if (gone[static_cast<size_t>(best)] != 0) continue;
        kept.push_back(best);
        for (size_t j = i + 1; j < order.size(); ++j) {
            const int other = order[j];
            if (gone[static_cast<size_t>(other)] != 0) continue;
            if (static_cast<double>(overlap_of(best, other)) > threshold) gone[static_cast<size_t>(other)] = 1;
        }
    }
    return kept;
}

float ratio(int64_t intersection, int64_t area_a, int64_t area_b, Overlap measure) {
    const int64_t divisor = measure == Overlap::iou ? area_a + area_b - intersection : std::min(area_a, area_b);
    return divisor == 0 ? 0.0F : static_cast<float>(static_cast<double>(intersection) / static_cast<double>(divisor));
}

void check_one_size(const Mask& a, const Mask& b) {
    check_mask(a);
    check_mask(b);
    if (a.width != b.width || a.height != b.height)
        fail("expected masks of one size, found ", a.width, " x ", a.height, " and ", b.width, " x ", b.height);
}

// 64 pixels a word: comparing all pairs of masks is then a matter of counting bits.
struct PackedMask {
    std::vector<uint64_t> words;
    int64_t area = 0;
    PixelBox bounds;
};

// Eight pixels at a time: the first is the lowest byte.
static_assert(std::endian::native == std::endian::little);
constexpr size_t kTogether = sizeof(uint64_t);

uint64_t eight_pixels(const uint8_t* pixels) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, pixels, kTogether);
    return bytes;
}

// 1 for each byte that is not 0, in one byte.
uint64_t bits_of(uint64_t bytes) {
    constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
    const uint64_t set = ((((bytes & kLow) + kLow) | bytes) & ~kLow) >> 7U;  // 1 in each such byte
    return (set * 0x0102040810204080) >> 56U;                                // byte k moves to bit 56 + k
}

// How many pixels come before the first that is set, at most `count`; behind the last that is set, likewise.
size_t clear_before(const uint8_t* pixels, size_t count) {
    size_t i = 0;
    for (; i + kTogether <= count; i += kTogether)
        if (const uint64_t bytes = eight_pixels(pixels + i))
            return i + static_cast<size_t>(std::countr_zero(bytes)) / 8;
    while (i < count && pixels[i] == 0) ++i;
    return i;
}
size_t clear_behind(const uint8_t* pixels, size_t count) {
    size_t i = 0;
    for (; i + kTogether <= count; i += kTogether)
        if (const uint64_t bytes = eight_pixels(pixels + count - i - kTogether))
            return i + static_cast<size_t>(std::countl_zero(bytes)) / 8;
    while (i < count && pixels[count - 1 - i] == 0) ++i;
    return i;
}

PackedMask pack(const Mask& mask) {
    PackedMask packed;
    const size_t count = mask.data.size();
    packed.words.assign((count + 63) / 64, 0);
    size_t i = 0;
    for (; i + kTogether <= count; i += kTogether)
        packed.words[i / 64] |= bits_of(eight_pixels(mask.data.data() + i)) << (i % 64);
    for (; i < count; ++i) packed.words[i / 64] |= static_cast<uint64_t>(mask.data[i] != 0) << (i % 64);
    for (const uint64_t word : packed.words) packed.area += std::popcount(word);
    packed.bounds = mask_bounds(mask);
    return packed;
}

std::vector<PackedMask> pack_all(std::span<const Mask> masks, int threads = 1) {
    for (const Mask& mask : masks) check_one_size(masks.front(), mask);
    std::vector<PackedMask> packed(masks.size());
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < masks.size(); ++i) packed[i] = pack(masks[i]);
    return packed;
}

bool apart(const PixelBox& a, const PixelBox& b) {
    return a.x1 <= b.x0 || b.x1 <= a.x0 || a.y1 <= b.y0 || b.y1 <= a.y0;
}

int64_t common_pixels(const PackedMask& a, const PackedMask& b) {
    if (apart(a.bounds, b.bounds)) return 0;
    int64_t count = 0;
    for (size_t i = 0; i < a.words.size(); ++i) count += std::popcount(a.words[i] & b.words[i]);
    return count;
}

}  // namespace

PixelBox mask_bounds(const Mask& mask) {
    check_mask(mask);
    PixelBox box{mask.width, mask.height, 0, 0};
    for (int y = 0; y < mask.height; ++y) {
        const uint8_t* const row = mask.data.data() + mask.index(0, y);
        const auto width = static_cast<size_t>(mask.width);
        const size_t left = clear_before(row, width);
        if (left == width) continue;
        box.x0 = std::min(box.x0, static_cast<int>(left));
        box.x1 = std::max(box.x1, static_cast<int>(width - clear_behind(row, width)));
        box.y0 = std::min(box.y0, y);
        box.y1 = y + 1;
    }
    return box.empty() ? PixelBox{} : box;
}

Box box_around(const Mask& mask) {
    const PixelBox bounds = mask_bounds(mask);
    return {static_cast<float>(bounds.x0), static_cast<float>(bounds.y0), static_cast<float>(bounds.x1),
            static_cast<float>(bounds.y1)};
}

float box_iou(const Box& a, const Box& b) {
    const float width = std::max(0.0F, std::min(a.x1, b.x1) - std::max(a.x0, b.x0));
    const float height = std::max(0.0F, std::min(a.y1, b.y1) - std::max(a.y0, b.y0));
    const float intersection = width * height;
    const float area_a = (a.x1 - a.x0) * (a.y1 - a.y0);
    const float area_b = (b.x1 - b.x0) * (b.y1 - b.y0);
    const float either = area_a + area_b - intersection;
    return either == 0.0F ? 0.0F : intersection / either;
}

float mask_overlap(const Mask& a, const Mask& b, Overlap measure) {
    check_one_size(a, b);
    int64_t intersection = 0, area_a = 0, area_b = 0;
    for (size_t i = 0; i < a.data.size(); ++i) {
        const bool in_a = a.data[i] != 0;
        const bool in_b = b.data[i] != 0;
        intersection += in_a && in_b;
        area_a += in_a;
        area_b += in_b;
    }
    return ratio(intersection, area_a, area_b, measure);
}

std::vector<float> mask_overlaps(std::span<const Mask> a, std::span<const Mask> b, Overlap measure, int threads) {
    if (!a.empty() && !b.empty()) check_one_size(a.front(), b.front());
    const std::vector<PackedMask> rows = pack_all(a, threads);
    const std::vector<PackedMask> columns = pack_all(b, threads);
    std::vector<float> overlaps(a.size() * b.size());
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < overlaps.size(); ++i) {
        const PackedMask& row = rows[i / b.size()];
        const PackedMask& column = columns[i % b.size()];
        overlaps[i] = ratio(common_pixels(row, column), row.area, column.area, measure);
    }
    return overlaps;
}

std::vector<int> nms_boxes(std::span<const Box> boxes, std::span<const float> scores, double threshold) {
    check_scores(boxes.size(), scores);
    return greedy_nms(scores, threshold, [&](int best, int other) {
        return box_iou(boxes[static_cast<size_t>(best)], boxes[static_cast<size_t>(other)]);
    });
}

std::vector<int> nms_masks(std::span<const Mask> masks, std::span<const float> scores, float threshold,
                           Overlap measure) {
    check_scores(masks.size(), scores);
    const std::vector<PackedMask> packed = pack_all(masks);
    return greedy_nms(scores, static_cast<double>(threshold), [&](int best, int other) {
        const PackedMask& a = packed[static_cast<size_t>(best)];
        const PackedMask& b = packed[static_cast<size_t>(other)];
        return ratio(common_pixels(a, b), a.area, b.area, measure);
    });
}

}  // namespace sam3
