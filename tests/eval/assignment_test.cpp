#include "eval/assignment.h"

#include "util/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace sam3 {
namespace {

double sum_of(const std::vector<int>& pairs, const std::vector<double>& values, size_t columns) {
    double sum = 0;
    for (size_t r = 0; r < pairs.size(); ++r)
        if (pairs[r] >= 0) sum += values[r * columns + static_cast<size_t>(pairs[r])];
    return sum;
}

// Tries every order of the longer side.
double best_sum(const std::vector<double>& values, size_t rows, size_t columns) {
    std::vector<size_t> order(std::max(rows, columns));
    std::iota(order.begin(), order.end(), 0);
    double best = 0;
    do {
        double sum = 0;
        for (size_t i = 0; i < std::min(rows, columns); ++i)
            sum += rows <= columns ? values[i * columns + order[i]] : values[order[i] * columns + i];
        best = std::max(best, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
}

TEST(Assignment, FindsTheGreatestSumOfAllOrders) {
    std::mt19937 generator(3);
    std::uniform_int_distribution<int> value(0, 8);  // coarse, so that ties occur
    for (size_t rows = 1; rows <= 6; ++rows) {
        for (size_t columns = 1; columns <= 6; ++columns) {
            for (int repeat = 0; repeat < 10; ++repeat) {
                std::vector<double> values(rows * columns);
                for (double& v : values) v = value(generator) / 8.0;
                const std::vector<int> pairs = assign(values, rows, columns);
                EXPECT_DOUBLE_EQ(sum_of(pairs, values, columns), best_sum(values, rows, columns));
                std::vector<int> used;
                std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(used), [](int c) { return c >= 0; });
                EXPECT_EQ(used.size(), std::min(rows, columns));
                std::sort(used.begin(), used.end());
                EXPECT_EQ(std::unique(used.begin(), used.end()), used.end());
            }
        }
    }
}

TEST(Assignment, PrefersTheSumToTheSingleBest) {
    // The best pair alone (0.9) would leave 0.1 for the other.
    EXPECT_EQ(assign(std::vector<double>{0.9, 0.8, 0.7, 0.1}, 2, 2), (std::vector<int>{1, 0}));
}

TEST(Assignment, AnEmptySideHasNoPairs) {
    EXPECT_EQ(assign({}, 0, 3), std::vector<int>());
    EXPECT_EQ(assign({}, 2, 0), (std::vector<int>{-1, -1}));
    EXPECT_THROW(assign(std::vector<double>{1}, 2, 2), Error);
}

}  // namespace
}  // namespace sam3
