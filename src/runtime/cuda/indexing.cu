#include "runtime/cuda/early.cuh"
#include "runtime/cuda/strided.cuh"

// Rows by number, the largest of a row, and encodings of positions.
namespace sam3::cuda {

namespace {

// Rows of `pieces` units; a unit is as many bytes as all rows can be cut into.
struct RowCopy {
    uint32_t count;
    Divisor pieces, per_batch;
    int64_t batch_stride, row_stride, out_stride;  // in units
    int64_t rows;                                  // that a batch item has
};

// A row whose number lies outside the table becomes NaN in every type: the numbers are not known when this is launched.
template <typename Unit>
__global__ void copy_rows_kernel(RowCopy rows, const Unit* x, const int32_t* ids, Unit* out) {
    const uint32_t i = thread_number();
    if (i >= rows.count) return;
    uint32_t row = i;
    const uint32_t piece = rows.pieces.take(row);
    const int64_t id = ids[row];
    Unit value;
    if (id >= 0 && id < rows.rows)
        value = x[rows.per_batch.quotient(row) * rows.batch_stride + id * rows.row_stride + piece];
    else
        memset(&value, 0xff, sizeof value);
    out[row * rows.out_stride + piece] = value;
}

struct RowSource {
    const Tensor& x;
    int64_t batch_stride, row_stride, rows;
};

template <typename Unit>
void start_copy_rows(const ExecContext& context, const char* op, const RowSource& source, const Tensor& ids,
                     int64_t per_batch, const Tensor& out, int64_t out_stride) {
    const auto width = static_cast<int64_t>(sizeof(Unit) / size_of(out.dtype()));
    const int64_t pieces = out.dim(-1) / width;
    const RowCopy rows{
        count_of(op, ids.numel() * pieces), Divisor(pieces),    Divisor(per_batch), source.batch_stride / width,
        source.row_stride / width,          out_stride / width, source.rows};
    launch(context, op, [&](cudaStream_t stream) {
        copy_rows_kernel<<<blocks_of(rows.count), kThreads, 0, stream>>>(rows, source.x.data<const Unit>(),
                                                                         ids.data<const int32_t>(), out.data<Unit>());
    });
}

// out[r] = x[r / per_batch, ids[r]], in the type of out.
void copy_rows(const ExecContext& context, const char* op, const RowSource& source, const Tensor& ids,
               int64_t per_batch, const Tensor& out, int64_t out_stride) {
    if (source.x.dtype() != out.dtype()) {
        const Tensor found = new_tensor(context, out.shape(), source.x.dtype());
        copy_rows(context, op, source, ids, per_batch, found, out.dim(-1));
        return copy(context, CopyArgs{found, out});
    }
    const size_t size = size_of(out.dtype());
    const auto can_use = [&](size_t bytes) {
        const auto width = static_cast<int64_t>(bytes / size);
        return out.dim(-1) % width == 0 && source.batch_stride % width == 0 && source.row_stride % width == 0 &&
               out_stride % width == 0 && is_aligned(source.x.raw(), bytes) && is_aligned(out.raw(), bytes);
    };
    if (can_use(16))
        start_copy_rows<uint4>(context, op, source, ids, per_batch, out, out_stride);
    else if (size == 4)
        start_copy_rows<uint32_t>(context, op, source, ids, per_batch, out, out_stride);
    else if (size == 2)
        start_copy_rows<uint16_t>(context, op, source, ids, per_batch, out, out_stride);
    else
        start_copy_rows<uint8_t>(context, op, source, ids, per_batch, out, out_stride);
}

// Sorts upwards like the order of the results: largest value first, then the lowest index, NaN after every number.
__device__ uint64_t key_of(float value, uint32_t index) {
    uint32_t bits = __float_as_uint(value + 0.0F);  // -0 equals 0
    bits = (bits & 0x80000000U) != 0 ? bits : ~(bits | 0x80000000U);
    if (value != value) bits = 0xffffffffU;
    return (static_cast<uint64_t>(bits) << 32U) | index;
}

constexpr int64_t kMostSorted = 4096;  // 32 KiB of keys
constexpr uint64_t kNoKey = ~uint64_t{0};

template <typename T>
struct Topk {
    const T* x;
    int64_t stride;
    uint32_t size, k;
    float* values;
    int32_t* indices;

    __device__ const T* row() const { return x + blockIdx.x * stride; }
    __device__ void write(uint32_t rank, uint64_t key) const {
        const auto index = static_cast<uint32_t>(key);
        const int64_t at = static_cast<int64_t>(blockIdx.x) * k + rank;
        values[at] = to_float(row()[index]);
        indices[at] = static_cast<int32_t>(index);
    }
};

// One block sorts one row of keys (bitonic).
template <typename T>
__global__ void topk_by_sorting(Topk<T> args, uint32_t padded) {
    __shared__ uint64_t keys[kMostSorted];
    for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x)
        keys[i] = i < args.size ? key_of(to_float(args.row()[i]), i) : kNoKey;
    for (uint32_t run = 2; run <= padded; run *= 2)
        for (uint32_t step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x) {
                const uint32_t other = i ^ step;
                if (other < i) continue;
                const bool upwards = (i & run) == 0;
                const uint64_t a = keys[i];
                const uint64_t b = keys[other];
                if ((a > b) != upwards) continue;
                keys[i] = b;
                keys[other] = a;
            }
        }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < args.k; i += blockDim.x) args.write(i, keys[i]);
}

// Rows that are too long for that: the next key after the last one, k times.
template <typename T>
__global__ void topk_by_search(Topk<T> args) {
    __shared__ uint64_t least[kThreads];
    uint64_t last = 0;
    for (uint32_t rank = 0; rank < args.k; ++rank) {
        uint64_t next = kNoKey;
        for (uint32_t i = threadIdx.x; i < args.size; i += kThreads) {
            const uint64_t key = key_of(to_float(args.row()[i]), i);
            if ((rank == 0 || key > last) && key < next) next = key;
        }
        least[threadIdx.x] = next;
        __syncthreads();
        for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) least[threadIdx.x] = min(least[threadIdx.x], least[threadIdx.x + half]);
            __syncthreads();
        }
        last = least[0];
        __syncthreads();  // before it is written again
        if (threadIdx.x == 0) args.write(rank, last);
    }
}

// temperature ** (2 * i / dim), rounded once, as the CPU's pow is.
__global__ void sine_embed_kernel(uint32_t count, Divisor pairs, float temperature, float scale, const float* x,
                                  float2* out) {
    const uint32_t i = thread_number();
    uint32_t row = i;
    const uint32_t pair = pairs.take(row);
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(2 * pairs.divisor);
    const auto period = static_cast<float>(pow(static_cast<double>(temperature), static_cast<double>(exponent)));
    let_next_start();
    wait_for_earlier();
    if (i >= count) return;
    const float angle = x[row] * scale / period;
    out[i] = {sinf(angle), cosf(angle)};
}

}  // namespace

void embedding(const ExecContext& context, const EmbeddingArgs& args) {
    copy_rows(context, "embedding", {args.table, 0, args.table.stride(0), args.table.dim(0)}, args.ids,
              args.ids.numel(), args.out, args.out.row_stride());
}

void gather_rows(const ExecContext& context, const GatherRowsArgs& args) {
    copy_rows(context, "gather_rows", {args.x, args.x.stride(0), args.x.stride(1), args.x.dim(1)}, args.ids,
              args.ids.dim(1), args.out, args.out.dim(2));
}

void topk(const ExecContext& context, const TopkArgs& args) {
    const uint32_t rows = count_of("topk", args.x.dim(0));
    const uint32_t size = count_of("topk", args.x.dim(1));
    uint32_t padded = 1;
    while (padded < size) padded *= 2;
    for_float_type(args.x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        const Topk<T> all{args.x.data<const T>(),
                          args.x.stride(0),
                          size,
                          static_cast<uint32_t>(args.values.dim(1)),
                          args.values.data<float>(),
                          args.indices.data<int32_t>()};
        launch(context, "topk", [&](cudaStream_t stream) {
            if (padded <= kMostSorted)
                topk_by_sorting<<<rows, kThreads, 0, stream>>>(all, padded);
            else
                topk_by_search<<<rows, kThreads, 0, stream>>>(all);
        });
    });
}

void sine_embed(const ExecContext& context, const SineEmbedArgs& args) {
    const Tensor x = as_type(context, args.x, DType::f32);
    const int64_t pairs = args.dim / 2;
    const uint32_t count = count_of("sine_embed", x.numel() * pairs);
    launch(context, "sine_embed", [&](cudaStream_t stream) {
        KernelLaunch(dim3(blocks_of(count)), kThreads, 0, stream)
            .early(context)
            .start("sine_embed", sine_embed_kernel, count, Divisor(pairs), args.temperature, args.scale,
                   x.data<const float>(), static_cast<float2*>(args.out.raw()));
    });
}

}  // namespace sam3::cuda
