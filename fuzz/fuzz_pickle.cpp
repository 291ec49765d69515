#include "util/error.h"
#include "weights/pickle.h"
#include "weights/torch_globals.h"

#include <cstdlib>

// Whatever the bytes say, every reference inside the result must lead to a value, and every global must be allowed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const sam3::Pickle pickle = sam3::parse_pickle(data, size, "input", sam3::is_torch_global);
        if (pickle.root >= pickle.values.size()) std::abort();
        for (const sam3::PickleValue& value : pickle.values) {
            for (uint32_t item : value.items)
                if (item >= pickle.values.size()) std::abort();
            if (value.kind == sam3::PickleValue::Kind::global && !sam3::is_torch_global(value.text)) std::abort();
            if (value.kind == sam3::PickleValue::Kind::dict && value.items.size() % 2 != 0) std::abort();
            if (value.kind == sam3::PickleValue::Kind::call && value.items.size() != 2) std::abort();
        }
    } catch (const sam3::Error&) {  // a wrong file: said in a sentence
    }
    return 0;
}
