#include "runtime/cuda/strided.cuh"

namespace sam3::cuda {

namespace {

struct Resample {
    uint32_t count;
    Divisor inner, places;
    int64_t length;
    int taps, precision;
    const uint8_t* x;
    const int32_t *first, *weights;
    uint8_t* out;
};

__global__ void resample_kernel(Resample a) {
    const uint32_t i = thread_number();
    if (i >= a.count) return;
    uint32_t outer = i;
    const int64_t inner = a.inner.take(outer);
    const int64_t place = a.places.take(outer);
    const int64_t first = a.first[place];
    const int taps = static_cast<int>(min(static_cast<int64_t>(a.taps), a.length - first));
    const uint8_t* from = a.x + (outer * a.length + first) * a.inner.divisor + inner;
    const int32_t* weights = a.weights + place * a.taps;
    int sum = 1 << (a.precision - 1);
    for (int j = 0; j < taps; ++j) sum += weights[j] * from[static_cast<int64_t>(j) * a.inner.divisor];
    a.out[i] = static_cast<uint8_t>(min(max(sum >> a.precision, 0), 255));
}

}  // namespace

void resample(const ExecContext& context, const ResampleArgs& args) {
    const Resample a{count_of("resample", args.out.numel()),
                     Divisor(args.x.dim(2)),
                     Divisor(args.first.dim(0)),
                     args.x.dim(1),
                     static_cast<int>(args.weights.dim(1)),
                     args.precision,
                     args.x.data<uint8_t>(),
                     args.first.data<int32_t>(),
                     args.weights.data<int32_t>(),
                     args.out.data<uint8_t>()};
    launch(context, "resample",
           [&](cudaStream_t stream) { resample_kernel<<<blocks_of(a.count), kThreads, 0, stream>>>(a); });
}

}  // namespace sam3::cuda
