"""Makes tests/data/models/sam1-*: small random SAM 1 models in the transformers layout, and the reference's answers.

    python make.py OUT [--only NAME]

OUT/sam1-names.json lists the tensors of the published ViT-B in both naming styles; OUT/sam1-pictures.safetensors has
the pictures. Names and layouts are those of the SAM 3 goldens: channels last, NAME.sample above a limit.
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file as save_torch
from torch import nn
from transformers import SamConfig, SamModel, SamProcessor
from transformers.models.sam.image_processing_sam import SamImageProcessor

from names import SHARED, official_name, randomize
from common import Recorder, channels_last, pack_masks, store, synthetic_image  # names.py has put it on the path

# Windows never divide the grid. b: 8x8 in windows of 5, head size 16. l: 10x10 in windows of 4, head size 32.
# h: 9x9 in windows of 4, head size 80, smaller patches, the first and last block global.
MODELS = {
    "sam1-b": dict(seed=3, image=128, other=160, patch=16, window=5, width=48, heads=3, mlp=96, layers=3, globals=[1],
                   out=32, decoder_heads=2, decoder_mlp=64, limit=2400),
    "sam1-l": dict(seed=4, image=160, other=96, patch=16, window=4, width=64, heads=2, mlp=64, layers=4, globals=[1, 3],
                   out=48, decoder_heads=3, decoder_mlp=64, limit=1200),
    "sam1-h": dict(seed=5, image=72, other=None, patch=8, window=4, width=160, heads=2, mlp=48, layers=3,
                   globals=[0, 2], out=32, decoder_heads=4, decoder_mlp=48, limit=1200),
}
CASE_LIMIT = 1000
SIZES = [(97, 131), (120, 83)]  # original height and width of the two pictures

# name -> points [objects][points][xy], labels, boxes [objects][xyxy]; in pixels of picture 0
CASES = {
    "point": dict(points=[[[65.0, 48.0]]], labels=[[1]]),
    "points": dict(points=[[[30.5, 20.25], [90.0, 70.0], [12.0, 88.0], [120.0, 5.0]]], labels=[[1, 1, 0, 0]]),
    "box": dict(boxes=[[22.0, 17.0, 84.5, 77.0]]),
    "point-box": dict(points=[[[50.0, 40.0], [100.0, 80.0]]], labels=[[1, 0]], boxes=[[22.0, 17.0, 84.5, 77.0]]),
    "three-objects": dict(points=[[[65.0, 48.0], [10.0, 10.0]], [[20.0, 80.0], [64.0, 50.0]],
                                  [[110.0, 30.0], [3.0, 90.0]]], labels=[[1, 0], [1, 1], [1, 0]]),
    "three-boxes": dict(boxes=[[5.0, 5.0, 40.0, 50.0], [60.0, 10.0, 130.0, 44.0], [30.0, 52.0, 100.0, 96.0]]),
}
SHORT = ["point", "box", "three-objects"]  # of the models after the first


def build_config(p):
    return SamConfig(
        vision_config=dict(hidden_size=p["width"], output_channels=p["out"], num_hidden_layers=p["layers"],
                           num_attention_heads=p["heads"], image_size=p["image"], patch_size=p["patch"],
                           mlp_dim=p["mlp"], window_size=p["window"], global_attn_indexes=p["globals"],
                           num_pos_feats=p["out"] // 2),
        prompt_encoder_config=dict(hidden_size=p["out"], image_size=p["image"], patch_size=p["patch"]),
        mask_decoder_config=dict(hidden_size=p["out"], mlp_dim=p["decoder_mlp"], iou_head_hidden_dim=p["out"],
                                 num_attention_heads=p["decoder_heads"]))


def build_processor(size):
    return SamProcessor(SamImageProcessor(size={"longest_edge": size}, pad_size={"height": size, "width": size}))


@torch.no_grad()
def model_at(model, p, size):
    """The same weights for another input: absolute positions interpolated, relative ones left to get_rel_pos."""
    other = SamModel(build_config(p | dict(image=size))).eval()
    state = model.state_dict()
    own = other.state_dict()
    other.load_state_dict({k: v for k, v in state.items() if v.shape == own[k].shape}, strict=False)
    grid = size // p["patch"]
    positions = model.vision_encoder.pos_embed.permute(0, 3, 1, 2)
    positions = F.interpolate(positions, size=(grid, grid), mode="bilinear", align_corners=False)
    other.vision_encoder.pos_embed = nn.Parameter(positions.permute(0, 2, 3, 1).contiguous())
    for layer, stored in zip(other.vision_encoder.layers, model.vision_encoder.layers):
        layer.attn.rel_pos_h = nn.Parameter(stored.attn.rel_pos_h.clone())
        layer.attn.rel_pos_w = nn.Parameter(stored.attn.rel_pos_w.clone())
    return other


def record_vision(recorder, encoder):
    def embedded(_module, args):
        recorder.put("vision.patch_embed", args[0])

    recorder.handles.append(encoder.layers[0].register_forward_pre_hook(embedded))
    for i, layer in enumerate(encoder.layers):
        recorder.hook(layer, lambda out, i=i: recorder.put(f"vision.block.{i}", out))
    recorder.hook(encoder.neck, lambda out: recorder.put("vision.neck", channels_last(out)))


def record_prompt(recorder, encoder, masked):
    def prompt(out):
        sparse, dense = out
        if sparse is not None:
            recorder.put("prompt.sparse", sparse.flatten(0, 1))
        dense = channels_last(dense)
        recorder.put("prompt.dense", (dense if masked else dense[:1, :1, :1]).flatten(1, 2))

    recorder.hook(encoder, prompt)


class Maker:
    def __init__(self, folder, model, size, limit):
        self.folder, self.model, self.size, self.limit = folder, model, size, limit
        self.processor = build_processor(size)
        self.pictures = [synthetic_image(h, w, seed=100 + i) for i, (h, w) in enumerate(SIZES)]

    @torch.no_grad()
    def images(self, name, indices):
        """<name>: the network's input and every vision.* tensor of a batch of pictures."""
        inputs = self.processor(images=[self.pictures[i] for i in indices], return_tensors="pt")
        recorder = Recorder()
        record_vision(recorder, self.model.vision_encoder)
        embeddings = self.model.get_image_embeddings(inputs["pixel_values"])
        recorder.close()
        recorder.put("pixel_values", channels_last(inputs["pixel_values"]))
        store(os.path.join(self.folder, f"{name}.safetensors"), recorder.tensors,
              dict(pictures=json.dumps(indices), image_size=self.size), self.limit)
        return embeddings

    @torch.no_grad()
    def run(self, name, images, indices, embeddings, points=None, labels=None, boxes=None, mask=None):
        """One decoder run. Several pictures take one object each; `images` names the file made by images()."""
        several = len(indices) > 1
        listed = lambda v: None if v is None else v if several else [v]  # noqa: E731
        inputs = self.processor(images=[self.pictures[i] for i in indices], input_points=listed(points),
                                input_labels=listed(labels), input_boxes=listed(boxes), return_tensors="pt")
        call = {k: inputs[k] for k in ("input_points", "input_labels", "input_boxes") if k in inputs}
        recorder = Recorder()
        record_prompt(recorder, self.model.prompt_encoder, mask is not None)
        single = self.model(image_embeddings=embeddings, input_masks=mask, multimask_output=False, **call)
        recorder.close()
        several_masks = self.model(image_embeddings=embeddings, input_masks=mask, multimask_output=True, **call)
        masks = torch.cat([single.pred_masks, several_masks.pred_masks], 2)  # [images, objects, 4, h, w]
        tensors = recorder.tensors
        tensors["masks"] = masks.flatten(0, 1).numpy()
        tensors["iou"] = torch.cat([single.iou_scores, several_masks.iou_scores], 2).flatten(0, 1).numpy()
        for key in ("input_points", "input_boxes"):  # in the network's pixels
            if key in inputs:
                tensors[key] = inputs[key].flatten(0, 1).numpy().astype(np.float32)
        if "input_labels" in inputs:
            tensors["input_labels"] = inputs["input_labels"].flatten(0, 1).int().numpy()
        if mask is not None:
            tensors["input_mask"] = (mask[0, 0] * 8 + 128).to(torch.uint8).numpy()
        close = self.results(tensors, inputs, masks)
        store(os.path.join(self.folder, f"{name}.safetensors"), tensors,
              dict(images=images, pictures=json.dumps(indices), image_size=self.size, close_pixels=close,
                   sizes=json.dumps([SIZES[i] for i in indices]),
                   input_sizes=json.dumps(inputs["reshaped_input_sizes"].tolist())), CASE_LIMIT)
        print(f"  {name}: masks {masks.min():.1f}..{masks.max():.1f}, positive {(masks > 0).float().mean():.2f}, "
              f"close pixels {close}")
        return masks

    def results(self, tensors, inputs, masks):
        """result.<image>.masks: all four of every object, as the processor resizes and thresholds them."""
        sizes = inputs["original_sizes"], inputs["reshaped_input_sizes"]
        binary = self.processor.post_process_masks(list(masks), *sizes)
        logits = self.processor.post_process_masks(list(masks), *sizes, binarize=False)
        for i, value in enumerate(binary):
            tensors[f"result.{i}.masks"] = pack_masks(value.flatten(0, 1).numpy())
        return sum(int((v.abs() < 1e-4 * (v.max() - v.min())).sum()) for v in logits)


def save_folder(folder, model, size):
    os.makedirs(folder, exist_ok=True)
    weights = {k: v.half().contiguous().clone() for k, v in model.state_dict().items() if k != SHARED}
    save_torch(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    model.config.architectures = ["SamModel"]
    model.config.dtype = "float32"
    model.config.save_pretrained(folder)
    build_processor(size).save_pretrained(folder)


def make(name, out):
    p = MODELS[name]
    folder = os.path.join(out, name)
    model = SamModel(build_config(p)).eval()
    randomize(model, p["seed"], half=True)
    save_folder(folder, model, p["image"])
    print(f"{name}: {sum(v.numel() for v in model.state_dict().values())} values")
    maker = Maker(folder, model, p["image"], p["limit"])
    embeddings = maker.images("image-0", [0])
    first = name == "sam1-b"
    answers = {c: maker.run(c, "image-0", [0], embeddings, **CASES[c]) for c in (CASES if first else SHORT)}
    # goes back in, alone and with a second click; in steps of 1/8, to be stored as bytes
    low = (answers["point"][:, 0, 1:2] * 8).round().clamp(-128, 127) / 8
    maker.run("mask", "image-0", [0], embeddings, mask=low)
    if first:
        maker.run("refine", "image-0", [0], embeddings, points=[[[65.0, 48.0], [20.0, 20.0]]], labels=[[1, 0]],
                  mask=low)
    both = maker.images("images-0-1", [0, 1])
    maker.run("batch", "images-0-1", [0, 1], both,
              points=[[[[65.0, 48.0], [12.0, 88.0]]], [[[40.0, 60.0], [5.0, 9.0]]]], labels=[[[1, 0]], [[1, 1]]])
    if p["other"]:
        suffix = f"-size{p['other']}"
        other = Maker(folder, model_at(model, p, p["other"]), p["other"], CASE_LIMIT)
        embeddings = other.images(f"image-0{suffix}", [0])
        other.run(f"point{suffix}", f"image-0{suffix}", [0], embeddings, **CASES["point"])


def write_names(path):
    """[transformers name, Meta's name or null, shape] of every tensor of the published ViT-B."""
    with torch.device("meta"):
        state = SamModel(SamConfig()).state_dict()
    rows = [[name, official_name(name), list(value.shape)] for name, value in state.items()]
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", choices=list(MODELS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [args.only] if args.only else MODELS:
        make(name, args.out)
    pictures = {f"image.{i}": synthetic_image(h, w, seed=100 + i) for i, (h, w) in enumerate(SIZES)}
    store(os.path.join(args.out, "sam1-pictures.safetensors"), pictures, {}, 0)
    write_names(os.path.join(args.out, "sam1-names.json"))


if __name__ == "__main__":
    main()
