#include "runtime/cuda/tensor_map.h"

#include "util/error.h"

#include <cuda_runtime.h>

namespace sam3::cuda {

namespace {

template <typename Function>
Function driver_function(const char* name) {
    constexpr unsigned kSinceCuda = 12000;
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &function, kSinceCuda, cudaEnableDefault, &result);
    const bool there = status == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return there ? reinterpret_cast<Function>(function) : nullptr;
}

auto box_encoder() {
    static const auto found = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    return found;
}
auto pixel_encoder() {
    static const auto found = driver_function<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
    return found;
}

}  // namespace

bool can_map_tensors() { return box_encoder() != nullptr && pixel_encoder() != nullptr; }

CUtensorMap tensor_map(const void* data, const std::array<int64_t, 5>& sizes, const std::array<int64_t, 4>& strides,
                       const std::array<int, 5>& box, int row_bytes, int element_bytes) {
    std::array<cuuint64_t, 5> extents{};
    std::array<cuuint64_t, 4> steps{};
    std::array<cuuint32_t, 5> part{};
    constexpr std::array<cuuint32_t, 5> kEvery = {1, 1, 1, 1, 1};
    for (size_t i = 0; i < 5; ++i) {
        extents[i] = static_cast<cuuint64_t>(sizes[i]);
        part[i] = static_cast<cuuint32_t>(box[i]);
        if (i < 4) steps[i] = static_cast<cuuint64_t>(strides[i]) * static_cast<cuuint64_t>(element_bytes);
    }
    CUtensorMap map{};
    const CUresult status = box_encoder()(
        &map, element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5,
        const_cast<void*>(data), extents.data(), steps.data(), part.data(), kEvery.data(),
        CU_TENSOR_MAP_INTERLEAVE_NONE, row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        fail("CUDA cannot describe a tensor of ", sizes[0], " x ", sizes[1], " x ", sizes[2], " x ", sizes[3], " x ",
             sizes[4], " elements to its copy engine: error ", static_cast<int>(status));
    return map;
}

CUtensorMap pixel_map(const void* data, const std::array<int64_t, 4>& sizes, int pixels) {
    constexpr cuuint32_t kChannels = 64;
    constexpr std::array<cuuint32_t, 4> kEvery = {1, 1, 1, 1};
    constexpr std::array<int, 2> kFirst = {-1, -1};  // column and line, counted from the image's first
    constexpr std::array<int, 2> kLast = {0, -1};    // and from its last
    std::array<cuuint64_t, 4> extents{};             // innermost first
    std::array<cuuint64_t, 3> steps{};
    cuuint64_t bytes = 2;
    for (size_t i = 0; i < 4; ++i) {
        extents[i] = static_cast<cuuint64_t>(sizes[3 - i]);
        bytes *= extents[i];
        if (i < 3) steps[i] = bytes;
    }
    CUtensorMap map{};
    const CUresult status = pixel_encoder()(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<void*>(data), extents.data(), steps.data(), kFirst.data(),
        kLast.data(), kChannels, static_cast<cuuint32_t>(pixels), kEvery.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        fail("CUDA cannot describe images of ", sizes[0], " x ", sizes[1], " x ", sizes[2], " x ", sizes[3],
             " elements to its copy engine: error ", static_cast<int>(status));
    return map;
}

}  // namespace sam3::cuda
