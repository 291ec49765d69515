#include "weights/name_maps_sam1.h"

#include "util/error.h"
#include "weights/name_maps_gguf.h"
#include "weights/quote_name.h"
#include "weights/weight_file.h"

namespace sam3 {

namespace {

const NameMap* find_name_map(const WeightFile& file) {
    // SAM 3's image encoder has a backbone below it and MobileSAM's Meta names lack the blocks, so one tensor is
    // enough.
    if (file.find("vision_encoder.layers.0.attn.rel_pos_h") != nullptr) return &sam1_hf_names();
    if (file.find("image_encoder.blocks.0.attn.rel_pos_h") != nullptr) return &sam1_official_names();
    if (file.find("vision.layers.0.attn.rel_pos_h") != nullptr) return &sam1_gguf_names();
    return nullptr;
}

// What Hugging Face's and Meta's decoders have in common against SAM 3's.
const std::vector<RenameRule>& decoder_names() {
    static const std::vector<RenameRule> rules{
        {"mask_decoder.transformer.layers.*.mlp.lin1.*", "mask_decoder.transformer.layers.$1.mlp.proj_in.$2"},
        {"mask_decoder.transformer.layers.*.mlp.lin2.*", "mask_decoder.transformer.layers.$1.mlp.proj_out.$2"},
        {"mask_decoder.transformer.**.out_proj.*", "mask_decoder.transformer.$1.o_proj.$2"},
    };
    return rules;
}

const std::vector<RenameRule>& meta_encoder_names() {
    static const std::vector<RenameRule> rules{
        {"image_encoder.patch_embed.proj.*", "vision_encoder.patch_embed.projection.$1"},
        {"image_encoder.blocks.**", "vision_encoder.layers.$1"},
        {"vision_encoder.layers.*.norm1.*", "vision_encoder.layers.$1.layer_norm1.$2"},
        {"vision_encoder.layers.*.norm2.*", "vision_encoder.layers.$1.layer_norm2.$2"},
        {"image_encoder.neck.0.*", "vision_encoder.neck.conv1.$1"},
        {"image_encoder.neck.1.*", "vision_encoder.neck.layer_norm1.$1"},
        {"image_encoder.neck.2.*", "vision_encoder.neck.conv2.$1"},
        {"image_encoder.neck.3.*", "vision_encoder.neck.layer_norm2.$1"},
        {"image_encoder.**", "vision_encoder.$1"},
        {"prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
         "prompt_encoder.shared_embedding.positional_embedding"},
        {"prompt_encoder.point_embeddings.*.weight", "prompt_encoder.point_embed.$1.weight"},
        {"prompt_encoder.mask_downscaling.0.*", "prompt_encoder.mask_embed.conv1.$1"},
        {"prompt_encoder.mask_downscaling.1.*", "prompt_encoder.mask_embed.layer_norm1.$1"},
        {"prompt_encoder.mask_downscaling.3.*", "prompt_encoder.mask_embed.conv2.$1"},
        {"prompt_encoder.mask_downscaling.4.*", "prompt_encoder.mask_embed.layer_norm2.$1"},
        {"prompt_encoder.mask_downscaling.6.*", "prompt_encoder.mask_embed.conv3.$1"},
    };
    return rules;
}

const std::vector<RenameRule>& meta_decoder_names() {
    static const std::vector<RenameRule> rules{
        {"mask_decoder.transformer.layers.*.norm1.*", "mask_decoder.transformer.layers.$1.layer_norm1.$2"},
        {"mask_decoder.transformer.layers.*.norm2.*", "mask_decoder.transformer.layers.$1.layer_norm2.$2"},
        {"mask_decoder.transformer.layers.*.norm3.*", "mask_decoder.transformer.layers.$1.layer_norm3.$2"},
        {"mask_decoder.transformer.layers.*.norm4.*", "mask_decoder.transformer.layers.$1.layer_norm4.$2"},
        {"mask_decoder.transformer.norm_final_attn.*", "mask_decoder.transformer.layer_norm_final_attn.$1"},
        {"mask_decoder.output_upscaling.0.*", "mask_decoder.upscale_conv1.$1"},
        {"mask_decoder.output_upscaling.1.*", "mask_decoder.upscale_layer_norm.$1"},
        {"mask_decoder.output_upscaling.3.*", "mask_decoder.upscale_conv2.$1"},
        // MLPs of three layers. The middle one goes last: as layers.0 it would be taken for the input.
        {"mask_decoder.output_hypernetworks_mlps.*.layers.0.*", "mask_decoder.output_hypernetworks_mlps.$1.proj_in.$2"},
        {"mask_decoder.output_hypernetworks_mlps.*.layers.2.*",
         "mask_decoder.output_hypernetworks_mlps.$1.proj_out.$2"},
        {"mask_decoder.output_hypernetworks_mlps.*.layers.1.*",
         "mask_decoder.output_hypernetworks_mlps.$1.layers.0.$2"},
        {"mask_decoder.iou_prediction_head.layers.0.*", "mask_decoder.iou_prediction_head.proj_in.$1"},
        {"mask_decoder.iou_prediction_head.layers.2.*", "mask_decoder.iou_prediction_head.proj_out.$1"},
        {"mask_decoder.iou_prediction_head.layers.1.*", "mask_decoder.iou_prediction_head.layers.0.$1"},
    };
    return rules;
}

NameMap make_name_map(std::string_view name, std::initializer_list<std::vector<RenameRule>> renames) {
    NameMap map;
    map.name = name;
    map.ignored = {{"pixel_mean", "a constant"}, {"pixel_std", "a constant"}};
    for (const std::vector<RenameRule>& rules : renames)
        map.renames.insert(map.renames.end(), rules.begin(), rules.end());
    map.renames.push_back({"vision_encoder.layers.*.mlp.lin1.*", "vision_encoder.layers.$1.mlp.fc1.$2"});
    map.renames.push_back({"vision_encoder.layers.*.mlp.lin2.*", "vision_encoder.layers.$1.mlp.fc2.$2"});
    map.stacks = {{"prompt_encoder.point_embed.*.weight", "prompt_encoder.point_embed.weight", 4}};
    // One random matrix encodes the positions of points and of pixels.
    map.aliases = {
        {"prompt_encoder.shared_embedding.positional_embedding", "shared_image_embedding.positional_embedding"}};
    return map;
}

}  // namespace

const NameMap& sam1_hf_names() {
    static const NameMap map = make_name_map("SAM 1, Hugging Face's names", {decoder_names()});
    return map;
}

const NameMap& sam1_official_names() {
    static const NameMap map =
        make_name_map("SAM 1, Meta's names", {meta_encoder_names(), meta_decoder_names(), decoder_names()});
    return map;
}

bool is_sam1(const WeightFile& file) { return find_name_map(file) != nullptr; }

const NameMap& sam1_name_map(const WeightFile& file) {
    if (const NameMap* map = find_name_map(file)) return *map;
    fail(file.path(), ": expected a SAM 1 model, found other tensor names",
         file.tensors().empty() ? std::string(" (none at all)")
                                : str(", such as ", quote_name(file.tensors().front().name)));
}

const std::vector<IgnoreRule>& sam1_unused_weights() {
    static const std::vector<IgnoreRule> rules{
        {"shared_image_embedding.positional_embedding", "equals the prompt encoder's"},
    };
    return rules;
}

}  // namespace sam3
