#pragma once

#include "util/error.h"
#include "weights/binder.h"
#include "weights/codecs.h"
#include "weights/name_maps.h"

#include <cstdlib>
#include <memory>
#include <vector>

// What a program does with a file that a reader accepted: every promise of the reader is relied on here.
namespace sam3::fuzz {

inline void decode_everything(const WeightFile& file) {
    size_t budget = size_t{1} << 22;  // a file of zero-byte types cannot claim more values than it has bytes
    for (const WeightTensor& tensor : file.tensors()) {
        if (tensor.type == WeightType::unsupported) continue;
        const int64_t count = tensor.shape.numel();
        if (static_cast<uint64_t>(count / block_size(tensor.type) * block_bytes(tensor.type)) != tensor.bytes)
            std::abort();
        if (static_cast<size_t>(count) > budget) continue;
        budget -= static_cast<size_t>(count);
        std::vector<float> values(static_cast<size_t>(count));
        decode_to_f32(tensor.type, tensor.data, count, values.data());
    }
}

// Reads every code and every scale, as packing does.
inline void use_weights(const LayerWeights& weights, OutputChannels channels) {
    if (!weights.coded()) return;
    if (weights.scales.shape() != int8_scale_shape(weights.values.shape(), channels)) std::abort();
    float sum = 0;
    for (int64_t i = 0; i < weights.values.numel(); ++i) sum += static_cast<float>(weights.values.data<int8_t>()[i]);
    for (int64_t i = 0; i < weights.scales.numel(); ++i) sum += weights.scales.data<float>()[i];
    volatile float kept = sum;
    (void)kept;
}

inline void bind_everything(const std::shared_ptr<const WeightFile>& file, const NameMap& names) {
    WeightLoader loader(file, names);
    const Scope root = loader.root();
    for (const WeightTensor& tensor : file->tensors()) {
        const auto shape = root.shape_of(tensor.name);
        if (shape && checked_numel(*shape).value_or(INT64_MAX) < (1 << 20)) {
            root.tensor(tensor.name, *shape);
            use_weights(root.weights(tensor.name, *shape), OutputChannels::first);
            use_weights(root.weights(tensor.name, *shape, OutputChannels::rest), OutputChannels::rest);
        }
        root.tensor(tensor.name + "x", {1});
    }
    loader.finish("the input", sam3_unused_weights());
}

inline void use(WeightFileContents contents) {
    const auto file = std::make_shared<const WeightFile>(std::move(contents));
    decode_everything(*file);
    // One map for an input keeps the fuzzer fast.
    const NameMap* const maps[] = {&sam3_official_names(), &identity_name_map(), &sam3_hf_names(), &sam3_ggml_names()};
    try {
        bind_everything(file, *maps[file->tensors().size() % 4]);
    } catch (const Error&) {  // a wrong file: said in a sentence
    }
}

}  // namespace sam3::fuzz
