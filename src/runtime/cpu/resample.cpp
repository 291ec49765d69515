#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <algorithm>

namespace sam3::cpu {

void resample(const ExecContext& context, const ResampleArgs& args) {
    const int64_t length = args.x.dim(1);
    const int64_t inner = args.x.dim(2);
    const int64_t places = args.first.dim(0);
    const int64_t taps = args.weights.dim(1);
    const int threads = threads_for(context, args.out.numel() * taps);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t line = 0; line < args.x.dim(0) * places; ++line) {
        const int64_t place = line % places;
        const int64_t first = args.first.data<int32_t>()[place];
        const int32_t* weights = args.weights.data<int32_t>() + place * taps;
        const uint8_t* from = args.x.data<uint8_t>() + line / places * length * inner;
        uint8_t* to = args.out.data<uint8_t>() + line * inner;
        for (int64_t b = 0; b < inner; ++b) {
            int32_t sum = 1 << (args.precision - 1);
            for (int64_t j = 0; j < taps && first + j < length; ++j) sum += weights[j] * from[(first + j) * inner + b];
            to[b] = static_cast<uint8_t>(std::clamp(sum >> args.precision, 0, 255));
        }
    }
}

}  // namespace sam3::cpu
