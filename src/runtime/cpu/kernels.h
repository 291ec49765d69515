#pragma once

#include "runtime/device.h"
#include "runtime/kernels.h"

// The CPU's operators, one file per operator or family of operators.
namespace sam3::cpu {

#define SAM3_KERNEL(name, Args) void name(const ExecContext& context, const Args& args);
SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL

// Scratch memory from the device's pool.
inline std::shared_ptr<Buffer> allocate_floats(const ExecContext& context, int64_t count) {
    return context.device.allocate(static_cast<size_t>(count) * sizeof(float));
}

}  // namespace sam3::cpu
