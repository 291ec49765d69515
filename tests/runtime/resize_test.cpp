#include "support/operator_goldens.h"
#include "util/error.h"

#include <array>

namespace sam3 {
namespace {

using namespace sam3::test;

double pixel(const Tensor& x, int64_t n, int64_t y, int64_t column, int64_t c) {
    return static_cast<double>(at(x, ((n * x.dim(1) + y) * x.dim(2) + column) * x.dim(3) + c));
}

// Weight of input pixel `i` in output pixel `o`, from the definition.
double weight(int64_t in, int64_t out, int64_t o, int64_t i, bool antialias) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double width = antialias ? std::max(scale, 1.0) : 1.0;
    double center = scale * (static_cast<double>(o) + 0.5) - 0.5;
    if (!antialias) center = std::clamp(center, 0.0, static_cast<double>(in - 1));
    const auto triangle = [&](int64_t at) {
        return std::max(0.0, 1 - std::abs(static_cast<double>(at) - center) / width);
    };
    double sum = 0;
    for (int64_t k = 0; k < in; ++k) sum += triangle(k);
    return triangle(i) / sum;
}

Tensor plain_bilinear(const Tensor& x, int64_t height, int64_t width, bool antialias) {
    Tensor out = Tensor::host({x.dim(0), height, width, x.dim(3)});
    float* to = out.data<float>();
    for (int64_t n = 0; n < x.dim(0); ++n)
        for (int64_t y = 0; y < height; ++y)
            for (int64_t column = 0; column < width; ++column)
                for (int64_t c = 0; c < x.dim(3); ++c) {
                    double sum = 0;
                    for (int64_t i = 0; i < x.dim(1); ++i) {
                        const double down = weight(x.dim(1), height, y, i, antialias);
                        if (down == 0) continue;
                        for (int64_t j = 0; j < x.dim(2); ++j)
                            sum += down * weight(x.dim(2), width, column, j, antialias) * pixel(x, n, i, j, c);
                    }
                    *to++ = static_cast<float>(sum);
                }
    return out;
}

constexpr std::array<std::array<int64_t, 5>, 10> kSizes = {{{1, 1, 1, 1, 1},
                                                            {1, 1, 6, 5, 3},
                                                            {6, 5, 1, 1, 2},
                                                            {3, 4, 7, 9, 1},
                                                            {9, 7, 4, 3, 17},
                                                            {8, 8, 16, 16, 4},
                                                            {16, 16, 8, 8, 1},
                                                            {5, 20, 20, 5, 2},
                                                            {11, 6, 11, 13, 3},
                                                            {6, 11, 13, 11, 1}}};

TEST(Resize, BilinearEqualsItsDefinition) {
    for (const auto& [h, w, ho, wo, c] : kSizes)
        for (bool antialias : {false, true}) {
            const Tensor x = random_strided({2, h, w, c}, 1);
            const Tensor y = run_with_threads([&, height = ho, width = wo](Ops& ops) {
                return ops.resize(x, height, width, Interpolation::bilinear, antialias);
            });
            expect_close(y, plain_bilinear(x, ho, wo, antialias), 2e-6);
        }
}

TEST(Resize, EqualsTheReferenceOnOddSizes) {
    Ops ops(cpu(), 2);
    const std::array<std::pair<const char*, double>, 3> modes = {
        {{"nearest", 0.0}, {"bilinear", 1e-6}, {"antialias", 1e-6}}};
    for (const auto& [name, tolerance] : modes)
        for (const OperatorGolden& golden : operator_goldens(name)) {
            const Shape shape{golden.integer(1), golden.integer(2), golden.integer(3), golden.integer(4)};
            const Tensor x = golden_input(shape, golden.integer(0));
            const std::string mode = name;
            SCOPED_TRACE(mode + " " + to_string(shape) + " to " + std::to_string(golden.integer(5)) + " x " +
                         std::to_string(golden.integer(6)));
            const Tensor y =
                ops.resize(x, golden.integer(5), golden.integer(6),
                           mode == "nearest" ? Interpolation::nearest : Interpolation::bilinear, mode == "antialias");
            expect_golden(y, golden, tolerance, golden.integer(7));
        }
}

TEST(Resize, NearestTakesTheReferencesPixelAlongEachAxis) {
    Ops ops(cpu(), 1);
    for (const OperatorGolden& golden : operator_goldens("nearest_axis")) {
        const int64_t in = golden.integer(0);
        const int64_t out = golden.integer(1);
        Tensor ramp = ops.empty({in});
        for (int64_t i = 0; i < in; ++i) ramp.data<float>()[i] = static_cast<float>(i);
        expect_golden(ops.resize(ramp.reshape({1, 1, in, 1}), 1, out, Interpolation::nearest), golden, 0);
        expect_golden(ops.resize(ramp.reshape({1, in, 1, 1}), out, 1, Interpolation::nearest), golden, 0);
    }
}

TEST(Resize, NearestRepeatsWholePixels) {
    constexpr int64_t kChannels = 17;
    const Tensor x = random_strided({2, 7, 9, kChannels}, 3);
    const Tensor y = run_with_threads([&](Ops& ops) { return ops.resize(x, 28, 45, Interpolation::nearest); });
    for (int64_t i = 0; i < y.numel(); ++i) {
        const int64_t column = i / kChannels % 45;
        const int64_t row = i / kChannels / 45;
        ASSERT_EQ(static_cast<double>(at(y, i)), pixel(x, row / 28, row % 28 / 4, column / 5, i % kChannels));
    }
}

TEST(Resize, AddsWhatItIsGiven) {
    for (const auto& [h, w, ho, wo, c] : kSizes)
        for (Interpolation mode : {Interpolation::nearest, Interpolation::bilinear}) {
            const Tensor x = random_strided({2, h, w, c}, 6);
            for (int64_t batch : {2, 1}) {
                const Tensor added = random_strided({batch, ho, wo, c}, 7);
                const Tensor y = run_with_threads([&, m = mode](Ops& ops) { return ops.resize_and_add(x, added, m); });
                Ops ops(cpu(), 1);
                expect_equal(y, ops.add(ops.resize(x, ho, wo, mode), added));
            }
        }
}

TEST(Resize, RefusesToAddAnotherBatchOrOtherChannels) {
    Ops ops(cpu(), 1);
    const Tensor x = ops.full({2, 3, 3, 4}, 0);
    for (const Shape& shape : {Shape{3, 6, 6, 4}, Shape{2, 6, 6, 1}, Shape{6, 6, 4}})
        EXPECT_THROW(ops.resize_and_add(x, ops.full(shape, 0), Interpolation::nearest), Error);
}

TEST(Resize, DoesNotDependOnTheNumberOfThreads) {
    for (int64_t channels : {1, 24})
        for (bool antialias : {false, true}) {
            const Tensor x = random_tensor({2, 61, 47, channels}, 4);
            run_with_threads([&](Ops& ops) { return ops.resize(x, 190, 133, Interpolation::bilinear, antialias); });
            run_with_threads([&](Ops& ops) { return ops.resize(x, 30, 29, Interpolation::bilinear, antialias); });
        }
}

TEST(Resize, KeepsAConstantImageAndTheSameSize) {
    Ops ops(cpu(), 1);
    for (bool antialias : {false, true}) {
        const Tensor y = ops.resize(ops.full({1, 37, 5, 2}, 3), 11, 50, Interpolation::bilinear, antialias);
        for (int64_t i = 0; i < y.numel(); ++i) ASSERT_NEAR(at(y, i), 3.0F, 1e-6F);
        const Tensor x = random_tensor({1, 9, 7, 3}, 5);
        expect_equal(ops.resize(x, 9, 7, Interpolation::bilinear, antialias), x);
    }
}

TEST(Resize, RefusesOtherTypes) {
    Ops ops(cpu(), 1);
    EXPECT_THROW(ops.resize(ops.full({1, 2, 2, 1}, 0, DType::u8), 4, 4, Interpolation::nearest), Error);
}

}  // namespace
}  // namespace sam3
