#include "util/error.h"
#include "weights/zip_archive.h"

#include <cstdlib>

// Every entry must lie inside the archive.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        for (const sam3::ZipEntry& entry : sam3::read_zip(data, size, "input")) {
            const auto begin = static_cast<uint64_t>(entry.data - data);
            if (entry.data < data || begin > size || entry.bytes > size - begin) std::abort();
        }
    } catch (const sam3::Error&) {  // a wrong file: said in a sentence
    }
    return 0;
}
