#include "runtime/cpu/kernels.h"
#include "runtime/cpu/packed_weights.h"

namespace sam3::cpu {

// Each input pixel makes a 2 x 2 block of output pixels: one product whose columns [dy, dx, cout] land, for each dy, as
// 2 * cout neighbouring values in the output's row 2 * y + dy.
void conv_transpose_2x2(const ExecContext& context, const ConvTranspose2x2Args& args) {
    const CpuPackedLinear& weights = cpu_weights(*args.weights);
    const int64_t width = args.x.dim(2);
    const int64_t channels = args.out.dim(3);
    const MatrixRows rows(args.x.data<float>(), args.x.dim(3));
    GemmProduct product;
    product.a = &rows;
    product.out = args.out.data<float>();
    product.out_rows = {2 * channels, width, 4 * width * channels};
    product.residual = args.residual ? args.residual.data<float>() : nullptr;
    product.residual_rows = product.out_rows;
    product.bias = weights.bias_data();
    product.activation = args.activation;
    product.split = 2 * channels;
    product.split_stride = 2 * width * channels;
    weights.weights->multiply(context, args.x.dim(0) * args.x.dim(1) * width, product);
}

}  // namespace sam3::cpu
