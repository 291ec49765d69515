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
#endif

namespace {

using Tables = std::array<const Table*, 4>;

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
