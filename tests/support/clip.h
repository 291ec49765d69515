#pragma once

#include "engine/model.h"
#include "image/normalize.h"
#include "image/resize.h"
#include "models/memory_tracker.h"
#include "support/goldens.h"
#include "support/models.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

namespace sam3::test {

// The small video model and the features of its frames (tests/goldens/sam3/video_model.py), each encoded once.
class Clip {
public:
    explicit Clip(const std::string& behaviour = "hf")
        : model(load(behaviour)),
          ops(model->device(), 1),
          frames_(data_path("models/sam3-v/frames.safetensors")),
          shape_(frames_.shape("frames")),
          pixels_(frames_.bytes("frames")) {}

    int64_t count() const { return shape_[0]; }
    int height() const { return static_cast<int>(shape_[1]); }
    int width() const { return static_cast<int>(shape_[2]); }

    Image picture(int64_t frame) const {
        Image image(width(), height(), 3);
        std::copy_n(pixels_.begin() + frame * static_cast<int64_t>(image.pixels.size()), image.pixels.size(),
                    image.pixels.begin());
        return image;
    }

    // Frames beyond the last begin again.
    const InteractiveFeatures& features(int64_t frame) {
        frame %= count();
        const auto known = features_.find(frame);
        if (known != features_.end()) return known->second;
        const auto side = static_cast<int>(model->image_size());
        const Preprocessing& preprocessing = model->network().preprocessing();
        Normalization normalization;
        std::copy_n(preprocessing.mean.begin(), 3, normalization.mean.begin());
        std::copy_n(preprocessing.std.begin(), 3, normalization.std.begin());
        Tensor pixels = Tensor::host({1, side, side, 3});
        normalize_image(resize(picture(frame), side, side), normalization, {side, side}, pixels.data<float>(), 1);
        const Tensor trunk = model->network().encode(ops, ops.upload(pixels));
        return features_[frame] = model->network().interactive_features(ops, trunk).front();
    }

    // A point of a frame in the network's pixels.
    VisualPrompt::Point point(float x, float y, bool positive = true) const {
        const auto side = static_cast<float>(model->image_size());
        return {x * side / static_cast<float>(width()), y * side / static_cast<float>(height()), positive};
    }

    std::shared_ptr<const Model> model;
    Ops ops;

private:
    static std::shared_ptr<const Model> load(const std::string& behaviour) {
        LoadOptions options;
        options.path = data_path("models/sam3-v");
        options.behaviour = behaviour;
        return load_model(options);
    }

    Golden frames_;
    Shape shape_;
    std::vector<uint8_t> pixels_;
    std::map<int64_t, InteractiveFeatures> features_;
};

}  // namespace sam3::test
