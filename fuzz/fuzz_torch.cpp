#include "fuzz/weight_contents.h"
#include "weights/torch_file.h"

// The whole of a PyTorch file: the zip archive, the pickle in it and the tensors that it describes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        sam3::fuzz::use(sam3::parse_torch_file(data, size, "input"));
    } catch (const sam3::Error&) {  // a wrong file: said in a sentence
    }
    return 0;
}
