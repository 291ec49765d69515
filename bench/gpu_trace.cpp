// What a GPU did, kernel by kernel: a library that CUDA loads into a program by itself and that writes a table when the
// program ends. bench/gpu_trace.py sums it up.
//
//     CUDA_INJECTION64_PATH=build-cuda/libsam3_gpu_trace.so SAM3_GPU_TRACE=trace.tsv build-cuda/sam3 bench ...
//
// Columns: start and length in nanoseconds, stream, blocks, name.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Row {
    uint64_t start, end;
    uint32_t stream;
    int blocks;
    std::string name;
};

std::mutex rows_mutex;
std::vector<Row>& rows() {
    static auto* const all = new std::vector<Row>;  // never destroyed: records come until the very end
    return *all;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
    constexpr size_t kBytes = size_t{8} << 20;
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBytes));
    *bytes = *buffer == nullptr ? 0 : kBytes;
    *most_records = 0;
}

template <typename Record>
Row row_of(const CUpti_Activity* record, const char* name) {
    const auto* const r = reinterpret_cast<const Record*>(record);
    return {r->start, r->end, r->streamId, 0, name};
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t bytes) {
    const std::lock_guard<std::mutex> held(rows_mutex);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const auto* const kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
            Row row = row_of<CUpti_ActivityKernel9>(record, kernel->name == nullptr ? "?" : kernel->name);
            row.blocks = kernel->gridX * kernel->gridY * kernel->gridZ;
            rows().push_back(std::move(row));
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            rows().push_back(row_of<CUpti_ActivityMemcpy5>(record, "memcpy"));
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            rows().push_back(row_of<CUpti_ActivityMemset4>(record, "memset"));
        }
    }
    std::free(buffer);
}

void write_table() {
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::lock_guard<std::mutex> held(rows_mutex);
    const char* const wanted = std::getenv("SAM3_GPU_TRACE");
    const char* const path = wanted == nullptr ? "gpu-trace.tsv" : wanted;
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) return std::perror(path);
    std::sort(rows().begin(), rows().end(), [](const Row& a, const Row& b) { return a.start < b.start; });
    for (const Row& row : rows()) {
        int status = 0;
        const std::unique_ptr<char, decltype(&std::free)> plain(
            abi::__cxa_demangle(row.name.c_str(), nullptr, nullptr, &status), &std::free);
        std::fprintf(file, "%llu\t%llu\t%u\t%d\t%s\n",
                     static_cast<unsigned long long>(row.start - rows().front().start),
                     static_cast<unsigned long long>(row.end - row.start), row.stream, row.blocks,
                     status == 0 ? plain.get() : row.name.c_str());
    }
    if (std::fclose(file) != 0) std::perror(path);
}

}  // namespace

extern "C" int InitializeInjection() {  // NOLINT(readability-identifier-naming): CUDA's name for it
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    for (CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
        cuptiActivityEnable(kind);
    std::atexit(write_table);
    return 1;
}
