#include "runtime/tensor.h"

#include "util/error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <vector>

namespace sam3 {
namespace {

Tensor counting(const Shape& shape) {
    Tensor tensor = Tensor::host(shape);
    std::iota(tensor.data<float>(), tensor.data<float>() + tensor.numel(), 0.0F);
    return tensor;
}

float first(const Tensor& tensor) { return tensor.data<float>()[0]; }

TEST(Tensor, IsDenseWhenMade) {
    const Tensor t = counting({2, 3, 4});
    EXPECT_TRUE(t.is_dense());
    EXPECT_EQ(t.strides(), Shape({12, 4, 1}));
    EXPECT_EQ(t.rows(), 6);
    EXPECT_EQ(t.row_stride(), 4);
    EXPECT_EQ(t.device(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0U);
    EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, SliceSharesMemoryAndKeepsStrides) {
    const Tensor t = counting({2, 3, 4});
    const Tensor middle = t.slice(1, 1, 2);
    EXPECT_EQ(middle.shape(), Shape({2, 2, 4}));
    EXPECT_EQ(middle.strides(), t.strides());
    EXPECT_EQ(first(middle), 4.0F);
    EXPECT_FALSE(middle.is_dense());
    EXPECT_EQ(middle.buffer(), t.buffer());
    EXPECT_EQ(first(t.slice(-1, 3, 1)), 3.0F);
    EXPECT_EQ(t.slice(0, 2, 0).numel(), 0);
}

TEST(Tensor, SliceOutsideTheShapeFails) {
    const Tensor t = counting({2, 3});
    EXPECT_THROW(t.slice(0, 1, 2), Error);
    EXPECT_THROW(t.slice(0, -1, 1), Error);
    EXPECT_THROW(t.slice(2, 0, 1), Error);
    EXPECT_THROW(t.slice(1, 0, -1), Error);
}

TEST(Tensor, SelectDropsADimension) {
    const Tensor t = counting({2, 3, 4});
    const Tensor row = t.select(1, 2);
    EXPECT_EQ(row.shape(), Shape({2, 4}));
    EXPECT_EQ(row.strides(), Shape({12, 1}));
    EXPECT_EQ(first(row), 8.0F);
    EXPECT_THROW(t.select(2, 0), Error);
    EXPECT_THROW(t.select(0, 2), Error);
}

TEST(Tensor, ReshapeOfDenseTensorsInfersOneSize) {
    const Tensor t = counting({2, 3, 4});
    EXPECT_EQ(t.reshape({-1, 4}).shape(), Shape({6, 4}));
    EXPECT_EQ(t.reshape({4, 6}).strides(), Shape({6, 1}));
    EXPECT_THROW(t.reshape({5, 5}), Error);
    EXPECT_THROW(t.reshape({-1, 5}), Error);
}

TEST(Tensor, ReshapeOfStridedViewsWorksWhereNoCopyIsNeeded) {
    const Tensor t = counting({2, 6, 4});
    const Tensor columns = t.slice(2, 1, 2);  // rows of one stride, cut
    EXPECT_EQ(columns.reshape({12, 2}).strides(), Shape({4, 1}));
    EXPECT_EQ(columns.reshape({2, 2, 3, 2}).strides(), Shape({24, 12, 4, 1}));
    EXPECT_EQ(columns.reshape({2, 6, 1, 2}).shape(), Shape({2, 6, 1, 2}));

    const Tensor rows = t.slice(1, 0, 3);  // a gap between the outer rows
    EXPECT_EQ(rows.reshape({2, 12}).strides(), Shape({24, 1}));
    EXPECT_THROW(rows.reshape({6, 4}), Error);
    EXPECT_THROW(columns.reshape({24}), Error);
}

TEST(Tensor, ExpandRepeatsWithoutCopying) {
    const Tensor t = counting({1, 3});
    const Tensor wide = t.expand(0, 5);
    EXPECT_EQ(wide.shape(), Shape({5, 3}));
    EXPECT_EQ(wide.stride(0), 0);
    EXPECT_FALSE(wide.is_dense());
    EXPECT_THROW(t.expand(1, 5), Error);
    EXPECT_EQ(t.expand(1, 3).shape(), t.shape());
}

TEST(Tensor, UnsqueezeKeepsDenseTensorsDense) {
    const Tensor t = counting({2, 3});
    EXPECT_EQ(t.unsqueeze(0).shape(), Shape({1, 2, 3}));
    EXPECT_EQ(t.unsqueeze(1).shape(), Shape({2, 1, 3}));
    EXPECT_EQ(t.unsqueeze(-1).shape(), Shape({2, 3, 1}));
    EXPECT_TRUE(t.unsqueeze(1).is_dense());
    EXPECT_THROW(t.unsqueeze(3), Error);
}

TEST(Tensor, KnowsWhetherItsRowsHaveOneStride) {
    const Tensor t = counting({2, 6, 4});
    EXPECT_TRUE(t.has_uniform_rows());
    EXPECT_TRUE(t.slice(2, 0, 2).has_uniform_rows());
    EXPECT_EQ(t.slice(2, 0, 2).row_stride(), 4);
    EXPECT_FALSE(t.slice(1, 0, 3).has_uniform_rows());
    EXPECT_TRUE(t.slice(1, 0, 1).has_uniform_rows());
    EXPECT_EQ(t.slice(1, 0, 1).row_stride(), 24);
    EXPECT_TRUE(t.slice(0, 0, 1).slice(1, 2, 3).has_uniform_rows());
    EXPECT_FALSE(t.slice(0, 0, 1).expand(0, 3).has_uniform_rows());
    EXPECT_TRUE(counting({5}).has_uniform_rows());
}

TEST(Tensor, WrappedMemoryKeepsItsOwner) {
    auto owner = std::make_shared<std::vector<float>>(6, 2.5F);
    const std::weak_ptr<std::vector<float>> watch = owner;
    Tensor t = Tensor::wrap_host(owner->data(), {2, 3}, DType::f32, owner);
    owner.reset();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(first(t.slice(0, 1, 1)), 2.5F);
    t = Tensor();
    EXPECT_TRUE(watch.expired());
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
TEST(Tensor, LargeHostTensorsGoBackToTheSystem) {
    const auto resident_pages = [] {
        std::ifstream file("/proc/self/statm");
        int64_t all = 0;
        int64_t resident = 0;
        file >> all >> resident;
        return resident;
    };
    const int64_t before = resident_pages();
    std::vector<Tensor> small;  // between the large ones, as a network's norms are between its matrices
    for (int i = 0; i < 16; ++i) {
        const Tensor a = counting({1 << 20});
        small.push_back(counting({16}));
        const Tensor b = counting({3 << 20});
        small.push_back(counting({16}));
    }
    EXPECT_LT(resident_pages() - before, 1024);  // 4 MiB
}
#endif

TEST(Tensor, PrintsItsShape) { EXPECT_EQ(to_string(Shape({1, 72, 72, 256})), "[1, 72, 72, 256]"); }

}  // namespace
}  // namespace sam3
