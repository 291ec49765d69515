"""Meta's names for the tensors of transformers' SamModel, and seeded weights for it."""
import math
import os
import re
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sam3"))
from common import generator_for, lookup, round_to_half  # noqa: E402

SHARED = "shared_image_embedding.positional_embedding"
TIED = "prompt_encoder.shared_embedding.positional_embedding"

# Applied in this order to a transformers name.
OFFICIAL = [
    (r"^vision_encoder\.patch_embed\.projection\.", "image_encoder.patch_embed.proj."),
    (r"^vision_encoder\.neck\.conv1\.", "image_encoder.neck.0."),
    (r"^vision_encoder\.neck\.layer_norm1\.", "image_encoder.neck.1."),
    (r"^vision_encoder\.neck\.conv2\.", "image_encoder.neck.2."),
    (r"^vision_encoder\.neck\.layer_norm2\.", "image_encoder.neck.3."),
    (r"^vision_encoder\.layers\.", "image_encoder.blocks."),
    (r"^vision_encoder\.", "image_encoder."),
    (r"layer_norm(\d|_final)", r"norm\1"),
    (r"^prompt_encoder\.shared_embedding\.positional_embedding$",
     "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"),
    (r"^prompt_encoder\.point_embed\.", "prompt_encoder.point_embeddings."),
    (r"^prompt_encoder\.mask_embed\.conv1\.", "prompt_encoder.mask_downscaling.0."),
    (r"^prompt_encoder\.mask_embed\.norm1\.", "prompt_encoder.mask_downscaling.1."),
    (r"^prompt_encoder\.mask_embed\.conv2\.", "prompt_encoder.mask_downscaling.3."),
    (r"^prompt_encoder\.mask_embed\.norm2\.", "prompt_encoder.mask_downscaling.4."),
    (r"^prompt_encoder\.mask_embed\.conv3\.", "prompt_encoder.mask_downscaling.6."),
    (r"^mask_decoder\.upscale_conv1\.", "mask_decoder.output_upscaling.0."),
    (r"^mask_decoder\.upscale_layer_norm\.", "mask_decoder.output_upscaling.1."),
    (r"^mask_decoder\.upscale_conv2\.", "mask_decoder.output_upscaling.3."),
    # the middle layer first: layers.0 is free for the input afterwards
    (r"^(mask_decoder\.(?:iou_prediction_head|output_hypernetworks_mlps\.\d+))\.layers\.0\.", r"\1.layers.1."),
    (r"^(mask_decoder\.(?:iou_prediction_head|output_hypernetworks_mlps\.\d+))\.proj_in\.", r"\1.layers.0."),
    (r"^(mask_decoder\.(?:iou_prediction_head|output_hypernetworks_mlps\.\d+))\.proj_out\.", r"\1.layers.2."),
]


def official_name(name):
    """None for the copy of the position matrix, which Meta's files do not have."""
    if name == SHARED:
        return None
    for pattern, replacement in OFFICIAL:
        name = re.sub(pattern, replacement, name)
    return name


# Standard deviation of parameters that are neither a matrix, a convolution, a norm nor a bias. First match wins.
EMBEDDING_STD = [("pos_embed", 0.03), ("rel_pos", 0.2), ("positional_embedding", 1.0), ("not_a_point_embed", 0.6),
                 ("point_embed", 0.6), ("no_mask_embed", 0.3), ("mask_tokens", 1.0), ("iou_token", 1.0), ("", 0.3)]

# Factors on top of 1/sqrt(fan-in). The small ones put a small variance in front of a norm, so that a wrong epsilon
# shows up as an error of a percent instead of one of a millionth.
GAIN = [("attn.qkv.weight", 1.3), ("q_proj.weight", 1.5), ("k_proj.weight", 1.5), ("patch_embed.projection", 0.04),
        ("neck.conv1", 0.02), ("mask_embed.conv", 0.05), ("layers.0.self_attn.out_proj", 0.03),
        ("upscale_conv1", 0.02), ("hypernetworks", 1.8)]


@torch.no_grad()
def randomize(model, seed, half):
    """Fills every parameter so that activations stay of order 1. `half` rounds the values to f16."""
    modules = dict(model.named_modules())
    depth = model.config.vision_config.num_hidden_layers
    for name, value in model.state_dict().items():
        if name == TIED:
            continue  # the same memory as SHARED
        owner, leaf = name.rsplit(".", 1)
        module = modules[owner]
        value.normal_(generator=generator_for(name, seed))
        if isinstance(module, nn.LayerNorm):
            value.mul_(0.2).add_(1.0 if leaf == "weight" else 0.0)
        elif leaf == "bias":
            value.mul_(0.2 * lookup(GAIN, name, 1.0))
        elif isinstance(module, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            fan_in = value.shape[0] if isinstance(module, nn.ConvTranspose2d) else value[0].numel()
            residual = "vision_encoder.layers" in name and ("attn.proj" in name or "lin2" in name)
            value.mul_(lookup(GAIN, name, 1.0) / math.sqrt(fan_in) / (math.sqrt(depth / 4) if residual else 1.0))
        else:
            value.mul_(lookup(EMBEDDING_STD, name, 0.3))
    model.prompt_encoder.shared_embedding.positional_embedding.copy_(
        model.shared_image_embedding.positional_embedding)
    if half:
        round_to_half(model)
