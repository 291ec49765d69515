#pragma once

#include "runtime/kernels.h"
#include "util/error.h"

#include <algorithm>
#include <array>
#include <cstdint>

// Walks tensors of one shape together, whatever their strides, in parallel where it pays.
namespace sam3::cpu {

// Work is cut at fixed places, never by the number of threads, so that vectorised loops have the same tails and
// results the same bits on any machine load.
constexpr int64_t kChunkElements = 16384;
constexpr int64_t kParallelElements = 2 * kChunkElements;  // below this, starting threads costs more than it saves

inline void require_f32(const char* op, const Tensor& tensor) {
    if (tensor.dtype() != DType::f32)
        fail(op, ": expected an f32 tensor, found ", name_of(tensor.dtype()), " of shape ", to_string(tensor.shape()),
             "; cast it first");
}

// How many threads a loop over this many elements is worth.
inline int threads_for(const ExecContext& context, int64_t elements) {
    return elements < kParallelElements ? 1 : context.threads;
}

// The common shape of N tensors with dimensions merged wherever every tensor allows it.
template <size_t N>
struct StridedLoop {
    int rank = 1;
    std::array<int64_t, Shape::kMaxRank> dims{1};  // outermost first
    std::array<std::array<int64_t, Shape::kMaxRank>, N> strides{};
    int64_t total = 1;

    StridedLoop(const Shape& shape, const std::array<Shape, N>& tensor_strides) : total(shape.numel()) {
        int at = Shape::kMaxRank;  // filled from the back, innermost first
        for (int i = shape.rank() - 1; i >= 0; --i) {
            if (shape[i] == 1) continue;
            bool merge = at < Shape::kMaxRank;
            for (size_t t = 0; t < N && merge; ++t) merge = tensor_strides[t][i] == strides[t][at] * dims[at];
            if (merge) {
                dims[at] *= shape[i];
                continue;
            }
            dims[--at] = shape[i];
            for (size_t t = 0; t < N; ++t) strides[t][at] = tensor_strides[t][i];
        }
        if (at == Shape::kMaxRank) {  // a single element
            dims[0] = 1;
            for (size_t t = 0; t < N; ++t) strides[t][0] = 1;
            return;
        }
        rank = Shape::kMaxRank - at;
        std::copy(dims.begin() + at, dims.end(), dims.begin());
        for (auto& s : strides) std::copy(s.begin() + at, s.end(), s.begin());
    }

    int64_t inner_size() const { return dims[rank - 1]; }
    int64_t inner_stride(size_t tensor) const { return strides[tensor][rank - 1]; }

    // Calls body(offsets, n) for each run of the elements [begin, end) that lies in one innermost row.
    template <typename Body>
    void walk(int64_t begin, int64_t end, const Body& body) const {
        std::array<int64_t, Shape::kMaxRank> index{};
        std::array<int64_t, N> offsets{};
        int64_t rest = begin / inner_size();
        for (int i = rank - 2; i >= 0; --i) {
            index[i] = rest % dims[i];
            rest /= dims[i];
            for (size_t t = 0; t < N; ++t) offsets[t] += index[i] * strides[t][i];
        }
        int64_t position = begin % inner_size();
        while (begin < end) {
            const int64_t n = std::min(inner_size() - position, end - begin);
            std::array<int64_t, N> starts = offsets;
            for (size_t t = 0; t < N; ++t) starts[t] += position * inner_stride(t);
            body(starts, n);
            begin += n;
            position = 0;
            for (int i = rank - 2; i >= 0; --i) {
                for (size_t t = 0; t < N; ++t) offsets[t] += strides[t][i];
                if (++index[i] < dims[i]) break;
                for (size_t t = 0; t < N; ++t) offsets[t] -= dims[i] * strides[t][i];
                index[i] = 0;
            }
        }
    }

    // The same over all elements. The body must not throw.
    template <typename Body>
    void run(const ExecContext& context, const Body& body) const {
        const int64_t chunks = (total + kChunkElements - 1) / kChunkElements;
        const int threads = threads_for(context, total);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
        for (int64_t c = 0; c < chunks; ++c) walk(c * kChunkElements, std::min(total, (c + 1) * kChunkElements), body);
    }
};

}  // namespace sam3::cpu
