#pragma once

#include "runtime/cpu/simd/gemm.h"
#include "runtime/cpu/simd/simd.h"
#include "runtime/device.h"

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

// Matrix products on the CPU, blocked for the caches. Linear layers, convolutions and plain products differ only in
// where rows of A and panels of B come from and where rows of the result go.
namespace sam3::cpu {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// Row r lies at (r / width) * stride_y + (r % width) * stride_x; a plain matrix has one endless line of rows.
struct RowLayout {
    int64_t stride_x = 0;
    int64_t width = kUnbounded;
    int64_t stride_y = 0;

    int64_t offset(int64_t row) const {
        return row < width ? row * stride_x : row / width * stride_y + row % width * stride_x;
    }
};

// Gives the left matrix, [rows, depth]. Called by several threads at once.
class GemmRows {
public:
    virtual ~GemmRows() = default;
    // Copies elements [k, k + depth) of rows [row, row + rows), rows of `to` being simd::kGemmDepthStride apart.
    virtual void copy(int64_t row, int64_t rows, int64_t k, int64_t depth, float* to) const = 0;
    // One whole row; may be made in `scratch`.
    virtual const float* whole(int64_t row, int64_t depth, float* scratch) const {
        copy(row, 1, 0, depth, scratch);
        return scratch;
    }
};

class MatrixRows final : public GemmRows {
public:
    MatrixRows(const float* data, int64_t stride) : data_(data), stride_(stride) {}
    void copy(int64_t row, int64_t rows, int64_t k, int64_t depth, float* to) const override;
    const float* whole(int64_t row, int64_t, float*) const override { return data_ + row * stride_; }

private:
    const float* data_;
    int64_t stride_;
};

// Gives the right matrix, [depth, columns], in the kernel's panels. Called by several threads at once.
class GemmColumns {
public:
    virtual ~GemmColumns() = default;
    virtual const simd::Table& table() const = 0;  // whose kernel reads the panels
    virtual bool needs_scratch() const = 0;
    // Elements [k, k + depth) of a panel of `columns` columns, as [depth][width]; may be made in `scratch`.
    virtual const float* panel(int64_t index, int64_t columns, int64_t k, int64_t depth, float* scratch) const = 0;
};

// Weights, packed once; all of a panel's depth is contiguous.
class PackedPanels final : public GemmColumns {
public:
    PackedPanels(Device& device, int64_t columns, int64_t depth);
    // At most panel_columns() columns from a panel's edge on. Rows of the source hold their weights: PyTorch's [out,
    // in].
    void pack_panel(int64_t first_column, const float* rows, int64_t stride, int64_t count);

    const simd::Table& table() const override { return table_; }
    bool needs_scratch() const override { return false; }
    const float* panel(int64_t index, int64_t columns, int64_t k, int64_t depth, float* scratch) const override;
    int64_t panel_columns() const { return tile_columns_; }

private:
    const simd::Table& table_;
    int64_t depth_, tile_columns_;
    std::shared_ptr<Buffer> data_;
};

struct GemmProduct {  // out = activation(alpha * a * b + bias) + residual
    const GemmRows* a = nullptr;
    const GemmColumns* b = nullptr;
    float* out = nullptr;
    RowLayout out_rows;
    const float* residual = nullptr;  // or null; may be out, laid out the same
    RowLayout residual_rows;
    const float* bias = nullptr;  // [columns] or null
    float alpha = 1.0F;
    Activation activation = Activation::none;
    int64_t split = kUnbounded;  // as in simd::GemmOutput
    int64_t split_stride = 0;
};

// Products of one size, each with its own operands. The result does not depend on the number of threads.
void gemm(const ExecContext& context, int64_t rows, int64_t columns, int64_t depth,
          std::span<const GemmProduct> products);

constexpr int64_t kMostRows = 240;  // of A in a task

// Where a task's rows land.
struct OutputBlock {
    OutputBlock(const GemmProduct& product, int64_t row, int64_t rows);
    OutputBlock(const OutputBlock&) = delete;
    OutputBlock& operator=(const OutputBlock&) = delete;

    std::array<int64_t, kMostRows> offsets, residual_offsets;
    simd::GemmOutput output;  // points at the offsets
};

// How a product is cut into tasks, one for each block of rows and block of panels.
struct TaskGrid {
    int64_t row_blocks = 1, panel_blocks = 1;

    // Halves the longer side of the tasks until there are `tasks`, or they are as small as makes sense.
    void split(int64_t rows, int64_t panels, int64_t tile_columns, int64_t products, int64_t tasks);
};

constexpr double kSerialFlops = 4e5;  // below it, waking the other threads costs more than it gains

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t tile_columns_of(const simd::Table& table);

}  // namespace sam3::cpu
