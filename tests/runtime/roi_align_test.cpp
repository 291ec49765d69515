#include "support/operator_goldens.h"
#include "util/error.h"

#include <chrono>

namespace sam3 {
namespace {

using namespace sam3::test;

Tensor boxes_of(const std::vector<float>& list) {
    Tensor tensor = Ops(cpu(), 1).empty({static_cast<int64_t>(list.size()) / 5, 5});
    std::copy(list.begin(), list.end(), tensor.data<float>());
    return tensor;
}

// The value between four pixels; zero beyond one pixel outside the map, the border's value up to there.
double sample(const Tensor& x, int64_t n, float y, float column, int64_t c) {
    const int64_t height = x.dim(1);
    const int64_t width = x.dim(2);
    if (y < -1 || y > static_cast<float>(height) || column < -1 || column > static_cast<float>(width)) return 0;
    const double row = std::clamp(static_cast<double>(y), 0.0, static_cast<double>(height - 1));
    const double col = std::clamp(static_cast<double>(column), 0.0, static_cast<double>(width - 1));
    double sum = 0;
    for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
            const double weight = std::max(0.0, 1 - std::abs(row - static_cast<double>(i))) *
                                  std::max(0.0, 1 - std::abs(col - static_cast<double>(j)));
            if (weight > 0) sum += weight * static_cast<double>(at(x, ((n * height + i) * width + j) * x.dim(3) + c));
        }
    return sum;
}

struct Options {
    int64_t height, width;
    float scale;
    int ratio;
    bool aligned;
};

double plain_bin(const Tensor& x, const float* box, const Options& o, int64_t by, int64_t bx, int64_t c) {
    const float offset = o.aligned ? 0.5F : 0.0F;
    const float left = box[1] * o.scale - offset;
    const float top = box[2] * o.scale - offset;
    float width = box[3] * o.scale - offset - left;
    float height = box[4] * o.scale - offset - top;
    if (!o.aligned) {
        width = std::max(width, 1.0F);
        height = std::max(height, 1.0F);
    }
    const float bin_w = width / static_cast<float>(o.width);
    const float bin_h = height / static_cast<float>(o.height);
    const int ny = o.ratio > 0 ? o.ratio : static_cast<int>(std::ceil(bin_h));
    const int nx = o.ratio > 0 ? o.ratio : static_cast<int>(std::ceil(bin_w));
    double sum = 0;
    for (int i = 0; i < ny; ++i)
        for (int j = 0; j < nx; ++j)
            sum += sample(
                x, static_cast<int64_t>(box[0]),
                top + static_cast<float>(by) * bin_h + (static_cast<float>(i) + 0.5F) * bin_h / static_cast<float>(ny),
                left + static_cast<float>(bx) * bin_w + (static_cast<float>(j) + 0.5F) * bin_w / static_cast<float>(nx),
                c);
    return sum / std::max(nx * ny, 1);
}

TEST(RoiAlign, EqualsPlainSamplingOnRandomBoxes) {
    for (const Options& o : {Options{7, 7, 1, -1, false}, Options{3, 2, 0.5F, -1, true}, Options{2, 5, 1, 2, true}}) {
        const Tensor x = random_strided({2, 12, 15, 5}, 1);
        const Tensor corners = random_tensor({9, 4}, 2, -6, 30);
        Tensor boxes = boxes_of(std::vector<float>(45));
        for (int64_t k = 0; k < 9; ++k) {
            float* box = boxes.data<float>() + 5 * k;
            box[0] = static_cast<float>(k % 2);
            for (int64_t i = 0; i < 2; ++i) {
                const auto [low, high] = std::minmax({at(corners, 4 * k + i), at(corners, 4 * k + i + 2)});
                box[1 + i] = low;
                box[3 + i] = high;
            }
        }
        const Tensor y = run_with_threads(
            [&](Ops& ops) { return ops.roi_align(x, boxes, o.height, o.width, o.scale, o.ratio, o.aligned); });
        Tensor expected = Tensor::host(y.shape());
        for (int64_t i = 0; i < y.numel(); ++i)
            expected.data<float>()[i] =
                static_cast<float>(plain_bin(x, boxes.data<float>() + 5 * (i / 5 / o.width / o.height), o,
                                             i / 5 / o.width % o.height, i / 5 % o.width, i % 5));
        expect_close(y, expected, 3e-6);
    }
}

TEST(RoiAlign, EqualsTheReferenceInsideOutsideAndForEmptyBoxes) {
    const Tensor x = golden_input({2, 20, 24, 3}, 100);
    for (const OperatorGolden& golden : operator_goldens("roi_align")) {
        const Tensor boxes = boxes_of({golden.parameters.begin() + 5, golden.parameters.end()});
        const Tensor y = run_with_threads([&](Ops& ops) {
            return ops.roi_align(x, boxes, golden.integer(0), golden.integer(1), golden.real(2), golden.integer(3),
                                 golden.integer(4) != 0);
        });
        SCOPED_TRACE(golden.integer(0));
        expect_golden(y, golden, 2e-6);
    }
}

TEST(RoiAlign, DoesNotDependOnTheNumberOfThreadsForManyChannels) {
    const Tensor x = random_tensor({1, 72, 72, 64}, 1);
    const Tensor boxes = boxes_of({0, 0, 0, 72, 72, 0, 10, 20, 13, 24, 0, 50.5F, 3, 90, 71});
    run_with_threads([&](Ops& ops) { return ops.roi_align(x, boxes, 7, 7); });
}

// torchvision would visit every sample of such a box.
TEST(RoiAlign, AnswersHugeBoxesAtOnce) {
    Ops ops(cpu(), 1);
    const Tensor x = ops.full({1, 8, 8, 1}, 1);
    const auto start = std::chrono::steady_clock::now();
    const Tensor y =
        ops.roi_align(x, boxes_of({0, -1e9F, -1e9F, 1e9F, 1e9F, 0, 0, 0, 3e38F, 3e38F}), 2, 2, 1, -1, true);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(at(y, i), 0.0F, 1e-6F);
    // Wide enough for the shortcut, small enough to count by hand: of 1024 samples a side, 9 (0 to 8) lie on [-1, 8].
    const Tensor z = ops.roi_align(x, boxes_of({0, 0, 0, 1024, 1024}), 1, 1, 1, -1, true);
    EXPECT_NEAR(at(z, 0), 81.0F / 1024 / 1024, 1e-9F);
}

TEST(RoiAlign, PassesNanBoxesOnAndRefusesAnImageOutsideTheBatch) {
    Ops ops(cpu(), 1);
    const Tensor x = random_tensor({2, 8, 8, 3}, 1);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor y = ops.roi_align(x, boxes_of({0, nan, 1, 2, 2, 1, 1, 1, 2, 2}), 2, 2);
    for (int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(std::isnan(at(y, i)), i < 12);
    for (float bad : {-1.0F, 2.0F, nan}) EXPECT_THROW(ops.roi_align(x, boxes_of({bad, 0, 0, 1, 1}), 2, 2), Error);
}

}  // namespace
}  // namespace sam3
