#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/packed_weights.h"
#include "runtime/cpu/source_rows.h"
#include "util/error.h"

#include <algorithm>

namespace sam3::cpu {

namespace {

void check_biases(const LinearSource& source) {
    if (!source.biases.empty() && source.biases.size() != source.weights.size())
        fail("a linear layer of ", source.weights.size(), " weight matrices has ", source.biases.size(), " biases");
    for (size_t i = 0; i < source.biases.size(); ++i) {
        const Tensor &weight = source.weights[i].values, &bias = source.biases[i];
        if (bias && (bias.shape() != Shape({weight.dim(0)}) || bias.dtype() != DType::f32))
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
        const int64_t count = source.weights[i].values.dim(0);
        if (source.biases[i])
            std::copy_n(source.biases[i].data<float>(), count, to);
        else
            std::fill_n(to, count, 0.0F);
        to += count;
    }
    return stacked;
}

}  // namespace

std::shared_ptr<const PackedLinear> pack_linear(Device& device, const LinearSource& source, Precision precision) {
    const SourceRows rows(source.weights);
    check_biases(source);
    auto packed = std::make_shared<CpuPackedLinear>();
    packed->in_features = rows.depth();
    packed->out_features = rows.count();
    packed->weights = pack_weights(device, rows, precision);
    packed->bias = stacked_bias(device, source, rows.count());
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
