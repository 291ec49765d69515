#include "runtime/cpu/version.h"

#include "util/error.h"

#include <omp.h>
#include <dnnl.hpp>

namespace sam3 {
namespace {

const char* name_of(dnnl::cpu_isa isa) {
    switch (isa) {
        case dnnl::cpu_isa::sse41: return "sse4.1";
        case dnnl::cpu_isa::avx: return "avx";
        case dnnl::cpu_isa::avx2: return "avx2";
        case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
        case dnnl::cpu_isa::avx512_core: return "avx512_core";
        case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
        case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
        case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
        default: return "the default set";
    }
}

}  // namespace

std::string onednn_version() {
    const dnnl_version_t* version = dnnl_version();
    return str(version->major, ".", version->minor, ".", version->patch, ", CPU instructions up to ",
               name_of(dnnl::get_effective_cpu_isa()));
}

int openmp_threads() { return omp_get_max_threads(); }

}  // namespace sam3
