#pragma once

#include "runtime/device.h"
#include "runtime/kernels.h"

#include <utility>
#include <vector>

// The CPU's operators know f32 alone. Widened gives them f32 copies of an operator's half-type tensors and rounds the
// results when it ends, as a GPU does that keeps halves between its operators and adds up in f32.
namespace sam3::test {

class Widened {
public:
    explicit Widened(const ExecContext& cpu) : cpu_(cpu) {}
    Widened(const Widened&) = delete;
    Widened& operator=(const Widened&) = delete;
    ~Widened() {
        for (const auto& [wide, narrow] : results_) copy(wide, narrow);
    }

    void operator()(LinearArgs& a) { in(a.x, a.residual), out(a.out); }
    void operator()(MatmulArgs& a) {
        if (is_half(a.a) != is_half(a.b)) round(is_half(a.a) ? a.b : a.a);  // tensor cores take two of a kind
        in(a.a, a.b, a.offsets), out(a.out);
    }
    void operator()(AttentionArgs& a) { in(a.q, a.k, a.v, a.bias, a.bias_rows, a.bias_cols), out(a.out); }
    void operator()(RopeArgs& a) { in_place(a.x); }
    void operator()(LayerNormArgs& a) { in(a.x, a.added), out(a.out), out(a.sum); }
    void operator()(GroupNormArgs& a) { in(a.x), out(a.out); }
    void operator()(SoftmaxArgs& a) { in(a.x), out(a.out); }
    void operator()(Conv2dArgs& a) { in(a.x, a.residual), out(a.out); }
    void operator()(ConvTranspose2x2Args& a) { in(a.x, a.residual), out(a.out); }
    void operator()(ResizeArgs& a) { in(a.x, a.added), out(a.out); }
    void operator()(ResizeAboveArgs& a) { in(a.x); }
    void operator()(RoiAlignArgs& a) { in(a.x, a.boxes), out(a.out); }
    void operator()(GridSampleArgs& a) { in(a.x, a.grid), out(a.out); }
    void operator()(MaxPoolArgs& a) { in(a.x), out(a.out); }
    void operator()(UnaryArgs& a) { in(a.x), out(a.out); }
    void operator()(BinaryArgs& a) { in(a.a, a.b), out(a.out); }
    void operator()(CopyArgs& /*it converts*/) {}
    void operator()(JoinArgs& /*bits*/) {}
    void operator()(PermuteArgs& a) { in(a.x), out(a.out); }
    void operator()(FillArgs& a) { out(a.out); }
    void operator()(EmbeddingArgs& a) { in(a.table), out(a.out); }
    void operator()(GatherRowsArgs& a) { in(a.x), out(a.out); }
    void operator()(TopkArgs& a) { in(a.x), out(a.values); }
    void operator()(SineEmbedArgs& a) { in(a.x), out(a.out); }
    void operator()(BoxBiasArgs& /*f32 alone*/) {}
    void operator()(ResampleArgs& /*bytes*/) {}

private:
    static bool is_half(const Tensor& x) { return x && (x.dtype() == DType::bf16 || x.dtype() == DType::f16); }
    Tensor like(const Tensor& x) const {
        return Tensor(cpu_.device.allocate(static_cast<size_t>(x.numel()) * sizeof(float)), x.shape(), DType::f32);
    }
    void copy(const Tensor& from, const Tensor& to) const { cpu_.device.kernels().copy(cpu_, {from, to}); }

    template <typename... Tensors>
    void in(Tensors&... tensors) {
        (widen(tensors), ...);
    }
    void widen(Tensor& x) {
        if (!is_half(x)) return;
        const Tensor wide = like(x);
        copy(x, wide);
        x = wide;
    }
    void round(Tensor& x) const {
        const Tensor half(cpu_.device.allocate(static_cast<size_t>(x.numel()) * size_of(DType::bf16)), x.shape(),
                          DType::bf16);
        copy(x, half);
        x = half;
    }
    void out(Tensor& x) {
        if (!is_half(x)) return;
        results_.emplace_back(like(x), x);
        x = results_.back().first;
    }
    void in_place(Tensor& x) {
        const Tensor narrow = x;
        widen(x);
        if (is_half(narrow)) results_.emplace_back(x, narrow);
    }

    ExecContext cpu_;
    std::vector<std::pair<Tensor, Tensor>> results_;
};

}  // namespace sam3::test
