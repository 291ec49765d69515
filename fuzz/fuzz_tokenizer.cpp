#include "text/tokenizer_files.h"
#include "util/error.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// The first byte chooses what the rest is: a phrase under either set of rules, a tokenizer.json, or merges.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const sam3::ClipTokenizer tokenizer(
        sam3::ClipVocabulary::from_lists({{}, {"t h", "th e</w>", "a n", "an d</w>"}}));
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        if (data[0] % 4 == 0) {
            sam3::ClipTokenizer(sam3::read_tokenizer_json(bytes, "input"));
        } else if (data[0] % 4 == 1) {
            sam3::ClipTokenizer(sam3::read_merges(bytes, "input"));
        } else {
            sam3::EncodeOptions options;
            options.context_length = 2 + data[0] / 4;
            if (data[0] % 4 == 2) options.rules = sam3::TextRules::original;
            const auto encoding = tokenizer.encode(bytes, options);
            const auto count = static_cast<size_t>(encoding.count);
            if (encoding.ids.size() != static_cast<size_t>(options.context_length) || count > encoding.ids.size() ||
                encoding.ids.front() != tokenizer.start_id() || encoding.ids[count - 1] != tokenizer.end_id()) {
                std::abort();
            }
        }
    } catch (const sam3::Error&) {  // a wrong file: said in a sentence
    }
    return 0;
}
