#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

namespace sam3::cpu {

namespace {

// A NaN wins, as in PyTorch.
void take_larger(const float* x, float* out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = ((x[i] > out[i]) | (x[i] != x[i])) ? x[i] : out[i];
}

}  // namespace

void max_pool(const ExecContext& context, const MaxPoolArgs& args) {
    require_f32("max_pool", args.x);
    const int64_t width = args.x.dim(2);
    const int64_t channels = args.x.dim(3);
    const int64_t out_height = args.out.dim(1);
    const int64_t out_width = args.out.dim(2);
    const float* x = args.x.data<float>();
    float* out = args.out.data<float>();
    const int threads = threads_for(context, args.out.numel() * args.kernel * args.kernel);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < args.out.dim(0) * out_height; ++r) {
        const int64_t top = r / out_height * args.x.dim(1) + r % out_height * args.stride;
        for (int64_t column = 0; column < out_width; ++column) {
            const float* corner = x + (top * width + column * args.stride) * channels;
            float* to = out + (r * out_width + column) * channels;
            std::copy_n(corner, channels, to);
            for (int64_t i = 1; i < static_cast<int64_t>(args.kernel) * args.kernel; ++i)
                take_larger(corner + (i / args.kernel * width + i % args.kernel) * channels, to, channels);
        }
    }
}

}  // namespace sam3::cpu
