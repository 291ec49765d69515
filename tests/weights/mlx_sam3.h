#pragma once

#include "tests/weights/official_sam3.h"
#include "tests/weights/tensor_lists.h"
#include "weights/hashed_names.h"
#include "weights/torch_file.h"

namespace sam3::test {

// A tensor of f16 values with its dimensions in another order, written out loop by loop: result dimension i is the
// source's order[i].
inline NamedTensor permuted(const NamedTensor& source, const std::array<int, 4>& order) {
    NamedTensor result = source;
    const Shape& from = source.shape;
    const int64_t strides[4] = {from[1] * from[2] * from[3], from[2] * from[3], from[3], 1};
    for (int i = 0; i < 4; ++i) result.shape[i] = from[order[static_cast<size_t>(i)]];
    size_t at = 0;
    for (int64_t a = 0; a < result.shape[0]; ++a)
        for (int64_t b = 0; b < result.shape[1]; ++b)
            for (int64_t c = 0; c < result.shape[2]; ++c)
                for (int64_t d = 0; d < result.shape[3]; ++d, at += 2)
                    std::memcpy(result.data.data() + at,
                                source.data.data() + 2 * (a * strides[order[0]] + b * strides[order[1]] +
                                                          c * strides[order[2]] + d * strides[order[3]]),
                                2);
    return result;
}

// What mlx_sam3's converter makes of Meta's detector.
inline std::vector<NamedTensor> mlx_tensors(const std::vector<NamedTensor>& official) {
    std::vector<NamedTensor> result;
    for (NamedTensor tensor : official) {
        const std::string prefix = "detector.";
        if (tensor.name.compare(0, prefix.size(), prefix) != 0) continue;
        tensor.name = tensor.name.substr(prefix.size());
        const std::string& name = tensor.name;
        const auto has = [&](const char* text) { return name.find(text) != name.npos; };
        const size_t fused = name.find("in_proj_");
        if (fused != name.npos) {
            const size_t third = tensor.data.size() / 3;
            const char* const parts[] = {"query_proj.", "key_proj.", "value_proj."};
            for (size_t i = 0; i < 3; ++i) {
                NamedTensor part = tensor;
                part.name = name.substr(0, fused) + parts[i] + name.substr(fused + 8);
                part.shape[0] /= 3;
                part.data.assign(tensor.data.begin() + static_cast<ptrdiff_t>(i * third),
                                 tensor.data.begin() + static_cast<ptrdiff_t>((i + 1) * third));
                result.push_back(std::move(part));
            }
            continue;
        }
        if (tensor.shape.rank() == 4 && has("vision_backbone.convs.") && has("dconv_2x2"))
            tensor = permuted(tensor, {1, 2, 3, 0});
        else if (tensor.shape.rank() == 4 && (has("patch_embed.proj") || has("vision_backbone.convs.") ||
                                              has("pixel_decoder.conv_layers") || has("_seg_head")))
            tensor = permuted(tensor, {0, 2, 3, 1});
        result.push_back(std::move(tensor));
    }
    return result;
}

inline std::vector<NamedTensor> mlx_sam3() {
    const Bytes bytes = official_sam3();
    return mlx_tensors(tensors_of(parse_torch_file(bytes.data(), bytes.size(), "sam3.pt")));
}

}  // namespace sam3::test
