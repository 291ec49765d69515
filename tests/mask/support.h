#pragma once

#include "mask/mask.h"

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

// Masks to test with, and the noise shared with tests/goldens/masks.py.
namespace sam3::test {

// '#' is set; all rows have one length.
inline Mask draw(const std::vector<std::string>& rows) {
    Mask mask(rows.empty() ? 0 : static_cast<int>(rows[0].size()), static_cast<int>(rows.size()));
    for (int y = 0; y < mask.height; ++y)
        for (int x = 0; x < mask.width; ++x)
            mask.at(x, y) = rows[static_cast<size_t>(y)][static_cast<size_t>(x)] == '#';
    return mask;
}

inline Mask random_mask(int width, int height, unsigned seed, double density = 0.5) {
    Mask mask(width, height);
    std::mt19937 generator(seed);
    std::bernoulli_distribution coin(density);
    for (uint8_t& value : mask.data) value = coin(generator) ? 1 : 0;
    return mask;
}

// Every density and many shapes, the empty and the thin ones too.
inline std::vector<Mask> many_masks() {
    std::vector<Mask> masks = {Mask(0, 0), Mask(0, 3), Mask(3, 0), Mask(1, 1), random_mask(1, 1, 1, 1.0)};
    unsigned seed = 1;
    for (const auto& [width, height] : std::vector<std::pair<int, int>>{{1, 20}, {20, 1}, {7, 5}, {16, 16}, {33, 20}})
        for (const double density : {0.0, 0.1, 0.35, 0.5, 0.6, 0.9, 1.0})
            masks.push_back(random_mask(width, height, ++seed, density));
    return masks;
}

inline std::vector<float> noise_logits(int width, int height, uint32_t seed) {
    std::vector<float> logits(static_cast<size_t>(width) * static_cast<size_t>(height));
    for (size_t i = 0; i < logits.size(); ++i) {
        uint32_t v = static_cast<uint32_t>(i) * 2654435761U + seed * 40503U;
        v = (v ^ (v >> 15)) * 2246822519U;
        v = (v ^ (v >> 13)) * 3266489917U;
        logits[i] = static_cast<float>(v >> 24) / 16.0F - 8.0F;
    }
    return logits;
}

inline std::vector<std::istringstream> data_lines(const std::string& name) {
    std::ifstream file(std::string(SAM3_TEST_DATA) + "/" + name);
    std::vector<std::istringstream> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') lines.emplace_back(line);
    return lines;
}

}  // namespace sam3::test
