// The detector's names and layouts after its conversion for MLX (mlx_sam3), plain or hashed as in ropoctl/sam3cpp's
// GGUF files: Meta's without "detector.", attention projections apart, convolutions of the used neck channels last.
#include "weights/hashed_names.h"
#include "weights/name_maps.h"

namespace sam3 {

namespace {

// Every name that such a file may have. Ranges reach beyond the published sizes; Meta's map knows the meaning.
const HashedNames& hashed_names() {
    static const HashedNames names({
        "backbone.vision_backbone.trunk.pos_embed",
        "backbone.vision_backbone.trunk.{patch_embed.proj,ln_pre}.{weight,bias}",
        "backbone.vision_backbone.trunk.blocks.{0-63}.{norm1,norm2,attn.qkv,attn.proj,mlp.fc1,mlp.fc2}.{weight,bias}",
        "backbone.vision_backbone.trunk.blocks.{0-63}.attn.freqs_cis",
        "backbone.vision_backbone.{convs,sam2_convs}.{0-7}.{conv_1x1,conv_3x3,dconv_2x2}.{weight,bias}",
        "backbone.vision_backbone.{convs,sam2_convs}.{0-7}.dconv_2x2_{0,1}.{weight,bias}",
        "backbone.language_backbone.{resizer,encoder.ln_final,encoder.token_embedding}.{weight,bias}",
        "backbone.language_backbone.encoder.{positional_embedding,text_projection}",
        "backbone.language_backbone.encoder.transformer.resblocks.{0-63}.{ln_1,ln_2}.{weight,bias}",
        "backbone.language_backbone.encoder.transformer.resblocks.{0-63}.mlp.{c_fc,c_proj}.{weight,bias}",
        "backbone.language_backbone.encoder.transformer.resblocks.{0-63}.attn.{query,key,value,out}_proj.{weight,bias}",

        "geometry_encoder.{points,boxes}_{direct_project,pool_project,pos_enc_project}.{weight,bias}",
        "geometry_encoder.{final_proj,norm,encode_norm,img_pre_norm,label_embed,cls_embed}.{weight,bias}",
        "geometry_encoder.encode.{0-31}.{linear1,linear2,norm1,norm2,norm3}.{weight,bias}",
        "geometry_encoder.encode.{0-31}.{self_attn,cross_attn_image}.{query,key,value,out}_proj.{weight,bias}",

        "transformer.{encoder,decoder}.layers.{0-31}.{linear1,linear2,norm1,norm2,norm3,catext_norm}.{weight,bias}",
        "transformer.encoder.layers.{0-31}.{self_attn,cross_attn_image}.{query,key,value,out}_proj.{weight,bias}",
        "transformer.decoder.layers.{0-31}.{self_attn,cross_attn,ca_text}.{query,key,value,out}_proj.{weight,bias}",
        "transformer.decoder.{query_embed,reference_points,presence_token,norm,presence_token_out_norm}.{weight,bias}",
        "transformer.decoder.{bbox_embed,ref_point_head,presence_token_head}.layers.{0-7}.{weight,bias}",
        "transformer.decoder.boxRPB_embed_{x,y}.layers.{0-7}.{weight,bias}",

        "segmentation_head.{instance_seg_head,semantic_seg_head,cross_attn_norm}.{weight,bias}",
        "segmentation_head.pixel_decoder.{conv_layers,norms}.{0-7}.{weight,bias}",
        "segmentation_head.mask_predictor.mask_embed.layers.{0-7}.{weight,bias}",
        "segmentation_head.cross_attend_prompt.{query,key,value,out}_proj.{weight,bias}",
        "dot_prod_scoring.{prompt_proj,hs_proj,prompt_mlp.out_norm}.{weight,bias}",
        "dot_prod_scoring.prompt_mlp.layers.{0-7}.{weight,bias}",
    });
    return names;
}

const std::vector<LayoutRule>& channels_last_convolutions() {
    constexpr Layout kConvolution{"ohwi", "oihw"}, kTransposedConvolution{"ohwi", "iohw"};
    static const std::vector<LayoutRule> rules{
        {"detector_model.vision_encoder.backbone.embeddings.patch_embeddings.projection.weight", kConvolution},
        {"detector_model.vision_encoder.neck.fpn_layers.*.proj1.weight", kConvolution},
        {"detector_model.vision_encoder.neck.fpn_layers.*.proj2.weight", kConvolution},
        {"detector_model.vision_encoder.neck.fpn_layers.*.scale_layers.*.weight", kTransposedConvolution},
        {"detector_model.mask_decoder.pixel_decoder.conv_layers.*.weight", kConvolution},
        {"detector_model.mask_decoder.instance_projection.weight", kConvolution},
        {"detector_model.mask_decoder.semantic_projection.weight", kConvolution},
    };
    return rules;
}

}  // namespace

const NameMap& sam3_mlx_names() {
    static const NameMap map = [] {
        NameMap made = sam3_official_names();
        made.name = "SAM 3's detector, MLX's names";
        made.hashed = &hashed_names();
        const std::vector<RenameRule> projections{{"**.query_proj.*", "$1.q_proj.$2"},
                                                  {"**.key_proj.*", "$1.k_proj.$2"},
                                                  {"**.value_proj.*", "$1.v_proj.$2"}};
        made.renames.insert(made.renames.begin(), projections.begin(), projections.end());
        made.layouts.insert(made.layouts.end(), channels_last_convolutions().begin(),
                            channels_last_convolutions().end());
        return made;
    }();
    return map;
}

}  // namespace sam3
