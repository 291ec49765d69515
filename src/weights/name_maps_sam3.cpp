#include "util/error.h"
#include "weights/hashed_names.h"
#include "weights/name_maps.h"
#include "weights/name_maps_gguf.h"
#include "weights/quote_name.h"
#include "weights/weight_file.h"

#include <algorithm>

namespace sam3 {

namespace {

const std::vector<AliasRule>& tied_weights() {
    static const std::vector<AliasRule> rules{
        // One random matrix encodes the positions of points and of pixels.
        {"tracker_model.shared_image_embedding.positional_embedding",
         "tracker_model.prompt_encoder.shared_embedding.positional_embedding"},
        {"tracker_model.prompt_encoder.shared_embedding.positional_embedding",
         "tracker_model.shared_image_embedding.positional_embedding"},
    };
    return rules;
}

const std::vector<RenameRule>& detector_prefixes() {
    static const std::vector<RenameRule> rules{
        {"sam3_model.**", "detector.$1"},
        {"backbone.**", "detector.backbone.$1"},
        {"geometry_encoder.**", "detector.geometry_encoder.$1"},
        {"transformer.**", "detector.transformer.$1"},
        {"segmentation_head.**", "detector.segmentation_head.$1"},
        {"dot_prod_scoring.**", "detector.dot_prod_scoring.$1"},
    };
    return rules;
}

const std::vector<RenameRule>& vision_names() {
    static const std::vector<RenameRule> rules{
        // Backbone (a plain ViT).
        {"detector.backbone.vision_backbone.trunk.**", "detector_model.vision_encoder.backbone.$1"},
        {"detector_model.vision_encoder.backbone.pos_embed",
         "detector_model.vision_encoder.backbone.embeddings.position_embeddings"},
        {"detector_model.vision_encoder.backbone.patch_embed.proj.*",
         "detector_model.vision_encoder.backbone.embeddings.patch_embeddings.projection.$1"},
        {"detector_model.vision_encoder.backbone.ln_pre.*", "detector_model.vision_encoder.backbone.layer_norm.$1"},
        {"detector_model.vision_encoder.backbone.blocks.**", "detector_model.vision_encoder.backbone.layers.$1"},
        {"detector_model.vision_encoder.backbone.layers.*.attn.proj.*",
         "detector_model.vision_encoder.backbone.layers.$1.attention.o_proj.$2"},
        {"detector_model.vision_encoder.backbone.layers.*.attn.**",
         "detector_model.vision_encoder.backbone.layers.$1.attention.$2"},
        {"detector_model.vision_encoder.backbone.layers.*.norm1.*",
         "detector_model.vision_encoder.backbone.layers.$1.layer_norm1.$2"},
        {"detector_model.vision_encoder.backbone.layers.*.norm2.*",
         "detector_model.vision_encoder.backbone.layers.$1.layer_norm2.$2"},
        // Necks: one for the detector, one for the tracker.
        {"detector.backbone.vision_backbone.convs.**", "detector_model.vision_encoder.neck.fpn_layers.$1"},
        {"detector.backbone.vision_backbone.sam2_convs.**", "tracker_neck.fpn_layers.$1"},
        {"**fpn_layers.*.dconv_2x2_0.*", "$1fpn_layers.$2.scale_layers.0.$3"},
        {"**fpn_layers.*.dconv_2x2_1.*", "$1fpn_layers.$2.scale_layers.2.$3"},  // 1 is the GELU between them
        {"**fpn_layers.*.dconv_2x2.*", "$1fpn_layers.$2.scale_layers.0.$3"},
        {"**fpn_layers.*.conv_1x1.*", "$1fpn_layers.$2.proj1.$3"},
        {"**fpn_layers.*.conv_3x3.*", "$1fpn_layers.$2.proj2.$3"},
    };
    return rules;
}

const std::vector<RenameRule>& text_names() {
    static const std::vector<RenameRule> rules{
        {"detector.backbone.language_backbone.resizer.*", "detector_model.text_projection.$1"},
        {"detector.backbone.language_backbone.encoder.text_projection",
         "detector_model.text_encoder.text_projection.weight"},
        {"detector.backbone.language_backbone.encoder.positional_embedding",
         "detector_model.text_encoder.text_model.embeddings.position_embedding.weight"},
        {"detector.backbone.language_backbone.encoder.token_embedding.*",
         "detector_model.text_encoder.text_model.embeddings.token_embedding.$1"},
        {"detector.backbone.language_backbone.encoder.ln_final.*",
         "detector_model.text_encoder.text_model.final_layer_norm.$1"},
        {"detector.backbone.language_backbone.encoder.transformer.resblocks.**",
         "detector_model.text_encoder.text_model.encoder.layers.$1"},
        {"detector_model.text_encoder.text_model.encoder.layers.*.attn.**",
         "detector_model.text_encoder.text_model.encoder.layers.$1.self_attn.$2"},
        {"detector_model.text_encoder.text_model.encoder.layers.*.ln_1.*",
         "detector_model.text_encoder.text_model.encoder.layers.$1.layer_norm1.$2"},
        {"detector_model.text_encoder.text_model.encoder.layers.*.ln_2.*",
         "detector_model.text_encoder.text_model.encoder.layers.$1.layer_norm2.$2"},
        {"detector_model.text_encoder.text_model.encoder.layers.*.mlp.c_fc.*",
         "detector_model.text_encoder.text_model.encoder.layers.$1.mlp.fc1.$2"},
        {"detector_model.text_encoder.text_model.encoder.layers.*.mlp.c_proj.*",
         "detector_model.text_encoder.text_model.encoder.layers.$1.mlp.fc2.$2"},
    };
    return rules;
}

const std::vector<RenameRule>& detector_names() {
    static const std::vector<RenameRule> rules{
        // Geometry encoder: points and boxes as prompts.
        {"detector.geometry_encoder.img_pre_norm.*", "detector_model.geometry_encoder.vision_layer_norm.$1"},
        {"detector.geometry_encoder.norm.*", "detector_model.geometry_encoder.prompt_layer_norm.$1"},
        {"detector.geometry_encoder.encode_norm.*", "detector_model.geometry_encoder.output_layer_norm.$1"},
        {"detector.geometry_encoder.encode.**", "detector_model.geometry_encoder.layers.$1"},
        {"detector.geometry_encoder.**", "detector_model.geometry_encoder.$1"},

        // Fusion encoder; its layers look like those of the geometry encoder.
        {"detector.transformer.encoder.**", "detector_model.detr_encoder.$1"},
        {"detector_model.*.layers.*.cross_attn_image.**", "detector_model.$1.layers.$2.cross_attn.$3"},
        {"detector_model.*.layers.*.norm1.*", "detector_model.$1.layers.$2.layer_norm1.$3"},
        {"detector_model.*.layers.*.norm2.*", "detector_model.$1.layers.$2.layer_norm2.$3"},
        {"detector_model.*.layers.*.norm3.*", "detector_model.$1.layers.$2.layer_norm3.$3"},

        // Decoder. Its norms are numbered by age, not by place: 1 follows the image, 2 the self-attention.
        {"detector.transformer.decoder.**", "detector_model.detr_decoder.$1"},
        {"detector_model.detr_decoder.layers.*.ca_text.**", "detector_model.detr_decoder.layers.$1.text_cross_attn.$2"},
        {"detector_model.detr_decoder.layers.*.catext_norm.*",
         "detector_model.detr_decoder.layers.$1.text_cross_attn_layer_norm.$2"},
        {"detector_model.detr_decoder.layers.*.cross_attn.**",
         "detector_model.detr_decoder.layers.$1.vision_cross_attn.$2"},
        {"detector_model.detr_decoder.layers.*.norm1.*",
         "detector_model.detr_decoder.layers.$1.vision_cross_attn_layer_norm.$2"},
        {"detector_model.detr_decoder.layers.*.norm2.*",
         "detector_model.detr_decoder.layers.$1.self_attn_layer_norm.$2"},
        {"detector_model.detr_decoder.layers.*.norm3.*", "detector_model.detr_decoder.layers.$1.mlp_layer_norm.$2"},
        {"detector_model.detr_decoder.norm.*", "detector_model.detr_decoder.output_layer_norm.$1"},
        {"detector_model.detr_decoder.presence_token_out_norm.*", "detector_model.detr_decoder.presence_layer_norm.$1"},
        {"detector_model.detr_decoder.presence_token_head.**", "detector_model.detr_decoder.presence_head.$1"},
        {"detector_model.detr_decoder.bbox_embed.**", "detector_model.detr_decoder.box_head.$1"},
        {"detector_model.detr_decoder.boxRPB_embed_x.**", "detector_model.detr_decoder.box_rpb_embed_x.$1"},
        {"detector_model.detr_decoder.boxRPB_embed_y.**", "detector_model.detr_decoder.box_rpb_embed_y.$1"},

        // Scoring.
        {"detector.dot_prod_scoring.prompt_mlp.out_norm.*", "detector_model.dot_product_scoring.text_mlp_out_norm.$1"},
        {"detector.dot_prod_scoring.prompt_mlp.**", "detector_model.dot_product_scoring.text_mlp.$1"},
        {"detector.dot_prod_scoring.prompt_proj.*", "detector_model.dot_product_scoring.text_proj.$1"},
        {"detector.dot_prod_scoring.hs_proj.*", "detector_model.dot_product_scoring.query_proj.$1"},

        // The heads' MLPs count from 1. `layers` directly below a part, so the parts' own layer lists do not match.
        {"detector_model.*.*.layers.0.*", "detector_model.$1.$2.layer1.$3"},
        {"detector_model.*.*.layers.1.*", "detector_model.$1.$2.layer2.$3"},
        {"detector_model.*.*.layers.2.*", "detector_model.$1.$2.layer3.$3"},

        // Mask head. Its MLP keeps its numbers, so it comes after the rules above.
        {"detector.segmentation_head.mask_predictor.mask_embed.**", "detector_model.mask_decoder.mask_embedder.$1"},
        {"detector.segmentation_head.instance_seg_head.*", "detector_model.mask_decoder.instance_projection.$1"},
        {"detector.segmentation_head.semantic_seg_head.*", "detector_model.mask_decoder.semantic_projection.$1"},
        {"detector.segmentation_head.cross_attend_prompt.**", "detector_model.mask_decoder.prompt_cross_attn.$1"},
        {"detector.segmentation_head.cross_attn_norm.*", "detector_model.mask_decoder.prompt_cross_attn_norm.$1"},
        {"detector.segmentation_head.**", "detector_model.mask_decoder.$1"},

        // In all of them; the text encoder, three levels deeper, keeps its out_proj.
        {"detector_model.*.layers.*.linear1.*", "detector_model.$1.layers.$2.mlp.fc1.$3"},
        {"detector_model.*.layers.*.linear2.*", "detector_model.$1.layers.$2.mlp.fc2.$3"},
        {"detector_model.*.layers.*.*.out_proj.*", "detector_model.$1.layers.$2.$3.o_proj.$4"},
        {"detector_model.mask_decoder.*.out_proj.*", "detector_model.mask_decoder.$1.o_proj.$2"},
    };
    return rules;
}

const std::vector<RenameRule>& tracker_names() {
    static const std::vector<RenameRule> rules{
        {"sam2_predictor.model.**", "tracker.$1"},
        {"sam2_predictor.**", "tracker.$1"},
        {"tracker.**", "tracker_model.$1"},
        {"tracker_model.maskmem_backbone.out_proj.*", "tracker_model.memory_encoder.projection.$1"},
        {"tracker_model.**.out_proj.*", "tracker_model.$1.o_proj.$2"},

        // Memory attention.
        {"tracker_model.transformer.encoder.norm.*", "tracker_model.memory_attention.layer_norm.$1"},
        {"tracker_model.transformer.encoder.**", "tracker_model.memory_attention.$1"},
        {"tracker_model.memory_attention.layers.*.norm1.*", "tracker_model.memory_attention.layers.$1.layer_norm1.$2"},
        {"tracker_model.memory_attention.layers.*.norm2.*", "tracker_model.memory_attention.layers.$1.layer_norm2.$2"},
        {"tracker_model.memory_attention.layers.*.norm3.*", "tracker_model.memory_attention.layers.$1.layer_norm3.$2"},

        // Memory encoder. The mask downsampler is a flat list of convolution, norm and GELU.
        {"tracker_model.maskmem_backbone.pix_feat_proj.*", "tracker_model.memory_encoder.feature_projection.$1"},
        {"tracker_model.maskmem_backbone.fuser.layers.**", "tracker_model.memory_encoder.memory_fuser.layers.$1"},
        {"tracker_model.memory_encoder.memory_fuser.layers.*.dwconv.*",
         "tracker_model.memory_encoder.memory_fuser.layers.$1.depthwise_conv.$2"},
        {"tracker_model.memory_encoder.memory_fuser.layers.*.pwconv1.*",
         "tracker_model.memory_encoder.memory_fuser.layers.$1.pointwise_conv1.$2"},
        {"tracker_model.memory_encoder.memory_fuser.layers.*.pwconv2.*",
         "tracker_model.memory_encoder.memory_fuser.layers.$1.pointwise_conv2.$2"},
        {"tracker_model.memory_encoder.memory_fuser.layers.*.norm.*",
         "tracker_model.memory_encoder.memory_fuser.layers.$1.layer_norm.$2"},
        {"tracker_model.memory_encoder.memory_fuser.layers.*.gamma",
         "tracker_model.memory_encoder.memory_fuser.layers.$1.scale"},
        {"tracker_model.maskmem_backbone.**", "tracker_model.memory_encoder.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.0.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.0.conv.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.1.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.0.layer_norm.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.3.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.1.conv.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.4.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.1.layer_norm.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.6.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.2.conv.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.7.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.2.layer_norm.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.9.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.3.conv.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.10.*",
         "tracker_model.memory_encoder.mask_downsampler.layers.3.layer_norm.$1"},
        {"tracker_model.memory_encoder.mask_downsampler.encoder.12.*",
         "tracker_model.memory_encoder.mask_downsampler.final_conv.$1"},

        // Prompt encoder.
        {"tracker_model.sam_prompt_encoder.**", "tracker_model.prompt_encoder.$1"},
        {"tracker_model.prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
         "tracker_model.prompt_encoder.shared_embedding.positional_embedding"},
        {"tracker_model.prompt_encoder.mask_downscaling.0.*", "tracker_model.prompt_encoder.mask_embed.conv1.$1"},
        {"tracker_model.prompt_encoder.mask_downscaling.1.*", "tracker_model.prompt_encoder.mask_embed.layer_norm1.$1"},
        {"tracker_model.prompt_encoder.mask_downscaling.3.*", "tracker_model.prompt_encoder.mask_embed.conv2.$1"},
        {"tracker_model.prompt_encoder.mask_downscaling.4.*", "tracker_model.prompt_encoder.mask_embed.layer_norm2.$1"},
        {"tracker_model.prompt_encoder.mask_downscaling.6.*", "tracker_model.prompt_encoder.mask_embed.conv3.$1"},

        // Mask decoder.
        {"tracker_model.sam_mask_decoder.**", "tracker_model.mask_decoder.$1"},
        {"tracker_model.mask_decoder.output_upscaling.0.*", "tracker_model.mask_decoder.upscale_conv1.$1"},
        {"tracker_model.mask_decoder.output_upscaling.1.*", "tracker_model.mask_decoder.upscale_layer_norm.$1"},
        {"tracker_model.mask_decoder.output_upscaling.3.*", "tracker_model.mask_decoder.upscale_conv2.$1"},
        {"tracker_model.mask_decoder.transformer.norm_final_attn.*",
         "tracker_model.mask_decoder.transformer.layer_norm_final_attn.$1"},
        {"tracker_model.mask_decoder.transformer.layers.*.norm1.*",
         "tracker_model.mask_decoder.transformer.layers.$1.layer_norm1.$2"},
        {"tracker_model.mask_decoder.transformer.layers.*.norm2.*",
         "tracker_model.mask_decoder.transformer.layers.$1.layer_norm2.$2"},
        {"tracker_model.mask_decoder.transformer.layers.*.norm3.*",
         "tracker_model.mask_decoder.transformer.layers.$1.layer_norm3.$2"},
        {"tracker_model.mask_decoder.transformer.layers.*.norm4.*",
         "tracker_model.mask_decoder.transformer.layers.$1.layer_norm4.$2"},
        {"tracker_model.mask_decoder.transformer.layers.*.mlp.lin1.*",
         "tracker_model.mask_decoder.transformer.layers.$1.mlp.proj_in.$2"},
        {"tracker_model.mask_decoder.transformer.layers.*.mlp.lin2.*",
         "tracker_model.mask_decoder.transformer.layers.$1.mlp.proj_out.$2"},

        // Loose parameters.
        {"tracker_model.maskmem_tpos_enc", "tracker_model.memory_temporal_positional_encoding"},
        {"tracker_model.no_mem_embed", "tracker_model.no_memory_embedding"},
        {"tracker_model.no_mem_pos_enc", "tracker_model.no_memory_positional_encoding"},
        {"tracker_model.no_obj_ptr", "tracker_model.no_object_pointer"},
        {"tracker_model.no_obj_embed_spatial", "tracker_model.occlusion_spatial_embedding_parameter"},
        {"tracker_model.obj_ptr_tpos_proj.*", "tracker_model.temporal_positional_encoding_projection_layer.$1"},
        {"tracker_model.obj_ptr_proj.**", "tracker_model.object_pointer_proj.$1"},
    };
    return rules;
}

// MLPs of three layers become proj_in, layers.0 and proj_out. The middle one goes last: as layers.0 it would be taken
// for the input.
const std::vector<RenameRule>& tracker_mlps() {
    static const std::vector<RenameRule> rules = [] {
        std::vector<RenameRule> list;
        const auto add = [&list](std::string_view first, std::string_view in, std::string_view last,
                                 std::string_view out, std::string_view middle, std::string_view hidden) {
            list.insert(list.end(), {{first, in}, {last, out}, {middle, hidden}});
        };
        add("tracker_model.mask_decoder.*.layers.0.*", "tracker_model.mask_decoder.$1.proj_in.$2",
            "tracker_model.mask_decoder.*.layers.2.*", "tracker_model.mask_decoder.$1.proj_out.$2",
            "tracker_model.mask_decoder.*.layers.1.*", "tracker_model.mask_decoder.$1.layers.0.$2");
        add("tracker_model.mask_decoder.output_hypernetworks_mlps.*.layers.0.*",
            "tracker_model.mask_decoder.output_hypernetworks_mlps.$1.proj_in.$2",
            "tracker_model.mask_decoder.output_hypernetworks_mlps.*.layers.2.*",
            "tracker_model.mask_decoder.output_hypernetworks_mlps.$1.proj_out.$2",
            "tracker_model.mask_decoder.output_hypernetworks_mlps.*.layers.1.*",
            "tracker_model.mask_decoder.output_hypernetworks_mlps.$1.layers.0.$2");
        add("tracker_model.object_pointer_proj.layers.0.*", "tracker_model.object_pointer_proj.proj_in.$1",
            "tracker_model.object_pointer_proj.layers.2.*", "tracker_model.object_pointer_proj.proj_out.$1",
            "tracker_model.object_pointer_proj.layers.1.*", "tracker_model.object_pointer_proj.layers.0.$1");
        return list;
    }();
    return rules;
}

std::vector<RenameRule> joined(std::initializer_list<std::vector<RenameRule>> lists) {
    std::vector<RenameRule> all;
    for (const std::vector<RenameRule>& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
}

bool any_name_starts_with(const WeightFile& file, std::initializer_list<std::string_view> prefixes) {
    return std::any_of(file.tensors().begin(), file.tensors().end(), [&](const WeightTensor& tensor) {
        return std::any_of(prefixes.begin(), prefixes.end(),
                           [&](std::string_view prefix) { return tensor.name.compare(0, prefix.size(), prefix) == 0; });
    });
}

}  // namespace

const NameMap& sam3_hf_names() {
    static const NameMap map{
        .name = "SAM 3, Hugging Face's names",
        .hashed = nullptr,
        .ignored = {},
        // A detector saved alone (Sam3Model) lacks the prefix.
        .renames = {{"vision_encoder.**", "detector_model.vision_encoder.$1"},
                    {"text_encoder.**", "detector_model.text_encoder.$1"},
                    {"text_projection.**", "detector_model.text_projection.$1"},
                    {"geometry_encoder.**", "detector_model.geometry_encoder.$1"},
                    {"detr_encoder.**", "detector_model.detr_encoder.$1"},
                    {"detr_decoder.**", "detector_model.detr_decoder.$1"},
                    {"mask_decoder.**", "detector_model.mask_decoder.$1"},
                    {"dot_product_scoring.**", "detector_model.dot_product_scoring.$1"}},
        .splits = {},
        .stacks = {},
        .skips = {},
        .layouts = {},
        .aliases = tied_weights(),
    };
    return map;
}

const NameMap& sam3_official_names() {
    static const NameMap map{
        .name = "SAM 3, Meta's names",
        .hashed = nullptr,
        .ignored = {{"**.attn.freqs_cis", "rotary tables, computed from the sizes instead"}},
        .renames = joined(
            {detector_prefixes(), vision_names(), text_names(), detector_names(), tracker_names(), tracker_mlps()}),
        .splits = {{"**.qkv.*", {"$1.q_proj.$2", "$1.k_proj.$2", "$1.v_proj.$2"}},
                   {"**.in_proj_weight", {"$1.q_proj.weight", "$1.k_proj.weight", "$1.v_proj.weight"}},
                   {"**.in_proj_bias", {"$1.q_proj.bias", "$1.k_proj.bias", "$1.v_proj.bias"}}},
        .stacks = {{"tracker_model.prompt_encoder.point_embeddings.*.weight",
                    "tracker_model.prompt_encoder.point_embed.weight", 4}},
        // The first position belonged to a class token, which SAM 3 does not have.
        .skips = {{"detector_model.vision_encoder.backbone.embeddings.position_embeddings", 1, 1}},
        .layouts = {{"detector_model.text_encoder.text_projection.weight", {"ab", "ba"}}},
        .aliases = tied_weights(),
    };
    return map;
}

const NameMap& sam3_name_map(const WeightFile& file) {
    if (is_own_gguf(file)) return sam3_gguf_names();
    if (any_name_starts_with(file, {"detector_model.", "tracker_model.", "vision_encoder.", "detr_encoder."}))
        return sam3_hf_names();
    if (any_name_starts_with(file, {"tracker.model."})) return sam31_official_names();
    const std::string_view query = "transformer.decoder.query_embed.weight";  // of every detector
    if (file.find("transformer.encoder.layers.0.self_attn.query_proj.weight") != nullptr ||
        file.find(HashedNames::hash(query)) != nullptr)
        return sam3_mlx_names();
    if (any_name_starts_with(file,
                             {"detector.", "tracker.", "sam3_model.", "sam2_predictor.", "backbone.vision_backbone."}))
        return sam3_official_names();
    if (any_name_starts_with(file, {"vit.blocks.", "sam_dec."})) return sam3_ggml_names();
    fail(file.path(), ": expected a SAM 3 model, found other tensor names",
         file.tensors().empty() ? std::string(" (none at all)")
                                : str(", such as ", quote_name(file.tensors().front().name)));
}

const std::vector<IgnoreRule>& sam3_unused_weights() {
    static const std::vector<IgnoreRule> rules{
        {"detector_model.text_encoder.text_projection.weight", "CLIP's own projection; the detector has another one"},
        {"detector_model.geometry_encoder.points_direct_project.*", "the reference gives the detector boxes only"},
        {"detector_model.geometry_encoder.points_pool_project.*", "the reference gives the detector boxes only"},
        {"detector_model.geometry_encoder.points_pos_enc_project.*", "the reference gives the detector boxes only"},
        {"detector_model.vision_encoder.neck.fpn_layers.3.**", "the half-resolution level is dropped after the neck"},
        {"tracker_neck.fpn_layers.3.**", "the half-resolution level is dropped after the neck"},
        {"detector_model.mask_decoder.pixel_decoder.conv_layers.2.*", "three levels need two merges only"},
        {"detector_model.mask_decoder.pixel_decoder.norms.2.*", "three levels need two merges only"},
        {"tracker_model.no_memory_positional_encoding", "the first frame adds no_memory_embedding directly"},
        {"tracker_model.shared_image_embedding.positional_embedding", "equals the prompt encoder's"},
        {"**.rotary_emb.**", "rotary tables, computed from the sizes instead"},
    };
    return rules;
}

}  // namespace sam3
