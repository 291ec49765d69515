// SAM 3.1 as Meta publishes it (sam3.1_multiplex.pt). Its image model is SAM 3's under other names: the interactive
// head stands apart from the tracker, whose objects share memories. That tracker is another network and is not read
// yet.
#include "weights/name_maps.h"

namespace sam3 {

const NameMap& sam31_official_names() {
    static const NameMap map = [] {
        NameMap made = sam3_official_names();
        made.name = "SAM 3.1, Meta's names";
        const std::vector<RenameRule> interactive{
            {"detector.backbone.vision_backbone.interactive_convs.**",
             "detector.backbone.vision_backbone.sam2_convs.$1"},
            {"tracker.model.interactive_sam_prompt_encoder.**", "tracker.sam_prompt_encoder.$1"},
            {"tracker.model.interactive_sam_mask_decoder.**", "tracker.sam_mask_decoder.$1"},
            {"tracker.model.interactivity_no_mem_embed", "tracker.no_mem_embed"},
        };
        made.renames.insert(made.renames.begin(), interactive.begin(), interactive.end());
        for (const char* part :
             {"detector.backbone.vision_backbone.propagation_convs.**", "tracker.model.sam_mask_decoder.**",
              "tracker.model.maskmem_**", "tracker.model.transformer.**", "tracker.model.image_pe_layer.**",
              "tracker.model.interactive_obj_ptr_proj.**", "tracker.model.interactive_mask_downsample.**",
              "tracker.model.obj_ptr_**", "tracker.model.no_obj_**", "tracker.model.output_**"})
            made.ignored.push_back({part, "of the tracker with shared memories, which images do not need"});
        return made;
    }();
    return map;
}

}  // namespace sam3
