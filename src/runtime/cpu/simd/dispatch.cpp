#include "runtime/cpu/simd/simd.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace sam3::simd {

namespace baseline {
extern const Table kTable;
}
#ifdef SAM3_SIMD_X86
namespace avx2 {
extern const Table kTable;
}
namespace avx512 {
extern const Table kTable;
}
#define SAM3_SIMD_FUNCTION(name, parameters) void name parameters;
namespace avx512vnni {
SAM3_FOR_EACH_INT8_FUNCTION(SAM3_SIMD_FUNCTION)
}
namespace avx512bf16 {
SAM3_FOR_EACH_BF16_FUNCTION(SAM3_SIMD_FUNCTION)
SAM3_FOR_EACH_ATTENTION_FUNCTION(SAM3_SIMD_FUNCTION)
}  // namespace avx512bf16
#undef SAM3_SIMD_FUNCTION
#endif

namespace {

using Tables = std::array<const Table*, 6>;

#ifdef SAM3_SIMD_X86
const Table* with_vnni() {
    static const Table table = [] {
        Table extended = avx512::kTable;
        extended.name = "avx512vnni";
#define SAM3_SIMD_FUNCTION(function, parameters) extended.function = avx512vnni::function;
        SAM3_FOR_EACH_INT8_FUNCTION(SAM3_SIMD_FUNCTION)
#undef SAM3_SIMD_FUNCTION
        return extended;
    }();
    return &table;
}

#define SAM3_SIMD_FUNCTION(function, parameters) extended.function = avx512bf16::function;
const Table* attention_in_bf16() {
    static const Table table = [] {
        Table extended = *with_vnni();
        SAM3_FOR_EACH_ATTENTION_FUNCTION(SAM3_SIMD_FUNCTION)
        return extended;
    }();
    return &table;
}

const Table* with_bf16() {
    static const Table table = [] {
        Table extended = *with_vnni();
        extended.name = "avx512bf16";
        SAM3_FOR_EACH_BF16_FUNCTION(SAM3_SIMD_FUNCTION)
        extended.bf16_attention = attention_in_bf16();
        return extended;
    }();
    return &table;
}
#undef SAM3_SIMD_FUNCTION
#endif

Tables detect() {
    Tables found{};
    size_t count = 0;
#ifdef SAM3_SIMD_X86
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
    const bool has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
    const bool has_bf16 = has_vnni && __builtin_cpu_supports("avx512bf16");
    if (has_bf16) found[count++] = with_bf16();
    if (has_vnni) found[count++] = with_vnni();
    if (has_avx512) found[count++] = &avx512::kTable;
    if (has_avx2) found[count++] = &avx2::kTable;
#endif
    found[count] = &baseline::kTable;
    return found;
}

const Tables& tables() {
    static const Tables found = detect();
    return found;
}

const Table* choose() {
    const char* cap = std::getenv("SAM3_CPU_ISA");
    if (cap != nullptr)
        for (const Table* candidate : tables())
            if (candidate != nullptr && std::strcmp(candidate->name, cap) == 0) return candidate;
    return tables()[0];
}

std::atomic<const Table*>& current() {
    static std::atomic<const Table*> chosen = choose();
    return chosen;
}

}  // namespace

const Table& table() { return *current().load(std::memory_order_relaxed); }
const Table* const* available_tables() { return tables().data(); }
void use_table(const Table& chosen) { current().store(&chosen, std::memory_order_relaxed); }

}  // namespace sam3::simd
