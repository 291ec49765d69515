"""Sizes of the model, its transformers configuration, and its folder on disk.

Everything is the layout of transformers' `Sam3VideoModel`; only the sizes are small. Sizes that transformers fixes:
  * memory attention reads 64 channels, so the memory encoder writes 64 and the width is a multiple of 64 above it
    (object pointers are split into width / 64 tokens);
  * the feature pyramid has 4 levels and throws the 0.5x one away: dead weights, kept for the layout;
  * GroupNorm(8) in the pixel decoder; rotary encoding wants head sizes divisible by 4.
"""
import copy
import json
import os

import torch
from safetensors.torch import load_file, save_file

from initialise import init_weights
from tokenizer import MAX_TEXT, save_tokenizer

PATCH = 14
PRESETS = {
    # 6.2 M weights, 0.33 M of them the never-read 0.5x level
    "tiny": dict(
        image=336, pretrain=112, window=8, vit_hidden=128, vit_layers=8, vit_heads=2, vit_mlp=256,
        d=128, heads=4, ffn=192, enc_layers=2, dec_layers=3, queries=50, geo_layers=1, roi=3,
        pix_stages=2, text_hidden=64, text_layers=4, text_heads=4, text_mlp=128,
        trk_mlp=192, mem_layers=2, mem_ffn=192, fuser_layers=2, fuser_mlp=128,
    ),
    # for tests on a CPU: 8x8 tokens
    "smoke": dict(
        image=112, pretrain=56, window=4, vit_hidden=64, vit_layers=4, vit_heads=1, vit_mlp=128,
        d=128, heads=4, ffn=128, enc_layers=1, dec_layers=2, queries=25, geo_layers=1, roi=3,
        pix_stages=2, text_hidden=32, text_layers=2, text_heads=2, text_mlp=64,
        trk_mlp=128, mem_layers=1, mem_ffn=128, fuser_layers=1, fuser_mlp=64,
    ),
}


def grid_of(p):
    return p["image"] // PATCH


def lowres_of(p):
    return 4 * p["image"] // PATCH


def build_config(p, tok):
    """The Sam3VideoConfig of preset dict `p` and tokenizer dict `tok`."""
    from transformers import Sam3VideoConfig

    g = grid_of(p)
    vit = dict(
        model_type="sam3_vit_model", hidden_size=p["vit_hidden"], intermediate_size=p["vit_mlp"],
        num_hidden_layers=p["vit_layers"], num_attention_heads=p["vit_heads"], image_size=p["image"],
        patch_size=PATCH, window_size=p["window"],
        global_attn_indexes=[i for i in range(p["vit_layers"]) if i % 2 == 1],
        pretrain_image_size=p["pretrain"],
    )
    vis = dict(
        model_type="sam3_vision_model", backbone_config=vit, fpn_hidden_size=p["d"],
        backbone_feature_sizes=[[4 * g, 4 * g], [2 * g, 2 * g], [g, g]], scale_factors=[4.0, 2.0, 1.0, 0.5],
    )
    com = dict(hidden_size=p["d"], num_attention_heads=p["heads"], intermediate_size=p["ffn"], dropout=0.0)
    det = dict(
        model_type="sam3", vision_config=copy.deepcopy(vis),
        text_config=dict(
            vocab_size=tok["size"], hidden_size=p["text_hidden"], intermediate_size=p["text_mlp"],
            projection_dim=p["text_hidden"], num_hidden_layers=p["text_layers"],
            num_attention_heads=p["text_heads"], max_position_embeddings=MAX_TEXT, hidden_act="gelu",
            bos_token_id=tok["bos"], eos_token_id=tok["eos"], pad_token_id=tok["eos"],
        ),
        geometry_encoder_config=dict(num_layers=p["geo_layers"], roi_size=p["roi"], **com),
        detr_encoder_config=dict(num_layers=p["enc_layers"], **com),
        detr_decoder_config=dict(num_layers=p["dec_layers"], num_queries=p["queries"], **com),
        mask_decoder_config=dict(hidden_size=p["d"], num_attention_heads=p["heads"],
                                 num_upsampling_stages=p["pix_stages"]),
    )
    trk = dict(
        model_type="sam3_tracker_video", vision_config=copy.deepcopy(vis), image_size=p["image"],
        prompt_encoder_config=dict(hidden_size=p["d"], image_size=p["image"], patch_size=PATCH,
                                   mask_input_channels=16),
        mask_decoder_config=dict(hidden_size=p["d"], mlp_dim=p["trk_mlp"], num_attention_heads=p["heads"],
                                 iou_head_hidden_dim=p["d"]),
        memory_attention_hidden_size=p["d"], memory_attention_num_layers=p["mem_layers"],
        memory_attention_feed_forward_hidden_size=p["mem_ffn"], memory_attention_dropout=0.0,
        memory_attention_rope_dropout=0.0, memory_attention_rope_feat_sizes=[g, g],
        memory_encoder_hidden_size=p["d"], memory_encoder_output_channels=64,
        mask_downsampler_embed_dim=p["d"], memory_fuser_embed_dim=p["d"],
        memory_fuser_intermediate_dim=p["fuser_mlp"], memory_fuser_num_layers=p["fuser_layers"],
    )
    return Sam3VideoConfig(
        detector_config=det, tracker_config=trk, low_res_mask_size=4 * g,
        fill_hole_area=2,  # 16 at 288x288 is about 2 at 96x96
    )


def build_processor(p, tok):
    """A Sam3VideoProcessor with our sizes. Its files also serve Sam3Processor / Sam3TrackerVideoProcessor."""
    from transformers import Sam3VideoProcessor
    from transformers.models.sam2_video.video_processing_sam2_video import Sam2VideoVideoProcessor
    from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

    size = {"height": p["image"], "width": p["image"]}
    low = {"height": lowres_of(p), "width": lowres_of(p)}
    half = [0.5, 0.5, 0.5]
    ip = Sam3ImageProcessor(size=size, mask_size=low, image_mean=half, image_std=half)
    vp = Sam2VideoVideoProcessor(size=size, image_mean=half, image_std=half)
    return Sam3VideoProcessor(image_processor=ip, video_processor=vp, tokenizer=tok["hf"], target_size=p["image"])


def build_model(p, tok, seed=0):
    from transformers import Sam3VideoModel

    torch.manual_seed(seed)
    model = Sam3VideoModel(build_config(p, tok))
    init_weights(model, p, seed)
    return model.eval()


def count_weights(model):
    """All weights, and those that are never read."""
    named = list(model.named_parameters())
    return sum(x.numel() for _, x in named), sum(x.numel() for n, x in named if "fpn_layers.3." in n)


# ---- folder ----------------------------------------------------------------------------------------------
def save_model(model, p, tok, folder, state=None, dtype=torch.float16):
    """Writes a transformers folder: weights in f16, configuration, tokenizer and processor."""
    os.makedirs(folder, exist_ok=True)
    weights = {}
    for name, x in (state or model.state_dict()).items():
        x = x.detach()
        weights[name] = (x.to(dtype) if x.is_floating_point() else x).contiguous().cpu().clone()
        if x.is_floating_point() and not torch.isfinite(weights[name]).all():
            raise ValueError(f"{name} has values that are not finite in {dtype}: train with a lower rate")
    partial = os.path.join(folder, "model.safetensors.tmp")
    save_file(weights, partial, metadata={"format": "pt"})
    os.replace(partial, os.path.join(folder, "model.safetensors"))
    build_processor(p, tok).save_pretrained(folder)
    save_tokenizer(tok, folder)
    config = copy.deepcopy(model.config)
    config.architectures = ["Sam3VideoModel"]
    config.dtype = "float32"  # what from_pretrained(dtype="auto") computes in
    config.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        plain = json.load(f)
    plain["sam3_behaviour"] = "hf"  # read by sam3.cpp: docs/parity.md
    with open(path, "w") as f:
        json.dump(plain, f, indent=1, sort_keys=True)
        f.write("\n")
    with open(os.path.join(folder, "preset.json"), "w") as f:
        json.dump(p, f, indent=1)
        f.write("\n")


def load_state(folder):
    state = load_file(os.path.join(folder, "model.safetensors"))
    return {k: (v.float() if v.is_floating_point() else v) for k, v in state.items()}


def load_preset(folder):
    with open(os.path.join(folder, "preset.json")) as f:
        return json.load(f)
