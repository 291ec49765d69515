#include "engine/image_session.h"

#include "image/normalize.h"
#include "image/resize.h"
#include "util/error.h"

#include <algorithm>

namespace sam3 {

namespace {

Image as_rgb(const Image& image) {
    check_image(image);
    if (image.channels == 3) return image;
    Image rgb(image.width, image.height, 3);
    const size_t pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    const auto step = static_cast<size_t>(image.channels);
    for (size_t i = 0; i < pixels; ++i)
        for (size_t c = 0; c < 3; ++c) rgb.pixels[3 * i + c] = image.pixels[step * i + (step == 1 ? 0 : c)];
    return rgb;
}

// Beside a GPU the host has little to do, and threads that wait for more keep cores busy.
int threads_for(const Device& device, int wanted) {
    constexpr int kMostBesideGpu = 8;
    return device.is_host() ? wanted : std::min(wanted, kMostBesideGpu);
}

}  // namespace

ImageSession::ImageSession(std::shared_ptr<const Model> model, int threads)
    : model_(std::move(model)), ops_(model_->device(), threads_for(model_->device(), threads)) {
    ops_.set_precision(model_->precision());
}

Normalization ImageSession::normalization() const {
    const Preprocessing& preprocessing = model_->network().preprocessing();
    Normalization normalization;
    std::copy_n(preprocessing.mean.begin(), 3, normalization.mean.begin());
    std::copy_n(preprocessing.std.begin(), 3, normalization.std.begin());
    return normalization;
}

// As normalize_image does it; four pixels side by side, which GPUs read at once.
Tensor ImageSession::normalized(const Tensor& bytes) {
    const int64_t together = bytes.dim(2) % 4 == 0 ? 4 : 1;
    if (!mean_and_std_) {
        const Normalization normalization = this->normalization();
        Tensor numbers = Tensor::host({2, 3 * together});
        for (int64_t i = 0; i < 3 * together; ++i) {
            numbers.data<float>()[i] = normalization.mean[static_cast<size_t>(i % 3)] * 255.0F;
            numbers.data<float>()[3 * together + i] = normalization.std[static_cast<size_t>(i % 3)] * 255.0F;
        }
        mean_and_std_ = ops_.upload(numbers);
    }
    return ops_.stage("normalize", {bytes}, [&](const std::vector<Tensor>& in) {
        const Tensor wide = ops_.cast(in[0], DType::f32).reshape({bytes.numel() / (3 * together), 3 * together});
        const Tensor centred = ops_.sub(wide, mean_and_std_.select(0, 0));
        return std::vector<Tensor>{
            ops_.binary(centred, mean_and_std_.select(0, 1), Binary::div).reshape(bytes.shape())};
    })[0];
}

// Rows or columns, x [A, from, B] -> [A, to, B].
Tensor ImageSession::resampled(const Tensor& x, int from, int to) {
    if (from == to) return x;
    const auto axis = axes_.get(from, to, [&] {
        const ResizeWeights weights = resize_weights(from, to);
        const auto upload = [&](const std::vector<int32_t>& values, const Shape& shape) {
            return ops_.upload(Tensor::wrap_host(values.data(), shape, DType::i32));
        };
        return ResizeAxis{upload(weights.first, {to}), upload(weights.weights, {to, weights.capacity}),
                          weights.precision};
    });
    return ops_.resample(x, axis->first, axis->weights, axis->precision);
}

// As resize() does it, byte for byte; u8 [1, side, side, 3].
Tensor ImageSession::resized_on_device(const Image& image, int side) {
    const Image rgb = image.channels == 3 ? Image() : as_rgb(image);
    const Image& source = image.channels == 3 ? image : rgb;
    const Tensor pixels =
        ops_.upload(Tensor::wrap_host(source.pixels.data(), {source.height, source.width, 3}, DType::u8));
    const Tensor narrow = resampled(pixels, source.width, side).reshape({1, source.height, 3 * int64_t{side}});
    return resampled(narrow, source.height, side).reshape({1, side, side, 3});
}

void ImageSession::forget_images() {
    sizes_.clear();
    seconds_.clear();
    trunk_ = {};
    detector_features_ = {};
    interactive_features_.clear();
}

void ImageSession::encode_pixels(const Tensor& pixels, std::vector<ImageSize> sizes) {
    const Timing timing = time_step("image_encoder");
    trunk_ = model_->network().encode(ops_, pixels);
    sizes_ = std::move(sizes);
    ++encodings_;
}

void ImageSession::encode(std::span<const Image> images) {
    if (images.empty()) fail("there is no image to encode");
    forget_images();
    const auto side = static_cast<int>(model_->image_size());
    const bool keep_aspect = model_->network().preprocessing().keep_aspect;
    // A device of its own resizes itself, unless borders must be zero after normalising.
    const bool bytes = !ops_.device().is_host() && !keep_aspect;
    Tensor pixels;
    std::vector<ImageSize> sizes;
    {
        const Timing timing = time_step("preprocess");
        std::vector<Tensor> each;
        for (const Image& image : images) {
            check_image(image);
            const Size inside = keep_aspect ? fit_longest_side({image.width, image.height}, side) : Size{side, side};
            sizes.push_back({image.width, image.height, inside.width, inside.height});
            if (bytes) {
                each.push_back(resized_on_device(image, side));
                continue;
            }
            const Image scaled = resize(as_rgb(image), inside.width, inside.height, {.threads = ops_.threads()});
            const Tensor host = Tensor::host({1, side, side, 3});
            normalize_image(scaled, normalization(), {side, side}, host.data<float>(), ops_.threads());
            each.push_back(ops_.upload(host));
        }
        pixels = ops_.concat(each, 0);
        if (bytes) pixels = normalized(pixels);
    }
    encode_pixels(pixels, std::move(sizes));
}

void ImageSession::encode_on_device(const Tensor& pixels) {
    const auto side = static_cast<int>(model_->image_size());
    if (pixels.rank() != 4 || pixels.dtype() != DType::u8 || pixels.dim(0) == 0 ||
        pixels.shape() != Shape({pixels.dim(0), side, side, 3}))
        fail("expected the pixels of images as bytes, N x ", side, " x ", side, " x 3, found ",
             to_string(pixels.shape()));
    forget_images();
    encode_pixels(normalized(pixels),
                  std::vector<ImageSize>(static_cast<size_t>(pixels.dim(0)), {side, side, side, side}));
}

}  // namespace sam3
