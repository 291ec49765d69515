#pragma once

#include "weights/weight_file.h"

namespace sam3 {

// Reads a file that torch.save wrote (.pt, .pth, pytorch_model.bin): a zip archive with a pickle and the numbers beside
// it. The pickle is taken as a description; nothing in it is run. The state dict may be the whole file or lie under
// "model" or "state_dict"; what is no tensor is passed over. Tensors point into `data` where their values lie in order,
// otherwise into copies that the contents own.
WeightFileContents parse_torch_file(const uint8_t* data, size_t size, const std::string& path);

WeightFileContents open_torch_file(std::shared_ptr<const MappedFile> file);

}  // namespace sam3
