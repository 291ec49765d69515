#include "runtime/cpu/convert.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <omp.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace sam3::cpu {

namespace {

template <typename From>
void read_row(const void* base, int64_t offset, int64_t stride, float* out, int64_t n) {
    const From* x = static_cast<const From*>(base) + offset;
    if (stride == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] = to_float(x[i]);
    } else {
        for (int64_t i = 0; i < n; ++i) out[i] = to_float(x[i * stride]);
    }
}

using ReadRow = void (*)(const void* base, int64_t offset, int64_t stride, float* out, int64_t n);

// Tables may be kept in half precision; rows come out as f32.
ReadRow reader_of(const char* op, DType type) {
    switch (type) {
        case DType::f32: return read_row<float>;
        case DType::f16: return read_row<Half>;
        case DType::bf16: return read_row<BFloat16>;
        default: fail(op, ": rows must be f32, f16 or bf16, found ", name_of(type));
    }
}

void check_ids(const char* op, const Tensor& ids, int64_t size) {
    const int32_t* id = ids.data<int32_t>();
    for (int64_t i = 0; i < ids.numel(); ++i)
        if (id[i] < 0 || id[i] >= size)
            fail(op, ": id ", id[i], " at position ", i, " is outside the ", size, " rows of the table");
}

// Largest first, ties by position, NaN after every number.
struct Before {
    const float* values;
    bool operator()(int32_t i, int32_t j) const {
        const float a = values[i];
        const float b = values[j];
        if (a > b) return true;
        if (a < b) return false;
        const bool a_nan = std::isnan(a);
        const bool b_nan = std::isnan(b);
        return a_nan == b_nan ? i < j : b_nan;
    }
};

void topk_row(const float* x, std::vector<int32_t>& order, int64_t k, float* values, int32_t* indices) {
    std::iota(order.begin(), order.end(), 0);
    const Before before{x};
    const auto middle = order.begin() + k;
    if (middle != order.end()) std::nth_element(order.begin(), middle, order.end(), before);
    std::sort(order.begin(), middle, before);
    for (int64_t i = 0; i < k; ++i) {
        indices[i] = order[static_cast<size_t>(i)];
        values[i] = x[indices[i]];
    }
}

}  // namespace

void embedding(const ExecContext& context, const EmbeddingArgs& args) {
    const ReadRow read = reader_of("embedding", args.table.dtype());
    check_ids("embedding", args.ids, args.table.dim(0));
    const int32_t* ids = args.ids.data<int32_t>();
    const int64_t rows = args.ids.numel();
    const int64_t channels = args.table.dim(1);
    float* out = args.out.data<float>();
    const int64_t out_row = args.out.row_stride();
    const int threads = threads_for(context, rows * channels);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < rows; ++r)
        read(args.table.raw(), ids[r] * args.table.stride(0), args.table.stride(1), out + r * out_row, channels);
}

void gather_rows(const ExecContext& context, const GatherRowsArgs& args) {
    const ReadRow read = reader_of("gather_rows", args.x.dtype());
    check_ids("gather_rows", args.ids, args.x.dim(1));
    const int32_t* ids = args.ids.data<int32_t>();
    const int64_t rows = args.ids.numel();
    const int64_t per_batch = args.ids.dim(1);
    const int64_t channels = args.x.dim(2);
    float* out = args.out.data<float>();
    const int threads = threads_for(context, rows * channels);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < rows; ++r)
        read(args.x.raw(), r / per_batch * args.x.stride(0) + ids[r] * args.x.stride(1), args.x.stride(2),
             out + r * channels, channels);
}

void topk(const ExecContext& context, const TopkArgs& args) {
    require_f32("topk", args.x);
    const int64_t rows = args.x.dim(0);
    const int64_t size = args.x.dim(1);
    const int64_t k = args.values.dim(1);
    const int threads = rows == 1 ? 1 : threads_for(context, rows * size);
    std::vector<std::vector<int32_t>> orders(static_cast<size_t>(threads),
                                             std::vector<int32_t>(static_cast<size_t>(size)));
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        std::vector<int32_t>& order = orders[static_cast<size_t>(omp_get_thread_num())];
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r)
            topk_row(args.x.data<float>() + r * args.x.stride(0), order, k, args.values.data<float>() + r * k,
                     args.indices.data<int32_t>() + r * k);
    }
}

}  // namespace sam3::cpu
