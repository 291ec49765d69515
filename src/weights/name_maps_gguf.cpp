#include "weights/name_maps_gguf.h"

#include "weights/name_maps.h"
#include "weights/name_maps_sam1.h"
#include "weights/weight_file.h"

namespace sam3 {

namespace {

// A beginning of the short name and what it stands for. Writing goes the other way: the first that fits counts.
const std::vector<RenameRule>& sam3_beginnings() {
    static const std::vector<RenameRule> rules{
        {"vision.**", "detector_model.vision_encoder.backbone.$1"},
        {"neck.**", "detector_model.vision_encoder.neck.$1"},
        {"text.**", "detector_model.text_encoder.text_model.$1"},
        {"det.**", "detector_model.$1"},
        {"trk_neck.**", "tracker_neck.$1"},
        {"trk.twoway.**", "tracker_model.mask_decoder.transformer.$1"},
        {"trk.**", "tracker_model.$1"},
    };
    return rules;
}

const std::vector<RenameRule>& sam1_beginnings() {
    static const std::vector<RenameRule> rules{
        {"vision.**", "vision_encoder.$1"},
        {"twoway.**", "mask_decoder.transformer.$1"},
    };
    return rules;
}

NameMap make_map(std::string_view name, std::vector<RenameRule> renames, std::vector<AliasRule> aliases) {
    NameMap map;
    map.name = name;
    map.renames = std::move(renames);
    map.aliases = std::move(aliases);
    map.flattened = true;
    return map;
}

std::string_view without_ending(std::string_view text) { return text.substr(0, text.size() - 2); }  // "**" or "$1"

}  // namespace

bool is_own_gguf(const WeightFile& file) { return file.metadata().has(kGgufVersionKey); }

const NameMap& sam3_gguf_names() {
    static const NameMap map = make_map("SAM 3, sam3.cpp's GGUF", sam3_beginnings(), sam3_hf_names().aliases);
    return map;
}

const NameMap& sam1_gguf_names() {
    static const NameMap map = make_map("SAM 1, sam3.cpp's GGUF", sam1_beginnings(), sam1_hf_names().aliases);
    return map;
}

std::string gguf_name(std::string_view canonical, std::string_view architecture) {
    for (const RenameRule& rule : architecture == "sam1" ? sam1_beginnings() : sam3_beginnings()) {
        const std::string_view beginning = without_ending(rule.replacement);
        if (canonical.starts_with(beginning))
            return std::string(without_ending(rule.pattern)).append(canonical.substr(beginning.size()));
    }
    return std::string(canonical);
}

}  // namespace sam3
