#include "runtime/cuda/early.cuh"
#include "runtime/cuda/strided.cuh"

#include <algorithm>

// A block has some neighbouring places of a bias [1 + Q, pixels], several to a lane, and a warp an eighth of the hidden
// channels. Weights lie in shared memory, all that belongs to a channel side by side: a lane reads them once for its
// seven places, which takes no longer than the arithmetic.
namespace sam3::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kEach = 7;  // places of a lane: 200 boxes and twice 72 pixels make 130 blocks, one a multiprocessor
constexpr int kPlaces = 32 * kEach;
constexpr int kHeads = 8;       // computed together
constexpr int kChannels = 256;  // in shared memory at a time, one a thread
static_assert(kChannels == 32 * kWarps && kHeads == kWarps && kPlaces <= kChannels);

struct Axis {
    const float *hidden_weight, *hidden_bias, *weight, *bias;
    int pixels;
    float* out;
};

struct BoxBias {
    const float* boxes;
    int64_t boxes_image, boxes_query;
    int channels, heads, queries;  // queries: without the first token
    Axis axis[2];                  // columns, rows
};

__device__ float log_distance(float distance) {
    const float magnitude = log2f(fabsf(8.0F * distance) + 1.0F) / 3.0F;
    return distance < 0 ? -magnitude : magnitude;
}

struct SharedWeights {
    float4 hidden[kChannels];   // two weights, bias
    float4 out[2][kChannels];   // of four heads each
    float2 distances[kPlaces];  // of the two edges
    float sums[4][kHeads][kPlaces];
};

// The channels from `first` on, of the heads from `head` on; zeros for heads that there are not.
__device__ void load_weights(SharedWeights& shared, const Axis& axis, int channels, int heads, int first, int head) {
    const int channel = first + threadIdx.x;
    if (channel >= channels) return;
    const float2 w = reinterpret_cast<const float2*>(axis.hidden_weight)[channel];
    shared.hidden[threadIdx.x] = {w.x, w.y, axis.hidden_bias[channel], 0.0F};
    float out[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
        out[h] = head + h < heads ? axis.weight[static_cast<int64_t>(head + h) * channels + channel] : 0.0F;
    shared.out[0][threadIdx.x] = {out[0], out[1], out[2], out[3]};
    shared.out[1][threadIdx.x] = {out[4], out[5], out[6], out[7]};
}

__global__ void __launch_bounds__(32 * kWarps) box_bias_kernel(const __grid_constant__ BoxBias a) {
    __shared__ SharedWeights shared;
    const Axis& axis = a.axis[blockIdx.y];
    const int image = blockIdx.z;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int first_place = blockIdx.x * kPlaces;
    const int places = (1 + a.queries) * axis.pixels;
    let_next_start();
    wait_for_earlier();
    if (first_place >= places) return;

    if (threadIdx.x < kPlaces) {
        const int row = (first_place + threadIdx.x) / axis.pixels;
        const int pixel = first_place + threadIdx.x - row * axis.pixels;
        const int box = min(max(row - 1, 0), a.queries - 1);  // of the first token, and behind the end: not used
        float2 distances{0.0F, 0.0F};
        if (a.queries > 0) {
            const float* const from = a.boxes + image * a.boxes_image + box * a.boxes_query + blockIdx.y;
            const float half = 0.5F * from[2];
            const float place = static_cast<float>(pixel) / static_cast<float>(axis.pixels);
            distances = {log_distance(place - (from[0] - half)), log_distance(place - (from[0] + half))};
        }
        shared.distances[threadIdx.x] = distances;
    }

    for (int head = 0; head < a.heads; head += kHeads) {
        float2 distance[kEach];
        float sum[kEach][kHeads] = {};
        for (int first = 0; first < a.channels; first += kChannels) {
            load_weights(shared, axis, a.channels, a.heads, first, head);
            __syncthreads();
            if (first == 0)
#pragma unroll
                for (int i = 0; i < kEach; ++i) distance[i] = shared.distances[i * 32 + lane];
            const int count = min(kChannels, a.channels - first);
#pragma unroll 2
            for (int c = warp; c < count; c += kWarps) {
                const float4 w = shared.hidden[c];
                const float4 low = shared.out[0][c];
                const float4 high = shared.out[1][c];
#pragma unroll
                for (int i = 0; i < kEach; ++i) {
                    const float hidden = fmaxf(distance[i].x * w.x + (distance[i].y * w.y + w.z), 0.0F);
                    sum[i][0] += hidden * low.x;
                    sum[i][1] += hidden * low.y;
                    sum[i][2] += hidden * low.z;
                    sum[i][3] += hidden * low.w;
                    sum[i][4] += hidden * high.x;
                    sum[i][5] += hidden * high.y;
                    sum[i][6] += hidden * high.z;
                    sum[i][7] += hidden * high.w;
                }
            }
            __syncthreads();  // before the weights are replaced
        }

        // Eight parts become four, then each warp adds up one head's.
        if (warp >= 4)
#pragma unroll
            for (int h = 0; h < kHeads; ++h)
#pragma unroll
                for (int i = 0; i < kEach; ++i) shared.sums[warp - 4][h][i * 32 + lane] = sum[i][h];
        __syncthreads();
        if (warp < 4)
#pragma unroll
            for (int h = 0; h < kHeads; ++h)
#pragma unroll
                for (int i = 0; i < kEach; ++i) shared.sums[warp][h][i * 32 + lane] += sum[i][h];
        __syncthreads();
        if (head + warp < a.heads) {
            const float bias = axis.bias[head + warp];
            float* const out = axis.out + (static_cast<int64_t>(image) * a.heads + head + warp) * places;
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int place = first_place + i * 32 + lane;
                float total = bias;
                for (int part = 0; part < 4; ++part) total += shared.sums[part][warp][i * 32 + lane];
                if (place < places) out[place] = place < axis.pixels ? 0.0F : total;
            }
        }
        // The sums are written again behind the barriers of the next heads' weights.
    }
}

Axis axis_of(const BoxBiasWeights& w, const Tensor& out) {
    return {w.hidden_weight.data<float>(), w.hidden_bias.data<float>(),  w.weight.data<float>(),
            w.bias.data<float>(),          static_cast<int>(out.dim(3)), out.data<float>()};
}

}  // namespace

void box_bias(const ExecContext& context, const BoxBiasArgs& args) {
    const int64_t longest = std::max(args.cols.dim(3), args.rows.dim(3));
    count_of("box_bias", args.cols.dim(2) * longest);
    const BoxBias a{args.boxes.data<float>(),
                    args.boxes.stride(0),
                    args.boxes.stride(1),
                    static_cast<int>(args.to_cols.hidden_weight.dim(0)),
                    static_cast<int>(args.to_cols.weight.dim(0)),
                    static_cast<int>(args.boxes.dim(1)),
                    {axis_of(args.to_cols, args.cols), axis_of(args.to_rows, args.rows)}};
    const dim3 grid(blocks_of(args.cols.dim(2) * longest, kPlaces), 2, static_cast<unsigned>(args.boxes.dim(0)));
    launch(context, "box_bias", [&](cudaStream_t stream) {
        KernelLaunch(grid, 32 * kWarps, 0, stream).early(context).start("box_bias", box_bias_kernel, a);
    });
}

}  // namespace sam3::cuda
