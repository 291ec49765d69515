#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <cmath>
#include <vector>

namespace sam3::cpu {

namespace {

// temperature ** (2 * (i // 2) / dim) for each pair, in float as the reference computes it.
std::vector<float> periods(float temperature, int dim) {
    std::vector<float> table;
    for (int i = 0; i < dim; i += 2)
        table.push_back(std::pow(temperature, static_cast<float>(i) / static_cast<float>(dim)));
    return table;
}

}  // namespace

void sine_embed(const ExecContext& context, const SineEmbedArgs& args) {
    require_f32("sine_embed", args.x);
    const std::vector<float> table = periods(args.temperature, args.dim);
    const int64_t rows = args.x.numel();
    const float* x = args.x.data<float>();
    float* out = args.out.data<float>();
    const int threads = threads_for(context, 4 * args.out.numel());
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < rows; ++r) {
        const float scaled = x[r] * args.scale;
        float* to = out + r * args.dim;
        for (size_t i = 0; i < table.size(); ++i) {
            const float angle = scaled / table[i];
            to[2 * i] = std::sin(angle);
            to[2 * i + 1] = std::cos(angle);
        }
    }
}

}  // namespace sam3::cpu
