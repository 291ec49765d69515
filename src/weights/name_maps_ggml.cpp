// The names in the .ggml files of PABannier/sam3.cpp. They are Meta's with parts cut out, so the rules put these back
// and Meta's own map does the rest.
#include "weights/name_maps.h"

namespace sam3 {

namespace {

const std::vector<RenameRule>& to_official_names() {
    static const std::vector<RenameRule> rules{
        {"vit.blocks.*.mlp.lin1.*", "vit.blocks.$1.mlp.fc1.$2"},
        {"vit.blocks.*.mlp.lin2.*", "vit.blocks.$1.mlp.fc2.$2"},
        {"vit.**", "detector.backbone.vision_backbone.trunk.$1"},
        {"neck.det.**", "detector.backbone.vision_backbone.convs.$1"},
        {"neck.trk.**", "detector.backbone.vision_backbone.sam2_convs.$1"},

        {"text.blocks.*.attn.in_proj.*", "text.blocks.$1.attn.in_proj_$2"},
        {"text.blocks.*.mlp.fc1.*", "text.blocks.$1.mlp.c_fc.$2"},
        {"text.blocks.*.mlp.fc2.*", "text.blocks.$1.mlp.c_proj.$2"},
        {"text.blocks.**", "detector.backbone.language_backbone.encoder.transformer.resblocks.$1"},
        {"text.token_embed.*", "detector.backbone.language_backbone.encoder.token_embedding.$1"},
        {"text.pos_embed", "detector.backbone.language_backbone.encoder.positional_embedding"},
        {"text.text_projection", "detector.backbone.language_backbone.encoder.text_projection"},  // in version 1 only
        {"text.ln_final.*", "detector.backbone.language_backbone.encoder.ln_final.$1"},
        {"text.resizer.*", "detector.backbone.language_backbone.resizer.$1"},

        {"ddec.layers.*.ca.**", "ddec.layers.$1.cross_attn.$2"},
        {"ddec.layers.*.norm_ca_text.*", "ddec.layers.$1.catext_norm.$2"},
        {"*.layers.*.ca.**", "$1.layers.$2.cross_attn_image.$3"},
        {"*.layers.*.sa.**", "$1.layers.$2.self_attn.$3"},
        {"fenc.**", "detector.transformer.encoder.$1"},
        {"ddec.**", "detector.transformer.decoder.$1"},
        {"geom.layers.**", "detector.geometry_encoder.encode.$1"},
        {"geom.**", "detector.geometry_encoder.$1"},
        {"seg.**", "detector.segmentation_head.$1"},
        {"scoring.**", "detector.dot_prod_scoring.$1"},

        {"mem_attn.**", "tracker.transformer.encoder.$1"},
        {"mem_enc.tpos_enc", "tracker.maskmem_tpos_enc"},
        {"mem_enc.ds.**", "tracker.maskmem_backbone.mask_downsampler.encoder.$1"},
        {"mem_enc.fuser.**", "tracker.maskmem_backbone.fuser.layers.$1"},
        {"mem_enc.**", "tracker.maskmem_backbone.$1"},
        {"sam_pe.pe_gaussian", "tracker.sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
        {"sam_pe.mask_ds.**", "tracker.sam_prompt_encoder.mask_downscaling.$1"},
        {"sam_pe.**", "tracker.sam_prompt_encoder.$1"},
        {"sam_dec.twoway.*.sa.**", "sam_dec.twoway.$1.self_attn.$2"},
        {"sam_dec.twoway.**", "tracker.sam_mask_decoder.transformer.layers.$1"},
        {"sam_dec.final_attn.**", "tracker.sam_mask_decoder.transformer.final_attn_token_to_image.$1"},
        {"sam_dec.final_norm.*", "tracker.sam_mask_decoder.transformer.norm_final_attn.$1"},
        {"sam_dec.upscale.**", "tracker.sam_mask_decoder.output_upscaling.$1"},
        {"sam_dec.hyper.**", "tracker.sam_mask_decoder.output_hypernetworks_mlps.$1"},
        {"sam_dec.**", "tracker.sam_mask_decoder.$1"},
        {"trk_mask_ds.*", "tracker.mask_downsample.$1"},
        {"obj_ptr_**", "tracker.obj_ptr_$1"},
        {"no_**", "tracker.no_$1"},
    };
    return rules;
}

}  // namespace

const NameMap& sam3_ggml_names() {
    static const NameMap map = [] {
        NameMap made = sam3_official_names();
        made.name = "SAM 3, the names of .ggml files";
        made.renames.insert(made.renames.begin(), to_official_names().begin(), to_official_names().end());
        // The class token's position is cut off already, and the others keep their grid.
        made.skips.clear();
        made.layouts.push_back(
            {"detector_model.vision_encoder.backbone.embeddings.position_embeddings", {"hwc", "1(hw)c"}});
        return made;
    }();
    return map;
}

}  // namespace sam3
