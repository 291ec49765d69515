#include "support/operator_goldens.h"
#include "util/error.h"

#include <functional>
#include <numeric>

namespace sam3 {
namespace {

using namespace sam3::test;

Tensor ids(const Shape& shape, const std::vector<int32_t>& list) {
    Tensor tensor = Ops(cpu(), 1).empty(shape, DType::i32);
    std::copy(list.begin(), list.end(), tensor.data<int32_t>());
    return tensor;
}

Tensor random_ids(const Shape& shape, int32_t size, unsigned seed) {
    std::vector<int32_t> list(static_cast<size_t>(shape.numel()));
    std::mt19937 generator(seed);
    for (int32_t& id : list) id = static_cast<int32_t>(generator() % static_cast<unsigned>(size));
    return ids(shape, list);
}

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(Embedding, TakesRowsOfDenseAndStridedTables) {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{2, 3}, Shape{2, 3, 5}, Shape{700}})
        for (int64_t channels : {1, 3, 64}) {
            const Tensor table = random_strided({11, channels}, 1);
            const Tensor rows = random_ids(shape, 11, 2);
            const Tensor y = run_with_threads([&](Ops& ops) { return ops.embedding(table, rows); });
            ASSERT_EQ(y.rank(), shape.rank() + 1);
            for (int64_t i = 0; i < y.numel(); ++i)
                ASSERT_EQ(at(y, i), at(table, rows.data<int32_t>()[i / channels] * channels + i % channels));
        }
}

TEST(Embedding, WidensHalfTables) {
    Ops ops(cpu(), 1);
    const Tensor table = random_tensor({5, 9}, 1);
    const Tensor rows = ids({3}, {4, 0, 4});
    for (DType type : {DType::f16, DType::bf16}) {
        const Tensor narrow = ops.cast(table, type);
        expect_equal(ops.embedding(narrow, rows), ops.embedding(ops.cast(narrow, DType::f32), rows));
    }
    EXPECT_THROW(ops.embedding(ops.cast(table, DType::u8), rows), Error);
}

TEST(Embedding, NamesAnIdOutsideTheTable) {
    Ops ops(cpu(), 2);
    const Tensor table = random_tensor({11, 4}, 1);
    for (int32_t bad : {-1, 11, INT32_MAX}) {
        const std::string message = message_of([&] { ops.embedding(table, ids({3}, {0, 10, bad})); });
        EXPECT_NE(message.find(std::to_string(bad)), std::string::npos) << message;
        EXPECT_NE(message.find("11 rows"), std::string::npos) << message;
    }
}

TEST(GatherRows, TakesRowsOfEachBatch) {
    for (int64_t count : {1, 6, 300})
        for (int64_t channels : {1, 5, 130})
            for (bool strided : {false, true}) {
                const Shape shape{3, 8, channels};
                const Tensor x = strided ? random_strided(shape, 1) : random_tensor(shape, 1);
                const Tensor rows = random_ids({3, count}, 8, 2);
                const Tensor y = run_with_threads([&](Ops& ops) { return ops.gather_rows(x, rows); });
                for (int64_t i = 0; i < y.numel(); ++i) {
                    const int64_t row = i / channels;
                    const int64_t source = row / count * 8 + rows.data<int32_t>()[row];
                    ASSERT_EQ(at(y, i), at(x, source * channels + i % channels));
                }
            }
}

TEST(GatherRows, NamesAnIdOutsideTheInput) {
    Ops ops(cpu(), 1);
    const Tensor x = random_tensor({2, 8, 4}, 1);
    const std::string message = message_of([&] { ops.gather_rows(x, ids({2, 1}, {0, 8})); });
    EXPECT_NE(message.find("id 8"), std::string::npos) << message;
    EXPECT_NE(message.find("8 rows"), std::string::npos) << message;
}

// A stable sort is the definition: largest first, equal values in their order, NaN at the end.
std::vector<int32_t> sorted_order(const Tensor& x, int64_t row) {
    const int64_t size = x.dim(1);
    std::vector<int32_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
        const float a = at(x, row * size + i);
        const float b = at(x, row * size + j);
        if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
        return a > b;
    });
    return order;
}

void check_topk(const Tensor& x, int64_t k) {
    for (int threads : {1, 2, 3}) {
        const auto [top, indices] = Ops(cpu(), threads).topk(x, k);
        ASSERT_EQ(to_string(indices.shape()), to_string(Shape{x.dim(0), k}));
        for (int64_t r = 0; r < x.dim(0); ++r) {
            const std::vector<int32_t> order = sorted_order(x, r);
            for (int64_t i = 0; i < k; ++i) {
                const int32_t expected = order[static_cast<size_t>(i)];
                ASSERT_EQ(indices.data<int32_t>()[r * k + i], expected) << "row " << r << ", place " << i;
                const float value = at(x, r * x.dim(1) + expected);
                ASSERT_TRUE(at(top, r * k + i) == value || std::isnan(value));
            }
        }
    }
}

TEST(Topk, EqualsAStableSort) {
    check_topk(random_tensor({1, 1}, 1), 1);
    check_topk(random_tensor({3, 7}, 2), 7);
    check_topk(random_tensor({4, 500}, 3), 20);
    check_topk(random_tensor({90, 500}, 3), 1);
    check_topk(random_strided({5, 33}, 4), 8);
    EXPECT_EQ(Ops(cpu(), 1).topk(random_tensor({2, 5}, 1), 0).first.numel(), 0);
}

TEST(Topk, OrdersTiesByIndexAndPutsNanLast) {
    Tensor x = random_tensor({6, 200}, 5);
    for (int64_t i = 0; i < x.numel(); ++i) {
        float& value = x.data<float>()[i];
        value = std::round(value * 3) / 3;
        if (i % 7 == 0) value = std::numeric_limits<float>::quiet_NaN();
        if (i % 31 == 1) value = std::numeric_limits<float>::infinity();
        if (i % 31 == 2) value = -std::numeric_limits<float>::infinity();
        if (i % 11 == 3) value = -0.0F;
    }
    check_topk(x, 5);
    check_topk(x, 190);
    check_topk(x, 200);
}

}  // namespace
}  // namespace sam3
