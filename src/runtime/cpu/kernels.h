#pragma once

#include "runtime/kernels.h"

// The CPU's operators, one file per operator or family of operators.
namespace sam3::cpu {

#define SAM3_KERNEL(name, Args) void name(const ExecContext& context, const Args& args);
SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL

}  // namespace sam3::cpu
