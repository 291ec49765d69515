#include "formats/ground_truth.h"
#include "util/error.h"

#include <cstdlib>

// A ground-truth file: it is refused with an Error, or everything in it refers to something that is there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace sam3;
    GroundTruth truth;
    try {
        truth = parse_ground_truth({data, size}, "gt.json");
    } catch (const Error&) {
        return 0;
    }
    for (const GroundTruth::Object& object : truth.objects)
        if (object.media >= truth.media.size() || object.track.size() != truth.media[object.media].files.size())
            std::abort();
    for (const auto* prompts : {&truth.prompts, &truth.exemplars})
        for (const GroundTruth::Prompt& prompt : *prompts) {
            if (prompt.media >= truth.media.size()) std::abort();
            for (const size_t object : prompt.objects)
                if (truth.objects.at(object).media != prompt.media) std::abort();
        }
    return 0;
}
