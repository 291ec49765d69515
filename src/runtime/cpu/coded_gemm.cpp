#include "runtime/cpu/coded_gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

namespace sam3::cpu {

namespace {

constexpr int64_t kBlockBytes = 512 * 1024;  // of coded rows: within an L2 cache, beside a panel

int64_t round_up(int64_t value, int64_t step) { return divide_up(value, step) * step; }

}  // namespace

void CodedWeights::run_task(const GemmProduct& product, int64_t first_row, int64_t rows, int64_t first_panel,
                            int64_t last_panel, const CodedBlock& block, float* row_scratch) const {
    const OutputBlock output(product, first_row, rows);
    for (int64_t i = 0; i < rows; ++i) code_row(product.a->whole(first_row + i, depth(), row_scratch), block, i);
    const int64_t missing = round_up(rows, simd::kGemmTileRows) - rows;  // of the last tile
    std::memset(block.codes + rows * row_stride(), 0, static_cast<size_t>(missing * row_stride()));
    std::fill_n(block.rows + rows, missing, simd::Int8Row{});
    for (int64_t panel = first_panel; panel < last_panel; ++panel) multiply_panel(block, rows, panel, output.output);
}

void CodedWeights::multiply(const ExecContext& context, int64_t rows, GemmProduct product) const {
    if (rows == 0 || columns() == 0) return;
    const int64_t tile_columns = tile_columns_of(table());
    const int64_t panels = divide_up(columns(), tile_columns);
    const double flops = 2.0 * static_cast<double>(rows * columns()) * static_cast<double>(depth());
    const int64_t most_rows = std::clamp(kBlockBytes / row_stride(), simd::kGemmTileRows, kMostRows);
    TaskGrid grid{divide_up(rows, most_rows), 1};
    if (flops >= kSerialFlops && context.threads > 1) grid.split(rows, panels, tile_columns, 1, 4L * context.threads);
    const int64_t block_rows = round_up(divide_up(rows, grid.row_blocks), simd::kGemmTileRows);
    const int64_t block_panels = divide_up(panels, grid.panel_blocks);
    const int64_t row_blocks = divide_up(rows, block_rows);
    const int64_t panel_blocks = divide_up(panels, block_panels);
    const int64_t tasks = row_blocks * panel_blocks;
    const auto threads = static_cast<int>(std::min<int64_t>(flops < kSerialFlops ? 1 : context.threads, tasks));

    const int64_t code_bytes = block_rows * row_stride();
    const int64_t row_code_bytes = round_up(block_rows * static_cast<int64_t>(sizeof(simd::Int8Row)), 64);
    const int64_t scratch_bytes = code_bytes + row_code_bytes + round_up(depth() * 4, 64);
    const std::shared_ptr<Buffer> scratch = context.device.allocate(static_cast<size_t>(scratch_bytes * threads));

    // Neighbouring tasks share rows of A.
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int64_t task = 0; task < tasks; ++task) {
        uint8_t* base = static_cast<uint8_t*>(scratch->data) + omp_get_thread_num() * scratch_bytes;
        const CodedBlock block{base, reinterpret_cast<simd::Int8Row*>(base + code_bytes)};
        const int64_t row = task / panel_blocks * block_rows;
        const int64_t panel = task % panel_blocks * block_panels;
        run_task(product, row, std::min(block_rows, rows - row), panel, std::min(panel + block_panels, panels), block,
                 reinterpret_cast<float*>(base + code_bytes + row_code_bytes));
    }
}

}  // namespace sam3::cpu
