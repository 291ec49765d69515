#pragma once

#include <cmath>

namespace sam3 {

inline float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace sam3
