#pragma once

#include "weights/weight_file.h"

#include <memory>

namespace sam3 {

// A SAM 3 of the published size that finds nothing: random matrices, norms of ones. As good as the published weights
// for measurements of time, of which no operator's depends on the values. Its tensors share one block of memory.
std::shared_ptr<const WeightFile> random_sam3_weights();

}  // namespace sam3
