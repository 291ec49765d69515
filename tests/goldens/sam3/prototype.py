"""What the reference finds in rendered scenes with a small trained model: text, exemplar box and clicks.

    python prototype.py OUT --model FOLDER --scenes FOLDER [--count 20]

FOLDER of --scenes holds the scene generator (scenes.py, grammar.py). Written to OUT:

    images/<scene>.png                       the picture, at another size than the network's in every third scene
    prompts.json                             per scene: text, exemplar [x0, y0, x1, y1], click [x, y], all in pixels
    <kind>-<threshold>/<scene>.json          detections of kind text or exemplar, at 0.3 and 0.5
    truth/<scene>.png                        the object that is clicked on
    click/<scene>.json                       the three masks of one click, best first; score is the predicted IoU
    click-single, box/<scene>.json           the one mask of a click, of a box
    refine/<scene>.json                      of the click, a correcting click and logits/<scene>.npy of the best mask;
                                             correction/<scene>.json says where

A detection is as this program writes it: label, score, box, mask {size, counts}. compare_results.py compares.
"""
import argparse
import json
import os
import sys

import numpy as np
import torch
from PIL import Image
from transformers import AutoTokenizer, Sam3Model, Sam3Processor, Sam3TrackerModel, Sam3TrackerProcessor
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

from rle import encode_mask

SEED = 9_500_000
THRESHOLDS = (0.3, 0.5)
SIZES = [None, (452, 301), (283, 500)]  # (width, height) the picture is resized to, by turns


def describe(scene, j, words):
    shapes, colours = words
    return f"{colours[int(scene['colour'][0, j])]} {shapes[int(scene['shape'][0, j])]}"


def inner_point(mask):
    """The pixel farthest from the mask's border, by peeling."""
    inside = mask.copy()
    while True:
        padded = np.pad(inside, 1)
        peeled = inside & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        if not peeled.any():
            ys, xs = np.nonzero(inside)
            return [int(xs[len(xs) // 2]), int(ys[len(ys) // 2])]
        inside = peeled


def render(scenes_folder, side, count, out):
    """PNG files and prompts.json."""
    sys.path.insert(0, scenes_folder)
    from grammar import COLOURS, SHAPES
    from scenes import Rng, World

    world, rng = World(side, "cpu"), Rng("cpu", SEED)
    for folder in ("images", "truth"):
        os.makedirs(os.path.join(out, folder), exist_ok=True)
    prompts = {}
    while len(prompts) < count:
        scene = world.images(1, rng, want_full=True)
        usable = scene["ok"][0].nonzero()[:, 0].tolist()
        if not usable:
            continue
        j = max(usable, key=lambda i: float(scene["area"][0, i]))
        name = f"scene-{len(prompts):02d}"
        pixels = ((scene["image"][0] * 0.5 + 0.5) * 255).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
        picture = Image.fromarray(pixels)
        mask = Image.fromarray(scene["full"][0, j].numpy().astype(np.uint8) * 255)
        size = SIZES[len(prompts) % len(SIZES)]
        if size:
            picture, mask = picture.resize(size, Image.BICUBIC), mask.resize(size, Image.NEAREST)
        picture.save(os.path.join(out, "images", f"{name}.png"))
        mask.save(os.path.join(out, "truth", f"{name}.png"))
        inside = np.asarray(mask) > 0
        ys, xs = np.nonzero(inside)
        prompts[name] = dict(text=describe(scene, j, (SHAPES, COLOURS)), click=inner_point(inside),
                             exemplar=[int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1])
    with open(os.path.join(out, "prompts.json"), "w", encoding="utf-8") as file:
        json.dump(prompts, file, indent=1)
    return prompts


def detection(label, score, mask, box=None):
    mask = np.asarray(mask).astype(bool)
    out = dict(label=label, score=float(score), mask=dict(size=list(mask.shape), counts=encode_mask(mask)))
    return out | ({"box": [float(v) for v in box]} if box is not None else {})


def write(folder, name, detections):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(dict(detections=detections), file)


@torch.no_grad()
def concepts(model_folder, prompts, out):
    model = Sam3Model.from_pretrained(model_folder, dtype=torch.float32).eval()
    processor = Sam3Processor(Sam3ImageProcessor.from_pretrained(model_folder),
                              AutoTokenizer.from_pretrained(model_folder))
    found = 0
    for name, prompt in prompts.items():
        picture = Image.open(os.path.join(out, "images", f"{name}.png")).convert("RGB")
        for kind in ("text", "exemplar"):
            text = prompt["text"] if kind == "text" else None
            boxes = [[[float(v) for v in prompt["exemplar"]]]] if kind == "exemplar" else None
            inputs = processor(images=picture, text=text, input_boxes=boxes, return_tensors="pt")
            sizes = inputs.pop("original_sizes").tolist()
            output = model(**inputs)
            for threshold in THRESHOLDS:
                result = processor.post_process_instance_segmentation(
                    output, threshold=threshold, target_sizes=sizes)[0]
                answers = [detection(text or "visual", s, m, b)
                           for s, b, m in zip(result["scores"], result["boxes"], result["masks"])]
                found += len(answers)
                write(os.path.join(out, f"{kind}-{threshold}"), name, answers)
    return found


def correction(mask, truth):
    """Where a person would click next: inside the larger of what is missing and what is too much; its label."""
    missing, extra = truth & ~mask, mask & ~truth
    label = int(missing.sum() >= extra.sum())
    wrong = missing if label else extra
    return inner_point(wrong) if wrong.any() else inner_point(truth), label


@torch.no_grad()
def clicks(model_folder, prompts, out):
    """Three candidates and the single mask of one click, the mask of a box, and the correction of the first answer."""
    model = Sam3TrackerModel.from_pretrained(model_folder, dtype=torch.float32).eval()
    processor = Sam3TrackerProcessor(Sam3ImageProcessor.from_pretrained(model_folder))
    for folder in ("logits", "correction"):
        os.makedirs(os.path.join(out, folder), exist_ok=True)

    def answer(name, kind, multimask, masks=None, **prompt):
        picture = Image.open(os.path.join(out, "images", f"{name}.png")).convert("RGB")
        inputs = processor(images=picture, return_tensors="pt", **prompt)
        sizes = inputs.pop("original_sizes").tolist()
        output = model(**inputs, multimask_output=multimask, input_masks=masks)
        full = processor.post_process_masks(output.pred_masks, sizes)[0][0]
        order = output.iou_scores[0, 0].argsort(descending=True)
        write(os.path.join(out, kind), name,
              [detection(kind, output.iou_scores[0, 0, i], full[i].numpy()) for i in order])
        return full[order[0]].numpy(), output.pred_masks[0, 0, order[0]]

    for name, prompt in prompts.items():
        truth = np.asarray(Image.open(os.path.join(out, "truth", f"{name}.png"))) > 0
        one = dict(input_points=[[[prompt["click"]]]], input_labels=[[[1]]])
        mask, logits = answer(name, "click", True, **one)
        answer(name, "click-single", False, **one)
        answer(name, "box", False, input_boxes=[[[float(v) for v in prompt["exemplar"]]]])
        np.save(os.path.join(out, "logits", f"{name}.npy"), logits.numpy())
        point, label = correction(mask, truth)
        answer(name, "refine", False, logits[None, None], input_points=[[[prompt["click"], point]]],
               input_labels=[[[1, label]]])
        with open(os.path.join(out, "correction", f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(dict(point=point, label=label), file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--model", required=True)
    parser.add_argument("--scenes", required=True)
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        side = json.load(file)["detector_config"]["vision_config"]["backbone_config"]["image_size"]
    prompts = render(args.scenes, side, args.count, args.out)
    found = concepts(args.model, prompts, args.out)
    clicks(args.model, prompts, args.out)
    print(f"{len(prompts)} scenes, {found} detections over both prompts and thresholds, in {args.out}")


if __name__ == "__main__":
    main()
