#pragma once

#include "engine/concept_heuristics.h"
#include "support/data_path.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <span>
#include <string>
#include <vector>

// Made-up masks for the rules of concept video, drawn as tests/goldens/sam3/concept_heuristics.py draws them.
namespace sam3::test {

using Json = nlohmann::json;

inline constexpr int kSide = 16;

// {"discs": x, y, radius, ...} and {"dots": x, y, value, ...}
struct Drawing {
    std::vector<int> discs, dots{};
};

inline Drawing drawing(const Json& json) {
    return {json.at(0).get<std::vector<int>>(), json.at(1).get<std::vector<int>>()};
}

inline void draw(const Drawing& drawing, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), -8.0F);
    const auto at = [&](int x, int y) -> float& { return logits[static_cast<size_t>(y * kSide + x)]; };
    for (size_t d = 0; d < drawing.discs.size(); d += 3) {
        const int radius = drawing.discs[d + 2];
        for (int y = 0; y < kSide; ++y)
            for (int x = 0; x < kSide; ++x) {
                const int dx = x - drawing.discs[d], dy = y - drawing.discs[d + 1];
                const auto value = static_cast<float>(radius * radius - dx * dx - dy * dy) / 4;
                at(x, y) = std::max(at(x, y), std::clamp(value, -8.0F, 8.0F));
            }
    }
    for (size_t d = 0; d < drawing.dots.size(); d += 3)
        at(drawing.dots[d], drawing.dots[d + 1]) = static_cast<float>(drawing.dots[d + 2]) / 4;
}

inline Tensor stack(const std::vector<Drawing>& drawings) {
    if (drawings.empty()) return {};
    Tensor masks = Tensor::host({static_cast<int64_t>(drawings.size()), kSide, kSide});
    for (size_t i = 0; i < drawings.size(); ++i) draw(drawings[i], stack_row(masks, static_cast<int64_t>(i)));
    return masks;
}

inline Tensor stack(const Json& drawings) {
    std::vector<Drawing> list;
    for (const Json& entry : drawings) list.push_back(drawing(entry));
    return stack(list);
}

inline uint32_t crc(const void* data, size_t bytes) {
    uint32_t value = ~0U;
    for (size_t i = 0; i < bytes; ++i) {
        value ^= static_cast<const uint8_t*>(data)[i];
        for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320U : 0U);
    }
    return ~value;
}

inline std::vector<uint32_t> crcs(const Tensor& masks) {
    std::vector<uint32_t> values;
    for (int64_t i = 0; i < stack_size(masks); ++i)
        values.push_back(crc(stack_row(masks, i).data(), stack_row(masks, i).size_bytes()));
    return values;
}

inline Json read_json(const std::string& name) {
    std::ifstream file(data_path(name));
    return Json::parse(file);
}

}  // namespace sam3::test
