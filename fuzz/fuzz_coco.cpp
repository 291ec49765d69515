#include "record_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return sam3::fuzz::read_records("coco", data, size);
}
