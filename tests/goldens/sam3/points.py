"""Makes OUT/points.safetensors: the geometry encoder with point exemplars, which Meta's files have and transformers leaves out.

    python points.py MODEL OUT

The encoder and its weights are transformers' (MODEL: a folder made by make.py); the point branch is stated here as Meta's code
has it (sam3/model/geometry_encoders.py): a projection of x and y, of the normalised features sampled at the point, and of the sine
encoding of x, then y, plus the label. Points come before boxes, the CLS token last. The file holds the weights too.
"""
import argparse
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import Sam3Model

from common import generator_for

PREFIX = "detector_model.geometry_encoder."
POINTS = [[0.31, 0.62], [0.05, 0.93], [0.999, 0.002]]
POINT_LABELS = [1, 0, 1]
BOXES = [[0.4, 0.5, 0.3, 0.2]]
BOX_LABELS = [0]


def random_weights(channels):
    shapes = {"points_direct_project": (channels, 2), "points_pool_project": (channels, channels),
              "points_pos_enc_project": (channels, channels)}
    weights = {}
    for name, shape in shapes.items():
        weights[name + ".weight"] = torch.randn(shape, generator=generator_for(name, 3)) / shape[1] ** 0.5
        weights[name + ".bias"] = 0.2 * torch.randn(shape[0], generator=generator_for(name + ".bias", 3))
    return weights


@torch.no_grad()
def make(model, out):
    encoder = Sam3Model.from_pretrained(model, dtype=torch.float32).eval().geometry_encoder
    channels = encoder.hidden_size
    extra = random_weights(channels)

    def project(name, x):
        return F.linear(x, extra[name + ".weight"], extra[name + ".bias"])

    features = torch.randn((1, 9, 7, channels), generator=generator_for("features", 3))
    positions = encoder.position_encoding((1, channels, 9, 7), "cpu", torch.float32).flatten(2).transpose(1, 2)
    normed = encoder.vision_layer_norm(features).permute(0, 3, 1, 2)
    points = torch.tensor([POINTS])
    sampled = F.grid_sample(normed, (2 * points - 1)[:, :, None], align_corners=False)[..., 0].transpose(1, 2)
    sine_x, sine_y = encoder.position_encoding.encode_1d_positions(points[0, :, 0], points[0, :, 1])
    tokens = (project("points_direct_project", points) + project("points_pool_project", sampled) +
              project("points_pos_enc_project", torch.cat([sine_x, sine_y], -1))[None] +
              encoder.label_embed(torch.tensor([POINT_LABELS])))
    boxes, _ = encoder._encode_boxes(torch.tensor([BOXES]), torch.ones(1, len(BOXES), dtype=torch.bool),
                                     torch.tensor([BOX_LABELS]), normed)
    x = torch.cat([tokens, boxes, encoder.cls_embed.weight[None]], 1)
    x = encoder.prompt_layer_norm(encoder.final_proj(x))
    flat = features.flatten(1, 2)
    for layer in encoder.layers:
        x = layer(prompt_feats=x, vision_feats=flat, vision_pos_encoding=positions, prompt_mask=None)
    tensors = {PREFIX + k: v.contiguous() for k, v in (encoder.state_dict() | extra).items()}
    tensors |= {"input.features": features, "expected.tokens": encoder.output_layer_norm(x)}
    save_file(tensors, os.path.join(out, "points.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    args = parser.parse_args()
    make(args.model, args.out)


if __name__ == "__main__":
    main()
