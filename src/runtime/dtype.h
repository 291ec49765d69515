#pragma once

#include <cstddef>
#include <cstdint>

namespace sam3 {

// Element types that live in tensors. Quantised block types exist only in weight files (src/weights).
enum class DType : uint8_t { f32, f16, bf16, i8, u8, i32 };

constexpr size_t size_of(DType type) {
    switch (type) {
        case DType::f32:
        case DType::i32: return 4;
        case DType::f16:
        case DType::bf16: return 2;
        case DType::i8:
        case DType::u8: return 1;
    }
    return 0;
}

constexpr const char* name_of(DType type) {
    switch (type) {
        case DType::f32: return "f32";
        case DType::f16: return "f16";
        case DType::bf16: return "bf16";
        case DType::i8: return "i8";
        case DType::u8: return "u8";
        case DType::i32: return "i32";
    }
    return "?";
}

}  // namespace sam3
