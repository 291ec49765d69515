#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/simd.h"

namespace sam3::cpu {

void softmax(const ExecContext& context, const SoftmaxArgs& args) {
    constexpr int64_t kWorthThreads = 16384;
    const simd::Table& table = simd::table();
    const int64_t rows = args.x.dim(0);
    const int64_t columns = args.x.dim(1);
#pragma omp parallel for num_threads(context.threads) if (context.threads > 1 && rows * columns > kWorthThreads)
    for (int64_t r = 0; r < rows; ++r)
        table.softmax(args.out.data<float>() + r * args.out.stride(0), args.x.data<float>() + r * args.x.stride(0),
                      columns);
}

}  // namespace sam3::cpu
