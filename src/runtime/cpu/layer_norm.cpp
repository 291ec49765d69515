#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/activation.h"

namespace sam3::cpu {

void layer_norm(const ExecContext& context, const LayerNormArgs& args) {
    constexpr int64_t kWorthThreads = 32768;
    const simd::Table& table = simd::table();
    const simd::ArrayFunction activation = simd::activation_function(args.activation);
    const int64_t rows = args.x.dim(0);
    const int64_t channels = args.x.dim(1);
    const float* gamma = args.gamma.data<float>();
    const float* beta = args.beta.data<float>();
#pragma omp parallel for num_threads(context.threads) if (context.threads > 1 && rows * channels > kWorthThreads)
    for (int64_t r = 0; r < rows; ++r) {
        float* out = args.out.data<float>() + r * args.out.stride(0);
        table.layer_norm(out, args.x.data<float>() + r * args.x.stride(0), gamma, beta, channels, args.eps);
        if (activation != nullptr) activation(out, out, channels);
    }
    if (args.sum && args.added) binary(context, sum_of(args));
    if (args.sum && !args.added) copy(context, CopyArgs{args.out, args.sum});
}

}  // namespace sam3::cpu
