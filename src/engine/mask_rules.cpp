#include "engine/mask_rules.h"

#include "mask/components.h"
#include "mask/geometry.h"
#include "util/error.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

namespace sam3 {

namespace {

constexpr float kOutside = -10.0F;   // highest logit of a mask that was taken away
constexpr float kLeastShare = 0.3F;  // of its area that a mask must keep beside the others

std::map<int, std::vector<size_t>> members_of(std::span<const int> groups) {
    std::map<int, std::vector<size_t>> members;
    for (size_t i = 0; i < groups.size(); ++i) members[groups[i]].push_back(i);
    return members;
}

// For each member of the group: pixels inside, and of these the ones where no other logit is higher.
struct Areas {
    std::vector<int64_t> all, kept;
};

// A block of pixels, member by member: the compiler takes many pixels at once.
constexpr int64_t kBlock = 1024;

void compete(const std::vector<const float*>& rows, int64_t begin, int64_t count, Areas& areas) {
    float highest[kBlock];
    int32_t owner[kBlock];
    std::fill_n(highest, count, 0.0F);  // nobody's unless it lies inside
    std::fill_n(owner, count, -1);
    for (size_t m = 0; m < rows.size(); ++m) {
        const float* const row = rows[m] + begin;
        int32_t inside = 0;
        for (int64_t i = 0; i < count; ++i) {
            const bool higher = row[i] > highest[i];
            highest[i] = higher ? row[i] : highest[i];
            owner[i] = higher ? static_cast<int32_t>(m) : owner[i];
            inside += row[i] > 0 ? 1 : 0;
        }
        areas.all[m] += inside;
    }
    for (size_t m = 0; m < rows.size(); ++m) {
        int32_t own = 0;
        for (int64_t i = 0; i < count; ++i) own += owner[i] == static_cast<int32_t>(m) ? 1 : 0;
        areas.kept[m] += own;
    }
}

Areas compete(const Tensor& stack, const std::vector<size_t>& members, int threads) {
    const Areas none{std::vector<int64_t>(members.size()), std::vector<int64_t>(members.size())};
    Areas areas = none;
    std::vector<const float*> rows;
    for (const size_t member : members) rows.push_back(stack_row(stack, static_cast<int64_t>(member)).data());
    const int64_t pixels = stack.dim(1) * stack.dim(2);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        Areas own = none;
#pragma omp for nowait
        for (int64_t begin = 0; begin < pixels; begin += kBlock)
            compete(rows, begin, std::min(kBlock, pixels - begin), own);
#pragma omp critical(sam3_compete)
        for (size_t m = 0; m < members.size(); ++m) {
            areas.all[m] += own.all[m];
            areas.kept[m] += own.kept[m];
        }
    }
    return areas;
}

}  // namespace

Tensor copy_of(const Tensor& masks) {
    Tensor copy = Tensor::host(masks.shape());
    std::memcpy(copy.raw(), masks.raw(), static_cast<size_t>(masks.numel()) * sizeof(float));
    return copy;
}

int64_t stack_size(const Tensor& stack) { return stack.defined() ? stack.dim(0) : 0; }

std::span<float> stack_row(const Tensor& stack, int64_t index) {
    const int64_t pixels = stack.dim(1) * stack.dim(2);
    return {stack.data<float>() + index * pixels, static_cast<size_t>(pixels)};
}

bool any_inside(std::span<const float> logits) {
    return std::any_of(logits.begin(), logits.end(), [](float logit) { return logit > 0; });
}

std::vector<Mask> inside(const Tensor& stack, int threads) {
    const int64_t count = stack_size(stack);
    std::vector<Mask> masks(static_cast<size_t>(count));
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t n = 0; n < count; ++n) {
        const std::span<const float> logits = stack_row(stack, n);
        Mask& mask = masks[static_cast<size_t>(n)];
        mask = Mask(static_cast<int>(stack.dim(2)), static_cast<int>(stack.dim(1)));
        std::transform(logits.begin(), logits.end(), mask.data.begin(),
                       [](float logit) { return static_cast<uint8_t>(logit > 0); });
    }
    return masks;
}

std::vector<int> kept_detections(std::span<const float> scores, const Tensor& stack, float threshold, float nms) {
    std::vector<int> kept;
    for (size_t i = 0; i < scores.size(); ++i)
        if (scores[i] > threshold) kept.push_back(static_cast<int>(i));
    if (nms <= 0 || kept.empty()) return kept;
    const std::vector<Mask> all = inside(stack);
    std::vector<Mask> masks;
    std::vector<float> strengths;
    for (const int i : kept) {
        masks.push_back(all[static_cast<size_t>(i)]);
        strengths.push_back(scores[static_cast<size_t>(i)]);
    }
    std::vector<int> survivors;
    for (const int i : nms_masks(masks, strengths, nms)) survivors.push_back(kept[static_cast<size_t>(i)]);
    std::sort(survivors.begin(), survivors.end());
    return survivors;
}

void clean_up(const Tensor& stack, int64_t max_area, int threads) {
    const int64_t count = stack_size(stack);
    if (max_area <= 0 || count == 0) return;
    const auto width = static_cast<int>(stack.dim(2));
    const auto height = static_cast<int>(stack.dim(1));
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (count > 1)
    for (int64_t n = 0; n < count; ++n) {
        fill_holes_in_logits(stack_row(stack, n), width, height, max_area);
        remove_sprinkles_in_logits(stack_row(stack, n), width, height, max_area);
    }
}

Tensor without_shrunken(const Tensor& stack, std::span<const int> groups, int threads) {
    std::vector<uint8_t> shrunken(groups.size(), 0);
    for (const auto& [group, members] : members_of(groups)) {
        if (members.size() < 2) continue;
        const Areas areas = compete(stack, members, threads);
        for (size_t m = 0; m < members.size(); ++m) {
            const auto before = static_cast<float>(std::max<int64_t>(areas.all[m], 1));
            shrunken[members[m]] = static_cast<float>(areas.kept[m]) / before < kLeastShare ? 1 : 0;
        }
    }
    if (std::find(shrunken.begin(), shrunken.end(), 1) == shrunken.end()) return stack;
    Tensor result = Tensor::host(stack.shape());
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < shrunken.size(); ++i) {
        const std::span<const float> from = stack_row(stack, static_cast<int64_t>(i));
        const float most = shrunken[i] != 0 ? kOutside : std::numeric_limits<float>::infinity();
        std::transform(from.begin(), from.end(), stack_row(result, static_cast<int64_t>(i)).begin(),
                       [&](float logit) { return std::min(logit, most); });
    }
    return result;
}

namespace {

// A range of pixels of one group's masks, the best one first.
void separate(std::span<Mask> masks, std::span<const float> scores, const std::vector<size_t>& order, size_t begin,
              size_t count) {
    uint8_t taken[kBlock] = {};
    for (const size_t m : order) {
        const uint8_t counts = scores[m] > 0 ? 1 : 0;
        uint8_t* const own = masks[m].data.data() + begin;
        for (size_t i = 0; i < count; ++i) {  // bits, without a branch: the compiler takes many at a time
            own[i] = static_cast<uint8_t>(own[i] & counts & (taken[i] ^ 1U));
            taken[i] |= own[i];
        }
    }
}

}  // namespace

void separate(std::span<Mask> masks, std::span<const float> scores, std::span<const int> groups, int threads) {
    if (masks.size() != scores.size() || masks.size() != groups.size())
        fail("expected a score and a group for each of ", masks.size(), " masks, found ", scores.size(), " and ",
             groups.size());
    for (const auto& [group, members] : members_of(groups)) {
        std::vector<size_t> order = members;
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
        const size_t pixels = masks[members.front()].data.size();
        constexpr auto kSome = static_cast<size_t>(kBlock);
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (size_t begin = 0; begin < pixels; begin += kSome)
            separate(masks, scores, order, begin, std::min(kSome, pixels - begin));
    }
}

}  // namespace sam3
