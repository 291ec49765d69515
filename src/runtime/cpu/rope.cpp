#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/simd.h"

namespace sam3::cpu {

void rope_2d(const ExecContext& context, const RopeArgs& args) {
    constexpr int64_t kWorthThreads = 32768;
    const simd::Table& table = simd::table();
    const Tensor& x = args.x;
    const int64_t window = args.window;
    const int64_t rows = window > 0 ? x.dim(1) : 1;  // a token list is a map of one row
    const int64_t columns = window > 0 ? x.dim(2) : x.dim(1);
    const int64_t row_stride = window > 0 ? x.stride(1) : 0;
    const int64_t column_stride = window > 0 ? x.stride(2) : x.stride(1);
    const int64_t head_size = x.dim(-1) / args.heads;
    const int64_t positions = args.table.dim(0);
    const int64_t tokens = x.dim(0) * rows * columns;
#pragma omp parallel for num_threads(context.threads) if (context.threads > 1 && x.numel() > kWorthThreads)
    for (int64_t i = 0; i < tokens; ++i) {
        const int64_t column = i % columns;
        const int64_t row = i / columns % rows;
        const int64_t batch = i / columns / rows;
        const int64_t position = window > 0 ? row % window * window + column % window : column % positions;
        table.rotate_pairs(x.data<float>() + batch * x.stride(0) + row * row_stride + column * column_stride,
                           args.table.data<float>() + position * head_size, args.heads, head_size);
    }
}

}  // namespace sam3::cpu
