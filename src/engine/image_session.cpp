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

}  // namespace

ImageSession::ImageSession(std::shared_ptr<const Model> model, int threads)
    : model_(std::move(model)), ops_(model_->device(), threads) {
    ops_.set_precision(model_->precision());
}

// As normalize_image does it.
Tensor ImageSession::normalized(const Tensor& bytes, const Normalization& normalization) {
    Tensor numbers = Tensor::host({2, 3});
    for (int64_t c = 0; c < 3; ++c) {
        numbers.data<float>()[c] = normalization.mean[static_cast<size_t>(c)] * 255.0F;
        numbers.data<float>()[3 + c] = normalization.std[static_cast<size_t>(c)] * 255.0F;
    }
    const Tensor table = ops_.upload(numbers);
    const Tensor centred = ops_.sub(ops_.cast(bytes, DType::f32), table.select(0, 0));
    return ops_.binary(centred, table.select(0, 1), Binary::div);
}

void ImageSession::encode(std::span<const Image> images) {
    if (images.empty()) fail("there is no image to encode");
    sizes_.clear();
    seconds_.clear();
    trunk_ = {};
    detector_features_ = {};
    no_geometry_.assign(images.size(), {});
    interactive_features_.clear();
    const auto side = static_cast<int>(model_->image_size());
    const Preprocessing& preprocessing = model_->network().preprocessing();
    Normalization normalization;
    std::copy_n(preprocessing.mean.begin(), 3, normalization.mean.begin());
    std::copy_n(preprocessing.std.begin(), 3, normalization.std.begin());

    // A device of its own gets bytes, a quarter of the traffic, unless borders must be zero after normalising.
    const bool bytes = !ops_.device().is_host() && !preprocessing.keep_aspect;
    const Tensor pixels =
        Tensor::host({static_cast<int64_t>(images.size()), side, side, 3}, bytes ? DType::u8 : DType::f32);
    std::vector<ImageSize> sizes;
    {
        const Timing timing = time_step("preprocess");
        for (size_t i = 0; i < images.size(); ++i) {
            const Size inside = preprocessing.keep_aspect ? fit_longest_side({images[i].width, images[i].height}, side)
                                                          : Size{side, side};
            const Image scaled = resize(as_rgb(images[i]), inside.width, inside.height, {.threads = ops_.threads()});
            const Tensor own = pixels.slice(0, static_cast<int64_t>(i), 1);
            if (bytes)
                std::copy(scaled.pixels.begin(), scaled.pixels.end(), own.data<uint8_t>());
            else
                normalize_image(scaled, normalization, {side, side}, own.data<float>(), ops_.threads());
            sizes.push_back({images[i].width, images[i].height, inside.width, inside.height});
        }
    }
    const Timing timing = time_step("image_encoder");
    trunk_ =
        model_->network().encode(ops_, bytes ? normalized(ops_.upload(pixels), normalization) : ops_.upload(pixels));
    sizes_ = std::move(sizes);
    ++encodings_;
}

}  // namespace sam3
