#pragma once

#include "formats/result_formats.h"
#include "util/error.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

// The bytes as a file of results in `format`: they are refused with an Error, or every record is whole.
namespace sam3::fuzz {

constexpr int64_t kMostMaskBytes = int64_t{4} << 20;

inline void check_record(const Segmentation& record) {
    if (record.width < 1 || record.height < 1) std::abort();
    for (const Segmentation::Instance& instance : record.instances) {
        if (instance.mask.width != record.width || instance.mask.height != record.height) std::abort();
        if (instance.id < -1 || instance.prompt < 0) std::abort();
        if (static_cast<size_t>(instance.prompt) >= record.prompts.size() && !record.prompts.empty()) std::abort();
        for (const float value : {instance.x0, instance.y0, instance.x1, instance.y1, instance.score})
            if (!std::isfinite(value)) std::abort();
    }
    const std::string line = to_json_line(record);
    const Segmentation again =
        from_json({reinterpret_cast<const uint8_t*>(line.data()), line.size()}, "line", 2 * kMostMaskBytes);
    if (to_json_line(again) != line) std::abort();
}

inline int read_records(const char* format, const uint8_t* data, size_t size) {
    static const int file = memfd_create("results", 0);
    if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
    try {
        const auto reader = record_reader(result_format(format), "/proc/self/fd/" + std::to_string(file),
                                          {.images = "", .truth = "", .most_mask_bytes = kMostMaskBytes});
        Segmentation record;
        for (int records = 0; records < 100 && reader->next(record); ++records) check_record(record);
    } catch (const Error&) {
    }
    return 0;
}

}  // namespace sam3::fuzz
