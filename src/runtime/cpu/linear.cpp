#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/packed_weights.h"
#include "util/error.h"

#include <algorithm>
#include <cstring>

namespace sam3::cpu {

namespace {

void check(const LinearSource& source) {
    if (source.weights.empty()) fail("a linear layer needs at least one weight matrix");
    if (!source.biases.empty() && source.biases.size() != source.weights.size())
        fail("a linear layer of ", source.weights.size(), " weight matrices has ", source.biases.size(), " biases");
    for (size_t i = 0; i < source.weights.size(); ++i) {
        const Tensor& weight = source.weights[i];
        if (!weight || weight.rank() != 2 || weight.dtype() != DType::f32)
            fail("a linear layer's weights must be f32 [out, in]", weight ? ", got " + to_string(weight.shape()) : "");
        if (weight.dim(1) != source.weights[0].dim(1))
            fail("stacked weights must have one input size, got ", to_string(source.weights[0].shape()), " and ",
                 to_string(weight.shape()));
        if (source.biases.empty() || !source.biases[i]) continue;
        const Tensor& bias = source.biases[i];
        if (bias.shape() != Shape({weight.dim(0)}) || bias.dtype() != DType::f32)
            fail("the bias of weights ", to_string(weight.shape()), " must be f32 [", weight.dim(0), "], got ",
                 to_string(bias.shape()));
    }
}

Tensor stacked_bias(Device& device, const LinearSource& source, int64_t out) {
    const auto defined = [](const Tensor& bias) { return bias.defined(); };
    if (std::none_of(source.biases.begin(), source.biases.end(), defined)) return {};
    Tensor stacked(device.allocate(static_cast<size_t>(out) * sizeof(float)), {out}, DType::f32);
    float* to = stacked.data<float>();
    for (size_t i = 0; i < source.weights.size(); ++i) {
        const int64_t count = source.weights[i].dim(0);
        if (source.biases[i])
            std::copy_n(source.biases[i].data<float>(), count, to);
        else
            std::fill_n(to, count, 0.0F);
        to += count;
    }
    return stacked;
}

// The rows of all matrices below each other; a view when there is one.
Tensor stacked_weights(const LinearSource& source, int64_t out) {
    if (source.weights.size() == 1) return source.weights[0];
    const int64_t in = source.weights[0].dim(1);
    Tensor stacked = Tensor::host({out, in});
    float* to = stacked.data<float>();
    for (const Tensor& weight : source.weights) {
        for (int64_t row = 0; row < weight.dim(0); ++row, to += in)
            std::copy_n(weight.data<float>() + row * weight.stride(0), in, to);
    }
    return stacked;
}

}  // namespace

std::shared_ptr<const PackedLinear> pack_linear(Device& device, const LinearSource& source, Precision precision) {
    check(source);
    int64_t out = 0;
    for (const Tensor& weight : source.weights) out += weight.dim(0);
    const Tensor weights = stacked_weights(source, out);
    auto packed = std::make_shared<CpuPackedLinear>();
    packed->in_features = weights.dim(1);
    packed->out_features = out;
    packed->weights =
        pack_weights(device, weights.data<float>(), weights.stride(0), out, packed->in_features, precision);
    packed->bias = stacked_bias(device, source, out);
    return packed;
}

void linear(const ExecContext& context, const LinearArgs& args) {
    const CpuPackedLinear& weights = cpu_weights(*args.weights);
    const MatrixRows rows(args.x.data<float>(), args.x.stride(0));
    GemmProduct product;
    product.a = &rows;
    product.out = args.out.data<float>();
    product.out_rows.stride_x = args.out.stride(0);
    if (args.residual) {
        product.residual = args.residual.data<float>();
        product.residual_rows.stride_x = args.residual.stride(0);
    }
    product.bias = weights.bias_data();
    product.activation = args.activation;
    weights.weights->multiply(context, args.x.dim(0), product);
}

}  // namespace sam3::cpu
