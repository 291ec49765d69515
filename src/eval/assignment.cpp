#include "eval/assignment.h"

#include "util/error.h"

#include <limits>

namespace sam3 {

namespace {

// The Hungarian method with potentials, for rows <= columns: rows join one by one, each along the cheapest path of
// exchanges. Index 0 stands for "none", so rows and columns count from 1.
class Assignment {
public:
    Assignment(std::span<const double> values, size_t rows, size_t columns, bool transposed)
        : values_(values),
          rows_(rows),
          columns_(columns),
          transposed_(transposed),
          row_potential_(rows + 1),
          column_potential_(columns + 1),
          owner_(columns + 1, 0) {
        for (size_t row = 1; row <= rows_; ++row) join(row);
    }

    size_t owner(size_t column) const { return owner_[column + 1]; }  // from 1; 0: none

private:
    double cost(size_t row, size_t column) const {
        return -(transposed_ ? values_[(column - 1) * rows_ + row - 1] : values_[(row - 1) * columns_ + column - 1]);
    }

    void join(size_t row) {
        std::vector<double> slack(columns_ + 1, std::numeric_limits<double>::infinity());
        std::vector<size_t> from(columns_ + 1, 0);
        std::vector<bool> seen(columns_ + 1, false);
        owner_[0] = row;
        size_t column = 0;
        do {
            seen[column] = true;
            const size_t here = owner_[column];
            double step = std::numeric_limits<double>::infinity();
            size_t next = 0;
            for (size_t c = 1; c <= columns_; ++c) {
                if (seen[c]) continue;
                const double reduced = cost(here, c) - row_potential_[here] - column_potential_[c];
                if (reduced < slack[c]) {
                    slack[c] = reduced;
                    from[c] = column;
                }
                if (slack[c] < step) {
                    step = slack[c];
                    next = c;
                }
            }
            for (size_t c = 0; c <= columns_; ++c) {
                if (seen[c]) {
                    row_potential_[owner_[c]] += step;
                    column_potential_[c] -= step;
                } else {
                    slack[c] -= step;
                }
            }
            column = next;
        } while (owner_[column] != 0);
        for (; column != 0; column = from[column]) owner_[column] = owner_[from[column]];
    }

    std::span<const double> values_;
    size_t rows_, columns_;
    bool transposed_;
    std::vector<double> row_potential_, column_potential_;
    std::vector<size_t> owner_;  // row of each column
};

}  // namespace

std::vector<int> assign(std::span<const double> values, size_t rows, size_t columns) {
    if (values.size() != rows * columns) fail("expected ", rows * columns, " values to pair, found ", values.size());
    std::vector<int> out(rows, -1);
    if (rows == 0 || columns == 0) return out;
    if (rows <= columns) {
        const Assignment found(values, rows, columns, false);
        for (size_t c = 0; c < columns; ++c)
            if (found.owner(c) != 0) out[found.owner(c) - 1] = static_cast<int>(c);
    } else {
        const Assignment found(values, columns, rows, true);
        for (size_t r = 0; r < rows; ++r) out[r] = static_cast<int>(found.owner(r)) - 1;
    }
    return out;
}

}  // namespace sam3
