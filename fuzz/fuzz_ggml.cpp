#include "fuzz/weight_contents.h"
#include "weights/ggml_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        sam3::fuzz::use(sam3::parse_ggml_file(data, size, "input"));
    } catch (const sam3::Error&) {  // a wrong file: said in a sentence
    }
    return 0;
}
