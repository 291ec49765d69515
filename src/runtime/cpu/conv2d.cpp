#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/packed_weights.h"
#include "runtime/cpu/source_rows.h"
#include "util/error.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace sam3::cpu {

namespace {

struct CpuPackedConv2d final : PackedConv2d {
    // One per group; rows of the product are pixels, its depth [kh, kw, cin].
    std::vector<std::unique_ptr<PackedWeights>> groups_weights;
    Tensor depthwise;  // [kh, kw, channels] instead, when every channel is its own group
    Tensor bias;       // [out_channels] or undefined

    const float* bias_data() const { return bias ? bias.data<float>() : nullptr; }
};

// The pixels under the kernel, for each output pixel a row [kh, kw, cin / groups]; zero outside the image.
class PixelRows final : public GemmRows {
public:
    PixelRows(const Conv2dArgs& args, const PackedConv2d& conv, int64_t group)
        : height_(args.x.dim(1)),
          width_(args.x.dim(2)),
          channels_(conv.in_channels),
          group_channels_(conv.in_channels / conv.groups),
          out_height_(args.out.dim(1)),
          out_width_(args.out.dim(2)),
          stride_(conv.stride),
          padding_(conv.padding),
          // Without groups the pixels of a kernel row lie side by side and are copied in one go.
          run_pixels_(conv.groups == 1 ? conv.kernel_w : 1),
          runs_(conv.groups == 1 ? 1 : conv.kernel_w),
          data_(args.x.data<float>() + group * group_channels_) {}

    void copy(int64_t row, int64_t rows, int64_t k, int64_t depth, float* to) const override {
        const int64_t run = run_pixels_ * group_channels_;
        const int64_t first_run = k / run;
        const int64_t first_skip = k % run;
        int64_t out_x = row % out_width_;
        int64_t out_y = row / out_width_ % out_height_;
        const float* image = data_ + row / out_width_ / out_height_ * height_ * width_ * channels_;
        for (int64_t i = 0; i < rows; ++i, to += simd::kGemmDepthStride) {
            int64_t skip = first_skip;
            int64_t y = out_y * stride_ - padding_ + first_run / runs_;
            int64_t run_x = first_run % runs_;
            for (int64_t done = 0; done < depth;) {
                const int64_t count = std::min(run - skip, depth - done);
                copy_run(image, y, out_x * stride_ - padding_ + run_x, skip, count, to + done);
                done += count;
                skip = 0;
                if (++run_x == runs_) {
                    run_x = 0;
                    ++y;
                }
            }
            if (++out_x < out_width_) continue;
            out_x = 0;
            if (++out_y < out_height_) continue;
            out_y = 0;
            image += height_ * width_ * channels_;
        }
    }

private:
    // Elements [skip, skip + count) of the run of pixels that starts at (y, x).
    void copy_run(const float* image, int64_t y, int64_t x, int64_t skip, int64_t count, float* to) const {
        const float* from = image + (y * width_ + x) * channels_ + skip;
        if (y < 0 || y >= height_) {
            std::fill_n(to, count, 0.0F);
        } else if (x >= 0 && x + run_pixels_ <= width_) {
            copy_floats(to, from, count);
        } else {  // only [first, last) lies inside the image
            const int64_t first = std::clamp<int64_t>(-x * group_channels_ - skip, 0, count);
            const int64_t last = std::clamp<int64_t>((width_ - x) * group_channels_ - skip, first, count);
            std::fill_n(to, first, 0.0F);
            copy_floats(to + first, from + first, last - first);
            std::fill_n(to + last, count - last, 0.0F);
        }
    }

    // Runs may be three floats short: there a call of memcpy would cost more than the copy.
    static void copy_floats(float* to, const float* from, int64_t count) {
        constexpr int64_t kShort = 32;
        if (count > kShort) {
            std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
            return;
        }
        for (; count >= 4; count -= 4, to += 4, from += 4) std::memcpy(to, from, 4 * sizeof(float));
        for (; count > 0; --count) *to++ = *from++;
    }

    int64_t height_, width_, channels_, group_channels_;
    int64_t out_height_, out_width_, stride_, padding_;
    int64_t run_pixels_, runs_;
    const float* data_;
};

void check(const Conv2dSource& source) {
    const Tensor& weight = source.weight.values;
    const DType expected = source.weight.coded() ? DType::i8 : DType::f32;
    if (!weight || weight.rank() != 4 || weight.dtype() != expected || !weight.is_dense())
        fail("a convolution's weights must be dense ", name_of(expected), " [out, in, kh, kw]",
             weight ? ", got " + to_string(weight.shape()) : "");
    if (source.stride < 1 || source.padding < 0 || source.groups < 1 || weight.dim(0) % source.groups != 0)
        fail("a convolution with weights ", to_string(weight.shape()), " cannot have stride ", source.stride,
             ", padding ", source.padding, " and ", source.groups, " groups");
    if (source.bias && (source.bias.shape() != Shape({weight.dim(0)}) || source.bias.dtype() != DType::f32))
        fail("the bias of convolution weights ", to_string(weight.shape()), " must be f32 [", weight.dim(0), "], got ",
             to_string(source.bias.shape()));
}

// [out, cin, kh, kw] -> [out, kh * kw * cin]
template <typename Element>
Tensor channels_last(const Tensor& weight) {
    const int64_t out = weight.dim(0), in = weight.dim(1), taps = weight.dim(2) * weight.dim(3);
    Tensor result = Tensor::host({out, taps * in}, weight.dtype());
    const auto* from = weight.data<Element>();
    auto* to = result.data<Element>();
    for (int64_t o = 0; o < out; ++o, to += taps * in)
        for (int64_t i = 0; i < in; ++i)
            for (int64_t t = 0; t < taps; ++t) to[t * in + i] = *from++;
    return result;
}

LayerWeights channels_last(const LayerWeights& weight) {
    if (weight.coded()) return {channels_last<int8_t>(weight.values), weight.scales};
    return channels_last<float>(weight.values);
}

// [channels, 1, kh, kw] -> [kh, kw, channels], always in f32
Tensor depthwise_taps(const LayerWeights& weight) {
    const Tensor& values = weight.values;
    const int64_t channels = values.dim(0), taps = values.dim(2) * values.dim(3);
    const LayerWeights matrix{values.reshape({channels, taps}), weight.scales};
    const SourceRows rows({&matrix, 1});
    Tensor result = Tensor::host({values.numel()});
    std::vector<float> scratch(static_cast<size_t>(taps));
    for (int64_t c = 0; c < channels; ++c) {
        const float* row = rows.floats(c, scratch.data());
        for (int64_t t = 0; t < taps; ++t) result.data<float>()[t * channels + c] = row[t];
    }
    return result;
}

Tensor copy_to_device(Device& device, const Tensor& host) {
    const size_t bytes = static_cast<size_t>(host.numel()) * sizeof(float);
    Tensor copy(device.allocate(bytes), host.shape(), DType::f32);
    std::memcpy(copy.raw(), host.raw(), bytes);
    return copy;
}

void depthwise_conv2d(const ExecContext& context, const Conv2dArgs& args, const CpuPackedConv2d& conv) {
    const int64_t height = args.x.dim(1);
    const int64_t lines = args.out.dim(0) * args.out.dim(1);
    const int64_t line_size = args.out.dim(2) * args.out.dim(3);
    simd::DepthwiseRow all{};
    all.in_width = args.x.dim(2);
    all.in_stride = args.x.dim(2) * args.x.dim(3);
    all.channels = args.x.dim(3);
    all.kernel_w = conv.kernel_w;
    all.stride = conv.stride;
    all.padding = conv.padding;
    all.out_width = args.out.dim(2);
    all.bias = conv.bias_data();
    all.activation = static_cast<simd::Epilogue>(args.activation);
    const simd::Table& table = simd::table();

#pragma omp parallel for schedule(static) num_threads(context.threads) if (context.threads > 1)
    for (int64_t line = 0; line < lines; ++line) {
        const int64_t y = line % args.out.dim(1) * conv.stride - conv.padding;
        const int64_t first = std::clamp<int64_t>(-y, 0, conv.kernel_h);  // kernel rows inside the image
        const int64_t last = std::clamp<int64_t>(height - y, first, conv.kernel_h);
        simd::DepthwiseRow row = all;
        row.in = args.x.data<float>() + (line / args.out.dim(1) * height + y + first) * all.in_stride;
        row.weights = conv.depthwise.data<float>() + first * conv.kernel_w * all.channels;
        row.kernel_h = last - first;
        row.out = args.out.data<float>() + line * line_size;
        row.residual = args.residual ? args.residual.data<float>() + line * line_size : nullptr;
        table.depthwise_row(row);
    }
}

}  // namespace

std::shared_ptr<const PackedConv2d> pack_conv2d(Device& device, const Conv2dSource& source, Precision precision) {
    check(source);
    auto packed = std::make_shared<CpuPackedConv2d>();
    const Tensor& weight = source.weight.values;
    packed->in_channels = weight.dim(1) * source.groups;
    packed->out_channels = weight.dim(0);
    packed->kernel_h = static_cast<int>(weight.dim(2));
    packed->kernel_w = static_cast<int>(weight.dim(3));
    packed->stride = source.stride;
    packed->padding = source.padding;
    packed->groups = source.groups;
    if (source.bias) packed->bias = copy_to_device(device, source.bias);

    if (source.groups > 1 && weight.dim(1) == 1 && weight.dim(0) == source.groups) {
        packed->depthwise = copy_to_device(device, depthwise_taps(source.weight));
        return packed;
    }
    const LayerWeights ordered = channels_last(source.weight);
    const int64_t columns = weight.dim(0) / source.groups;
    for (int64_t g = 0; g < source.groups; ++g) {
        const LayerWeights group{ordered.values.slice(0, g * columns, columns),
                                 ordered.coded() ? ordered.scales.slice(0, g * columns, columns) : Tensor()};
        packed->groups_weights.push_back(pack_weights(device, SourceRows({&group, 1}), precision));
    }
    return packed;
}

void conv2d(const ExecContext& context, const Conv2dArgs& args) {
    const auto* conv = dynamic_cast<const CpuPackedConv2d*>(args.weights);
    if (conv == nullptr) fail("these weights were packed for another device than the CPU: load the model for it");
    if (conv->depthwise) return depthwise_conv2d(context, args, *conv);

    const int64_t pixels = args.out.dim(0) * args.out.dim(1) * args.out.dim(2);
    const int64_t columns = conv->out_channels / conv->groups;
    for (int64_t g = 0; g < conv->groups; ++g) {
        const PixelRows rows(args, *conv, g);
        GemmProduct product;
        product.a = &rows;
        product.out = args.out.data<float>() + g * columns;
        product.out_rows.stride_x = conv->out_channels;
        product.residual = args.residual ? args.residual.data<float>() + g * columns : nullptr;
        product.residual_rows = product.out_rows;
        product.bias = conv->bias ? conv->bias.data<float>() + g * columns : nullptr;
        product.activation = args.activation;
        conv->groups_weights[static_cast<size_t>(g)]->multiply(context, pixels, product);
    }
}

}  // namespace sam3::cpu
