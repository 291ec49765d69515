#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sam3 {

// What a Python pickle builds, without Python: a call is only noted, nothing is ever run. Values refer to each other by
// number, so no nesting, however deep or circular, can exhaust the stack.
struct PickleValue {
    enum class Kind : uint8_t {
        opaque,   // None, floats, bytes, sets: nothing that describes a tensor
        integer,  // bools as well
        text,
        tuple,
        list,
        dict,
        global,      // a Python class or function, by its name
        call,        // of a global
        persistent,  // something that lies outside of the pickle
    };
    Kind kind = Kind::opaque;
    int64_t integer = 0;
    std::string text;             // of a text; of a global "module.name"
    std::vector<uint32_t> items;  // of a tuple or list; key, value, key, value, ... of a dict; function and argument
                                  // tuple of a call; the id of a persistent
};

struct Pickle {
    std::vector<PickleValue> values;
    uint32_t root = 0;

    const PickleValue& at(uint32_t number) const { return values[number]; }
};

// Understands the instructions that Python's own pickler writes for plain data (protocols 2 to 5). Fails with a
// sentence for any other instruction and for any global that `is_allowed` does not know.
Pickle parse_pickle(const uint8_t* data, size_t size, const std::string& path, bool (*is_allowed)(std::string_view));

}  // namespace sam3
