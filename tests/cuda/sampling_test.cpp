#include "cuda/both_devices.h"

#include <initializer_list>

namespace sam3 {
namespace {

using test::compare;
using test::kExact;
using test::kFloatTypes;
using test::Layout;
using test::Side;
using test::tolerance_of;

class GpuSampling : public test::OnGpu {};
class GpuIndexing : public test::OnGpu {};

// The same small f32 tensor on either device.
Tensor constant(Ops& ops, const Shape& shape, std::initializer_list<float> values) {
    Tensor host = Tensor::host(shape);
    std::copy(values.begin(), values.end(), host.data<float>());
    return ops.upload(host);
}

TEST_F(GpuSampling, ResizingEqualsTheCpus) {
    struct Case {
        Shape shape;
        int64_t height, width;
    };
    const Case cases[] = {{{1, 7, 9, 16}, 14, 18}, {{2, 14, 10, 3}, 5, 9},    {{1, 288, 288, 1}, 1008, 1008},
                          {{1, 5, 5, 8}, 5, 11},   {{1, 100, 60, 4}, 7, 60},  {{2, 1, 1, 5}, 3, 4},
                          {{1, 97, 53, 1}, 13, 7}, {{1, 36, 36, 64}, 72, 72}, {{1, 256, 256, 4}, 1008, 672}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps}) {
                const auto resized = [&](double tolerance, Interpolation mode, bool antialias) {
                    compare({{c.shape, type, layout}}, tolerance, [&](const Side& side) {
                        return side.ops.resize(side[0], c.height, c.width, mode, antialias);
                    });
                };
                resized(kExact, Interpolation::nearest, false);
                resized(tolerance_of(type), Interpolation::bilinear, false);
                resized(tolerance_of(type), Interpolation::bilinear, true);
            }
}

TEST_F(GpuSampling, ResizedSumsEqualTheCpus) {
    struct Case {
        Shape shape;
        int64_t height, width;
    };
    const Case cases[] = {{{1, 36, 36, 256}, 72, 72}, {{2, 7, 9, 16}, 14, 18}, {{2, 7, 9, 24}, 20, 25},
                          {{2, 14, 10, 4}, 5, 9},     {{1, 5, 5, 8}, 5, 11},   {{2, 3, 4, 3}, 9, 8},
                          {{1, 2, 300, 1032}, 3, 601}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps})
                for (Interpolation mode : {Interpolation::nearest, Interpolation::bilinear})
                    for (int64_t batch : {c.shape[0], int64_t{1}})
                        compare({{c.shape, type, layout}, {{batch, c.height, c.width, c.shape[3]}, type, layout}},
                                tolerance_of(type),
                                [&](const Side& side) { return side.ops.resize_and_add(side[0], side[1], mode); });
}

// Whole numbers, so that no value comes so near to the threshold that the last bit of a sum decides.
TEST_F(GpuSampling, ResizedMasksEqualTheCpus) {
    struct Case {
        Shape shape;
        int64_t height, width;
    };
    const Case cases[] = {{{3, 288, 288}, 1008, 1008}, {{2, 288, 288}, 427, 640}, {{1, 288, 288}, 480, 333},
                          {{3, 5, 7}, 6, 9},           {{2, 40, 30}, 41, 31},     {{1, 1, 1}, 5, 8},
                          {{1, 64, 100}, 64, 200},     {{1, 100, 64}, 200, 64},   {{2, 90, 80}, 45, 41},
                          {{2, 3, 4}, 70, 100}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            compare({{c.shape, DType::i32, Layout::gaps, -9, 9}}, kExact, [&](const Side& side) {
                return side.ops.resize_above(side.ops.cast(side[0], side.type(type)), c.height, c.width, 0.4321F);
            });
}

TEST_F(GpuSampling, MaxPoolEqualsTheCpus) {
    struct Case {
        Shape shape;
        int kernel, stride;
    };
    const Case cases[] = {{{1, 72, 72, 64}, 2, 2}, {{2, 9, 7, 5}, 3, 2}, {{1, 4, 4, 8}, 4, 1}, {{2, 5, 6, 3}, 1, 3}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            compare({{c.shape, type, Layout::gaps}}, kExact,
                    [&](const Side& side) { return side.ops.max_pool(side[0], c.kernel, c.stride); });
}

TEST_F(GpuSampling, GridSampleEqualsTheCpus) {
    for (const Shape& shape : {Shape{2, 9, 13, 8}, Shape{1, 72, 72, 256}, Shape{3, 1, 4, 5}})
        for (DType type : kFloatTypes)
            compare({{shape, type}, {{shape[0], 50, 2}, DType::f32, Layout::dense, -1.3F, 1.3F}}, tolerance_of(type),
                    [](const Side& side) { return side.ops.grid_sample(side[0], side[1]); });
}

TEST_F(GpuSampling, RoiAlignEqualsTheCpus) {
    // Ordinary boxes, whole pixels, one beyond every border, one without area, one absurdly large.
    const auto boxes = [](Ops& ops) {
        return constant(ops, {6, 5}, {0, 1.3F, 2.7F, 9.1F, 8.2F, 1, 0,  0,  14, 14, 0, -30,   -9,    60,   50,
                                      1, 5,    5,    5,    5,    0, 20, 20, 30, 30, 1, -1e6F, -1e6F, 1e6F, 1e6F});
    };
    for (int64_t channels : {3, 16})
        for (DType type : kFloatTypes)
            for (int ratio : {-1, 2})
                for (bool aligned : {false, true})
                    for (float scale : {1.0F, 0.37F})
                        compare({{{2, 14, 16, channels}, type}}, tolerance_of(type), [&](const Side& side) {
                            return side.ops.roi_align(side[0], boxes(side.ops), 7, 5, scale, ratio, aligned);
                        });
}

TEST_F(GpuIndexing, EmbeddingEqualsTheCpus) {
    for (DType type : kFloatTypes)
        for (int64_t channels : {1, 5, 64})
            compare({{{40, channels}, type, Layout::part}, {{3, 9}, DType::i32, Layout::dense, 0, 40}}, kExact,
                    [](const Side& side) { return side.ops.embedding(side[0], side[1]); });
}

TEST_F(GpuIndexing, GatheredRowsEqualTheCpus) {
    for (DType type : kFloatTypes)
        for (Layout layout : {Layout::dense, Layout::gaps, Layout::part, Layout::repeated})
            for (int64_t channels : {3, 64})
                compare({{{4, 11, channels}, type, layout}, {{4, 6}, DType::i32, Layout::gaps, 0, 11}}, kExact,
                        [](const Side& side) { return side.ops.gather_rows(side[0], side[1]); });
}

TEST_F(GpuIndexing, TopkEqualsTheCpus) {
    struct Case {
        int64_t columns, k;
    };
    for (const Case& c : {Case{1, 1}, Case{7, 3}, Case{200, 200}, Case{1000, 10}, Case{4096, 300}, Case{5184, 40}})
        for (float high : {1e4F, 20.0F}) {  // few whole numbers: many ties
            const std::vector<test::Input> inputs = {{{3, c.columns}, DType::i32, Layout::dense, -high, high}};
            const auto found = [&](const Side& side) { return side.ops.topk(side.ops.cast(side[0], DType::f32), c.k); };
            compare(inputs, kExact, [&](const Side& side) { return found(side).first; });
            compare(inputs, kExact, [&](const Side& side) { return found(side).second; });
        }
}

TEST_F(GpuIndexing, TopkPutsNanLastAndTakesZerosAsEqual) {
    const float nan = std::nanf("");
    const auto found = [&](const Side& side) {
        return side.ops.topk(constant(side.ops, {1, 8}, {-0.0F, nan, 0.0F, -3, INFINITY, nan, -INFINITY, 0.0F}), 8);
    };
    compare({}, kExact, [&](const Side& side) { return found(side).first; });
    compare({}, kExact, [&](const Side& side) { return found(side).second; });
}

TEST_F(GpuSampling, ResamplingEqualsTheCpus) {
    for (const int64_t inner : {1, 3, 64, 3024})
        for (const int64_t taps : {1, 4, 12})
            compare({{{3, 40, inner}, DType::u8, Layout::gaps, 0, 255}}, kExact, [&](const Side& side) {
                constexpr int64_t kPlaces = 25;
                Tensor first = Tensor::host({kPlaces}, DType::i32);
                Tensor weights = Tensor::host({kPlaces, taps}, DType::i32);
                for (int64_t i = 0; i < kPlaces; ++i) {
                    first.data<int32_t>()[i] = static_cast<int32_t>(i * 39 / (kPlaces - 1));
                    for (int64_t j = 0; j < taps; ++j)
                        weights.data<int32_t>()[i * taps + j] = static_cast<int32_t>((i * 7 + j * 5) % 90 - 20);
                }
                return side.ops.resample(side[0], side.ops.upload(first), side.ops.upload(weights), 6);
            });
}

}  // namespace
}  // namespace sam3
