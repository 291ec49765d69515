#include "runtime/cuda/strided.cuh"

// A block makes the line of one box: threads take pixels side by side and a part of the hidden channels each; the parts
// are added up in shared memory.
namespace sam3::cuda {

namespace {

constexpr int kParts = 4;    // of the hidden channels
constexpr int kPixels = 64;  // of a block's line at a time
constexpr int kMostHeads = 8;

struct BoxBias {
    const float *edges, *hidden_weight, *hidden_bias, *weight, *bias;
    int64_t edges_image, edges_query;
    int channels, heads, queries, pixels;  // queries: without the first token
    float* out;
};

__device__ float log_distance(float distance) {
    const float magnitude = log2f(fabsf(8.0F * distance) + 1.0F) / 3.0F;
    return distance < 0 ? -magnitude : magnitude;
}

__global__ void __launch_bounds__(kParts* kPixels) box_bias_kernel(BoxBias a) {
    __shared__ float partial[kParts][kMostHeads][kPixels];
    const int pixel = blockIdx.x * kPixels + threadIdx.x;
    const int row = blockIdx.y;
    const int image = blockIdx.z;
    const int part = threadIdx.y;
    const auto out_at = [&](int head) {
        return a.out + ((static_cast<int64_t>(image) * a.heads + head) * (1 + a.queries) + row) * a.pixels + pixel;
    };
    if (row == 0) {
        for (int head = part; head < a.heads && pixel < a.pixels; head += kParts) *out_at(head) = 0.0F;
        return;
    }
    const float* edges = a.edges + image * a.edges_image + (row - 1) * a.edges_query;
    const float place = static_cast<float>(pixel) / static_cast<float>(a.pixels);
    const float near = log_distance(place - edges[0]);
    const float far = log_distance(place - edges[1]);
    for (int first = 0; first < a.heads; first += kMostHeads) {
        const int heads = min(kMostHeads, a.heads - first);
        float sum[kMostHeads] = {};
        for (int c = part; c < a.channels; c += kParts) {
            const float2 w = reinterpret_cast<const float2*>(a.hidden_weight)[c];
            const float hidden = fmaxf(near * w.x + (far * w.y + a.hidden_bias[c]), 0.0F);
#pragma unroll
            for (int h = 0; h < kMostHeads; ++h)
                if (h < heads) sum[h] += hidden * a.weight[static_cast<int64_t>(first + h) * a.channels + c];
        }
#pragma unroll
        for (int h = 0; h < kMostHeads; ++h) partial[part][h][threadIdx.x] = sum[h];
        __syncthreads();
        for (int h = part; h < heads; h += kParts) {
            float total = a.bias[first + h];
            for (int p = 0; p < kParts; ++p) total += partial[p][h][threadIdx.x];
            if (pixel < a.pixels) *out_at(first + h) = total;
        }
        __syncthreads();
    }
}

}  // namespace

void box_bias(const ExecContext& context, const BoxBiasArgs& args) {
    const BoxBiasWeights& w = args.weights;
    const BoxBias a{args.edges.data<float>(),
                    w.hidden_weight.data<float>(),
                    w.hidden_bias.data<float>(),
                    w.weight.data<float>(),
                    w.bias.data<float>(),
                    args.edges.stride(0),
                    args.edges.stride(1),
                    static_cast<int>(w.hidden_weight.dim(0)),
                    static_cast<int>(w.weight.dim(0)),
                    static_cast<int>(args.edges.dim(1)),
                    static_cast<int>(args.out.dim(3)),
                    args.out.data<float>()};
    const dim3 grid(static_cast<unsigned>(blocks_for(a.pixels, kPixels)), static_cast<unsigned>(1 + a.queries),
                    static_cast<unsigned>(args.edges.dim(0)));
    launch(context, "box_bias",
           [&](cudaStream_t stream) { box_bias_kernel<<<grid, dim3(kPixels, kParts), 0, stream>>>(a); });
}

}  // namespace sam3::cuda
