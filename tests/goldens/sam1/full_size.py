"""A SAM 1 of a published size with random weights, and what the reference makes of a picture with it.

    python full_size.py MODEL --make [--variant b|l|h] [--dtype f16|f32] [--seed 1]
    python full_size.py MODEL --run IMAGE [--point X,Y] [--negative X,Y] [--box X0,Y0,X1,Y1] --dump OUT

--make writes a transformers folder and, in MODEL/official, the same weights as one file with Meta's names: 375 MB each
for ViT-B as f32. --run times each stage and writes every named intermediate as OUT/<name>.npy; the masks of the answer
are OUT/result.masks.npy. ../sam3/compare.py sets two such folders side by side.
"""
import argparse
import json
import os
import time

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import SamConfig, SamModel, SamProcessor
from transformers.initialization import no_init_weights
from transformers.models.sam.image_processing_sam import SamImageProcessor

from make import record_prompt, record_vision
from names import SHARED, official_name, randomize
from common import Recorder, channels_last  # names.py has put it on the path

VARIANTS = {
    "b": dict(),
    "l": dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, global_attn_indexes=[5, 11, 17, 23]),
    "h": dict(hidden_size=1280, num_hidden_layers=32, num_attention_heads=16, global_attn_indexes=[7, 15, 23, 31]),
}


def make(folder, variant, dtype, seed):
    os.makedirs(os.path.join(folder, "official"), exist_ok=True)
    config = SamConfig(vision_config=VARIANTS[variant])
    with no_init_weights():
        model = SamModel(config).eval()
    half = dtype == "f16"
    randomize(model, seed, half)
    state = {k: (v.half() if half else v).contiguous().clone() for k, v in model.state_dict().items() if k != SHARED}
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    save_file({official_name(k): v for k, v in state.items()},
              os.path.join(folder, "official", f"sam_vit_{variant}.safetensors"))
    config.architectures = ["SamModel"]
    config.dtype = "float32"
    config.save_pretrained(folder)
    SamProcessor(SamImageProcessor()).save_pretrained(folder)
    print(f"{sum(v.numel() for v in state.values()) / 1e6:.1f} M values as {dtype} in {folder}")


def numbers(text):
    return [float(v) for v in text.split(",")]


def prompt_inputs(processor, picture, positive, negative, box):
    points = [numbers(p) for p in positive + negative]
    labels = [1] * len(positive) + [0] * len(negative)
    return processor(images=picture, input_points=[[points]] if points else None,
                     input_labels=[[labels]] if points else None, input_boxes=[[numbers(box)]] if box else None,
                     return_tensors="pt")


@torch.no_grad()
def run(folder, image, positive, negative, box, out):
    os.makedirs(out, exist_ok=True)
    model = SamModel.from_pretrained(folder, dtype=torch.float32).eval()
    processor = SamProcessor(SamImageProcessor.from_pretrained(folder))
    picture = np.asarray(Image.open(image).convert("RGB"))
    started = time.perf_counter()
    inputs = prompt_inputs(processor, picture, positive, negative, box)
    prepared = time.perf_counter() - started
    call = {k: inputs[k] for k in ("input_points", "input_labels", "input_boxes") if k in inputs}

    recorder = Recorder()
    record_vision(recorder, model.vision_encoder)
    record_prompt(recorder, model.prompt_encoder, masked=False)
    recorder.time(model.vision_encoder, "image encoder")
    embeddings = model.get_image_embeddings(inputs["pixel_values"])
    started = time.perf_counter()
    several = model(image_embeddings=embeddings, multimask_output=True, **call)
    decoded = time.perf_counter() - started
    single = model(image_embeddings=embeddings, multimask_output=False, **call)
    recorder.close()

    masks = torch.cat([single.pred_masks, several.pred_masks], 2)
    recorder.put("pixel_values", channels_last(inputs["pixel_values"]))
    recorder.put("masks", masks[0])
    recorder.put("iou", torch.cat([single.iou_scores, several.iou_scores], 2)[0])
    full = processor.post_process_masks(list(masks), inputs["original_sizes"], inputs["reshaped_input_sizes"])
    recorder.put("result.masks", full[0][0])
    for name, value in recorder.tensors.items():
        np.save(os.path.join(out, f"{name}.npy"), value)
    times = {"prepare": prepared, **recorder.times, "prompt and masks": decoded, "threads": torch.get_num_threads()}
    with open(os.path.join(out, "times.json"), "w", encoding="utf-8") as file:
        json.dump(times, file, indent=1)
    for stage, seconds in times.items():
        print(f"{stage:16s} {seconds:8.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--variant", choices=list(VARIANTS), default="b")
    parser.add_argument("--dtype", choices=["f16", "f32"], default="f32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", metavar="IMAGE")
    parser.add_argument("--point", action="append", default=[])
    parser.add_argument("--negative", action="append", default=[])
    parser.add_argument("--box")
    parser.add_argument("--dump", default="dump")
    args = parser.parse_args()
    if args.make:
        make(args.model, args.variant, args.dtype, args.seed)
    if args.run:
        run(args.model, args.run, args.point, args.negative, args.box, args.dump)


if __name__ == "__main__":
    main()
