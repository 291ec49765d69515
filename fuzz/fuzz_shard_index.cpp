#include "util/error.h"
#include "weights/file_kind.h"
#include "weights/hf_folder.h"

#include <cstdlib>

// A shard index, and the recognition of foreign files that every input passes through.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (sam3::identify_weights(data, size) == sam3::FileKind::other &&
        sam3::describe_foreign_file(data, size, "input").empty())
        std::abort();
    try {
        const std::string_view text(reinterpret_cast<const char*>(data), size);
        for (const sam3::ShardEntry& entry : sam3::parse_shard_index(text, "input"))
            if (entry.file.empty() || entry.file.find('/') != entry.file.npos) std::abort();
    } catch (const sam3::Error&) {  // a wrong file: said in a sentence
    }
    return 0;
}
