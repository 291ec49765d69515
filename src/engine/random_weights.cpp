#include "engine/random_weights.h"

#include "models/sam3.h"
#include "runtime/shape_device.h"
#include "weights/binder.h"

#include <algorithm>
#include <random>
#include <vector>

namespace sam3 {

namespace {

constexpr float kSpread = 0.04F;  // of the values: what a layer of 1024 inputs makes of them stays near 1
constexpr int64_t kLongestNorm = 1 << 16;

// Names and shapes of everything that the network asks for: an empty file lacks exactly that.
std::vector<WeightLoader::Missing> wanted_tensors() {
    ShapeDevice device;
    WeightLoader loader(std::make_shared<WeightFile>(WeightFileContents{}), identity_name_map(), Reading::shapes);
    const Sam3 network({device}, loader.root(), Sam3Config());
    return loader.missing();
}

// Ones for norms, then random values for everything else.
std::shared_ptr<const std::vector<uint8_t>> make_block(int64_t count) {
    const auto bytes =
        std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(kLongestNorm + count) * sizeof(float));
    auto* const values = reinterpret_cast<float*>(bytes->data());
    std::fill_n(values, kLongestNorm, 1.0F);
    std::minstd_rand generator(1);
    constexpr float kMiddle = 0.5F * static_cast<float>(std::minstd_rand::max());
    std::generate_n(values + kLongestNorm, count,
                    [&] { return kSpread * (static_cast<float>(generator()) / kMiddle - 1.0F); });
    return bytes;
}

bool is_norm(const WeightLoader::Missing& tensor) {
    return tensor.shape.rank() == 1 && tensor.name.ends_with("weight");
}

}  // namespace

std::shared_ptr<const WeightFile> random_sam3_weights() {
    const std::vector<WeightLoader::Missing> wanted = wanted_tensors();
    int64_t largest = 0;
    for (const WeightLoader::Missing& tensor : wanted) largest = std::max(largest, tensor.shape.numel());
    WeightFileContents contents;
    contents.format = "random weights";
    contents.path = "random SAM 3";
    contents.copies.push_back(make_block(largest));
    const uint8_t* const block = contents.copies.front()->data();
    for (const WeightLoader::Missing& tensor : wanted) {
        const uint8_t* data = is_norm(tensor) ? block : block + kLongestNorm * sizeof(float);
        contents.tensors.push_back({tensor.name, WeightType::f32, tensor.shape, data,
                                    static_cast<size_t>(tensor.shape.numel()) * sizeof(float), "F32"});
    }
    return std::make_shared<const WeightFile>(std::move(contents));
}

}  // namespace sam3
