#!/usr/bin/env python3
"""What transformers answers on a held-out set, for `sam3 eval --predictions`: the same questions, the same scorer.

    reference.py --model FOLDER --heldout heldout --task text|exemplar|click|video-text|video-click --out P.json
        [--device cuda] [--limit N] [--shard I/N]

Masks go through transformers' own post-processing (probabilities are enlarged), clicks are those of `sam3 eval`.
tests/goldens/gguf_to_hf.py makes FOLDER from a GGUF file.
"""
import argparse
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "goldens", "sam3")]

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from scipy.ndimage import distance_transform_edt

import predict
import video_kernels
from metrics import decode_rle, encode_rle


def picture(args, name):
    pixels = np.asarray(Image.open(os.path.join(args.heldout, name)).convert("RGB"))
    return torch.from_numpy(pixels.copy()).to(args.device).permute(2, 0, 1)[None].float() / 127.5 - 1


def mine_of(args, items):
    """The images or videos of this shard."""
    index, count = map(int, args.shard.split("/"))
    return items[:args.limit or None][index::count]


def inner_point(mask):
    """The centre of the largest inscribed circle, which ends at the border; the first of equals, row by row."""
    depth = distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    y, x = divmod(int(np.argmax(np.round(depth ** 2))), mask.shape[1])
    return [x, y]


@torch.no_grad()
def concepts(model, tokenizer, image, phrases, boxes, threshold):
    """-> for each phrase [(score, mask)], as post_process_instance_segmentation gives them"""
    ids, attention = predict.tokens(tokenizer, phrases, image.device)
    extra = {}
    if boxes is not None:
        labels = torch.ones(boxes.shape[:2], dtype=torch.long, device=image.device)
        extra = dict(input_boxes=boxes.to(image.device), input_boxes_labels=labels)
    out = model(pixel_values=image.expand(len(phrases), -1, -1, -1), input_ids=ids, attention_mask=attention, **extra)
    scores = out.pred_logits.sigmoid() * out.presence_logits.sigmoid()
    size = image.shape[-1]
    found = []
    for score, masks in zip(scores, out.pred_masks):
        keep = score > threshold
        if not keep.any():
            found.append([])
            continue
        big = F.interpolate(masks[keep].sigmoid()[None], size=(size, size), mode="bilinear", align_corners=False)[0]
        found.append([(float(s), m.cpu().numpy() > 0.5) for s, m in zip(score[keep], big)])
    return found


def images(args, data, model, tokenizer):
    """Phrases or exemplar boxes; `prompt_id` is the place in the list."""
    exemplar = args.task == "exemplar"
    asked = data["exemplars" if exemplar else "prompts"]
    for image in mine_of(args, data["images"]):
        mine = [(i, p) for i, p in enumerate(asked) if p["image_id"] == image["id"]]
        if not mine:
            continue
        x = picture(args, image["file_name"])
        boxes = None
        if exemplar:
            left, top, w, h = (torch.tensor([p["bbox"] for _, p in mine]) / x.shape[-1]).unbind(-1)
            boxes = torch.stack([left + w / 2, top + h / 2, w, h], -1)[:, None]
        phrases = ["visual" if exemplar else p["phrase"] for _, p in mine]
        for (i, _), found in zip(mine, concepts(model, tokenizer, x, phrases, boxes, args.threshold)):
            for score, mask in found:
                yield dict(image_id=image["id"], prompt_id=i, score=score, segmentation=encode_rle(mask))


def clicks(args, data, model):
    for image in mine_of(args, data["images"]):
        x = picture(args, image["file_name"])
        for note in (a for a in data["annotations"] if a["image_id"] == image["id"]):
            point = torch.tensor([[inner_point(decode_rle(note["segmentation"]))]], device=args.device)
            masks, _ = predict.click(model, x, point, torch.ones(1, 1, dtype=torch.long, device=args.device))
            yield dict(annotation_id=note["id"], clicks=1, score=1.0, segmentation=encode_rle(masks[0].cpu().numpy()))


def videos(args, data, model, tokenizer):
    for video in mine_of(args, data["videos"]):
        frames = torch.cat([picture(args, name) for name in video["file_names"]])
        rles = lambda track: [encode_rle(m) if m.any() else None for m in track]
        if args.task == "video-text":
            for i, p in enumerate(data["prompts"]):
                if p["video_id"] != video["id"]:
                    continue
                for track in predict.follow_text(model, tokenizer, frames, p["phrase"]).values():
                    yield dict(video_id=video["id"], prompt_id=i, score=1.0, segmentations=rles(track))
            continue
        notes = [a for a in data["annotations"] if a["video_id"] == video["id"] and a["click"]]
        places = [inner_point(decode_rle(a["segmentations"][0])) for a in notes]
        tracks = predict.follow_clicks(model, frames, places) if notes else {}
        for i, note in enumerate(notes):
            yield dict(annotation_id=note["id"], clicks=1, score=1.0, segmentations=rles(tracks[i]))


KINDS = {"text": "Sam3Model", "exemplar": "Sam3Model", "click": "Sam3TrackerModel", "video-text": "Sam3VideoModel",
         "video-click": "Sam3TrackerVideoModel"}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", required=True)
    ap.add_argument("--heldout", required=True)
    ap.add_argument("--task", choices=KINDS, required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--limit", type=int, default=0)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--shard", default="0/1", help="this part of the images or videos; the lists of all parts together are the answer")
    ap.add_argument("--threshold", type=float, default=0.5)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    video_kernels.install()  # else transformers leaves out mask NMS and the filling of holes where a package is missing
    with open(os.path.join(args.heldout, "clips.json" if args.task.startswith("video") else "images.json")) as f:
        data = json.load(f)
    model = predict.load(KINDS[args.task], args.model, torch.device(args.device))
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    if args.task.startswith("video"):
        found = videos(args, data, model, tokenizer)
    else:
        found = clicks(args, data, model) if args.task == "click" else images(args, data, model, tokenizer)
    with open(args.out, "w") as f:
        json.dump(list(found), f)


if __name__ == "__main__":
    main()
