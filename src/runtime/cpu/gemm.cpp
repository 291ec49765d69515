#include "runtime/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

namespace sam3::cpu {

namespace {

// kMostRows of A are half a megabyte: within an L2 cache.
constexpr int64_t kMostSums = kMostRows * 1024;  // floats kept between blocks of K

static_assert(static_cast<int>(simd::Epilogue::silu) == static_cast<int>(Activation::silu) &&
              static_cast<int>(simd::Epilogue::gelu_tanh) == static_cast<int>(Activation::gelu_tanh) &&
              static_cast<int>(simd::Epilogue::sigmoid) == static_cast<int>(Activation::sigmoid) &&
              static_cast<int>(simd::Epilogue::gelu) == static_cast<int>(Activation::gelu) &&
              static_cast<int>(simd::Epilogue::relu) == static_cast<int>(Activation::relu));

// How a product is cut into tasks. Only speed depends on it.
struct Plan {
    int64_t rows, columns, depth;
    int64_t tile_columns, panels;
    int64_t depth_blocks, block_depth;
    int64_t block_rows, row_blocks;
    int64_t block_panels, panel_blocks;
    int64_t threads;

    Plan(int64_t m, int64_t n, int64_t k, int64_t tile, int64_t products, int64_t most_threads)
        : rows(m), columns(n), depth(k), tile_columns(tile), panels(divide_up(n, tile)) {
        depth_blocks = std::max<int64_t>(1, divide_up(k, simd::kGemmDepth));
        block_depth = divide_up(k, depth_blocks);
        row_blocks = divide_up(m, kMostRows);
        panel_blocks = depth_blocks == 1 ? 1 : divide_up(panels * tile * std::min(m, kMostRows), kMostSums);
        const double flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k * products);
        threads = flops < kSerialFlops ? 1 : most_threads;
        if (threads > 1) {
            TaskGrid grid{row_blocks, panel_blocks};
            grid.split(m, panels, tile, products, 4 * threads);
            row_blocks = grid.row_blocks;
            panel_blocks = grid.panel_blocks;
        }
        block_rows = divide_up(divide_up(m, row_blocks), simd::kGemmTileRows) * simd::kGemmTileRows;
        row_blocks = divide_up(m, block_rows);
        block_panels = divide_up(panels, panel_blocks);
        panel_blocks = divide_up(panels, block_panels);
        threads = std::min(threads, row_blocks * panel_blocks * products);
    }

    int64_t a_size() const { return block_rows * simd::kGemmDepthStride; }
    int64_t sums_size() const { return depth_blocks == 1 ? 0 : block_rows * block_panels * tile_columns; }
    int64_t panel_size(bool needed) const { return needed ? simd::kGemmDepth * tile_columns : 0; }
};

struct Scratch {  // of one thread
    float* a;
    float* sums;
    float* panel;
};

void run_task(const Plan& plan, const GemmProduct& product, int64_t row_block, int64_t panel_block,
              const Scratch& scratch) {
    const simd::Table& table = product.b->table();
    const int64_t row = row_block * plan.block_rows;
    const int64_t rows = std::min(plan.block_rows, plan.rows - row);
    const OutputBlock block_output(product, row, rows);
    const int64_t first_panel = panel_block * plan.block_panels;
    const int64_t last_panel = std::min(first_panel + plan.block_panels, plan.panels);
    for (int64_t block = 0; block < plan.depth_blocks; ++block) {
        const int64_t k = block * plan.block_depth;
        const int64_t depth = std::min(plan.block_depth, plan.depth - k);
        product.a->copy(row, rows, k, depth, scratch.a);
        for (int64_t p = first_panel; p < last_panel; ++p) {
            const int64_t column = p * plan.tile_columns;
            const int64_t columns = std::min(plan.tile_columns, plan.columns - column);
            table.gemm_panel({scratch.a, rows, depth, product.b->panel(p, columns, k, depth, scratch.panel), column,
                              columns, scratch.sums + (p - first_panel) * plan.block_rows * plan.tile_columns,
                              block == 0, block + 1 == plan.depth_blocks, &block_output.output});
        }
    }
}

}  // namespace

int64_t tile_columns_of(const simd::Table& table) {
    int64_t columns = 0;
    table.gemm_tile_columns(&columns);
    return columns;
}

OutputBlock::OutputBlock(const GemmProduct& product, int64_t row, int64_t rows)
    : output{product.out,
             offsets.data(),
             product.residual,
             residual_offsets.data(),
             product.bias,
             product.alpha,
             static_cast<simd::Epilogue>(product.activation),
             product.split,
             product.split_stride} {
    for (int64_t i = 0; i < rows; ++i) {
        offsets[static_cast<size_t>(i)] = product.out_rows.offset(row + i);
        residual_offsets[static_cast<size_t>(i)] = product.residual_rows.offset(row + i);
    }
}

void TaskGrid::split(int64_t rows, int64_t panels, int64_t tile_columns, int64_t products, int64_t tasks) {
    while (row_blocks * panel_blocks * products < tasks) {
        const int64_t task_rows = divide_up(rows, row_blocks);
        const int64_t task_panels = divide_up(panels, panel_blocks);
        const bool can_split_rows = task_rows > 4 * simd::kGemmTileRows;
        if (task_panels > 1 && (!can_split_rows || task_panels * tile_columns >= task_rows))
            panel_blocks *= 2;
        else if (can_split_rows)
            row_blocks *= 2;
        else
            return;
    }
}

void MatrixRows::copy(int64_t row, int64_t rows, int64_t k, int64_t depth, float* to) const {
    const float* from = data_ + row * stride_ + k;
    for (int64_t i = 0; i < rows; ++i)
        std::memcpy(to + i * simd::kGemmDepthStride, from + i * stride_, static_cast<size_t>(depth) * sizeof(float));
}

PackedPanels::PackedPanels(Device& device, int64_t columns, int64_t depth)
    : table_(simd::table()), depth_(depth), tile_columns_(tile_columns_of(table_)) {
    const int64_t padded = divide_up(columns, table_.lanes) * table_.lanes;
    data_ = device.allocate(static_cast<size_t>(padded * depth) * sizeof(float));
}

void PackedPanels::pack_panel(int64_t first_column, const float* rows, int64_t stride, int64_t count) {
    float* panel = static_cast<float*>(data_->data) + first_column * depth_;
    table_.gemm_pack_transposed(panel, rows, stride, count, depth_);
}

const float* PackedPanels::panel(int64_t index, int64_t columns, int64_t k, int64_t, float*) const {
    const int64_t width = divide_up(columns, table_.lanes) * table_.lanes;
    return static_cast<const float*>(data_->data) + index * tile_columns_ * depth_ + k * width;
}

void gemm(const ExecContext& context, int64_t rows, int64_t columns, int64_t depth,
          std::span<const GemmProduct> products) {
    if (products.empty() || rows == 0 || columns == 0) return;
    const Plan plan(rows, columns, depth, tile_columns_of(products[0].b->table()),
                    static_cast<int64_t>(products.size()), context.threads);
    const int64_t a_size = plan.a_size();
    const int64_t sums_size = plan.sums_size();
    const int64_t scratch_size = a_size + sums_size + plan.panel_size(products[0].b->needs_scratch());
    const std::shared_ptr<Buffer> scratch =
        context.device.allocate(static_cast<size_t>(scratch_size * plan.threads) * sizeof(float));
    const int64_t tasks_per_product = plan.row_blocks * plan.panel_blocks;
    const int64_t tasks = tasks_per_product * static_cast<int64_t>(products.size());

    // Neighbouring tasks share rows of A, or the same panels when there is one block of rows.
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(plan.threads)) if (plan.threads > 1)
    for (int64_t task = 0; task < tasks; ++task) {
        const int64_t within = task % tasks_per_product;
        float* base = static_cast<float*>(scratch->data) + omp_get_thread_num() * scratch_size;
        run_task(plan, products[static_cast<size_t>(task / tasks_per_product)], within / plan.panel_blocks,
                 within % plan.panel_blocks, {base, base + a_size, base + a_size + sums_size});
    }
}

}  // namespace sam3::cpu
