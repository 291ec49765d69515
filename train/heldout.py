#!/usr/bin/env python3
"""Renders the held-out set: scenes as PNG images, clips as folders of PNG frames, the truth as COCO-style JSON.

    heldout.py --out heldout [--scenes 500] [--clips 100] [--frames 24] [--workers 4]

Every scene and clip has a seed of its own, far from those of training, drawn on the CPU.

images.json  COCO: images, categories (colour and shape), annotations (RLE); besides, prompts {image_id, phrase,
             annotation_ids (empty: the concept is absent)} and exemplars {image_id, bbox, annotation_ids}
clips.json   the same in the manner of YouTube-VIS: videos, annotations with one RLE, box and area for each frame
Annotations carry a "click", the pixel deepest inside the object (of a clip: on its first frame, null if hidden).
"""
import argparse
import json
import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
import torch.nn.functional as F
from PIL import Image

from clips import clips
from grammar import COLOURS, FILLS, SHAPES, SIZES
from metrics import encode_rle
from prompts import Prompts
from rng import Rng
from scenes import World
from tokenizer import build_tokenizer

SCENE_SEED, CLIP_SEED = 9_000_000, 9_500_000
PROMPTS = 4
START_AREA, START_SHARE = 0.0015, 0.4  # what a clip's object must show on the first frame to be asked for
CATEGORIES = [dict(id=1 + c * len(SHAPES) + s, name=f"{colour} {shape}")
              for c, colour in enumerate(COLOURS) for s, shape in enumerate(SHAPES)]


def deepest(mask):
    """The pixel [x, y] deepest inside a mask, or null for an empty one."""
    if not mask.any():
        return None
    m = mask.float()[None, None]
    size = mask.shape[-1]
    k = max(3, (size // 24) | 1)
    depth = F.avg_pool2d(m, k, 1, k // 2) + 0.5 * F.avg_pool2d(m, 2 * k + 1, 1, k)
    i = int((depth * m).flatten().argmax())
    return [i % size, i // size]


def save_png(image, path):
    pixels = ((image + 1) * 127.5).round().byte().permute(1, 2, 0).cpu().numpy()
    Image.fromarray(pixels).save(path, compress_level=1)


def category(a, i):
    return 1 + int(a["colour"][i]) * len(SHAPES) + int(a["shape"][i])


def xywh(box, size):
    x0, y0, x1, y1 = (box * size).round().int().tolist()
    return [x0, y0, x1 - x0, y1 - y0]


def words(a, i):
    return dict(shape=SHAPES[a["shape"][i]], colour=COLOURS[a["colour"][i]], fill=FILLS[a["fill"][i]],
                size=SIZES[a["size"][i]])


def scene_record(k, world, prompts, out):
    rng = Rng("cpu", SCENE_SEED + k, host=True)
    batch = world.images(1, rng)
    s = {key: v[0] for key, v in batch.items()}
    name = f"images/{k:06d}.png"
    save_png(s["image"], os.path.join(out, name))
    number = lambda i: k * 100 + i + 1
    shown = s["ok"].nonzero()[:, 0].tolist()
    notes = [dict(id=number(i), image_id=k, category_id=category(s, i), bbox=xywh(s["boxes"][i], world.size),
                  area=int(s["area"][i]), segmentation=encode_rle(s["full"][i].numpy()), iscrowd=0,
                  attributes=words(s, i), click=deepest(s["full"][i])) for i in shown]
    asked = prompts.sample(batch, PROMPTS, rng, boxes=False, miss=0.75)
    texts = [dict(image_id=k, phrase=prompts.text(asked["ids"][p], asked["mask"][p]),
                  annotation_ids=[number(i) for i in asked["match"][p].nonzero()[:, 0].tolist()])
             for p in range(PROMPTS) if not asked["unsure"][p]]
    boxes, one = [], int(rng.pick(s["ok"].float()[None])[0])
    like = (s["shape"] == s["shape"][one]) & (s["colour"] == s["colour"][one])
    if shown and not bool((like & s["unsure"]).any()):
        boxes.append(dict(image_id=k, bbox=xywh(s["boxes"][one], world.size),
                          annotation_ids=[number(i) for i in (like & s["ok"]).nonzero()[:, 0].tolist()]))
    image = dict(id=k, file_name=name, width=world.size, height=world.size)
    return dict(images=[image], annotations=notes, prompts=texts, exemplars=boxes)


def clip_record(k, world, frames, out):
    rng = Rng("cpu", CLIP_SEED + k, host=True)
    c = {key: v[0] for key, v in clips(world, 1, frames, rng).items()}
    folder = f"clips/{k:03d}"
    os.makedirs(os.path.join(out, folder), exist_ok=True)
    names = [f"{folder}/{t:02d}.png" for t in range(frames)]
    for image, name in zip(c["image"], names):
        save_png(image, os.path.join(out, name))
    number = lambda i: k * 100 + i + 1
    enough = START_AREA * world.size ** 2
    shown = (c["valid"][0] & (c["area"] > enough).any(0)).nonzero()[:, 0].tolist()
    first = {key: v[0] for key, v in c.items()}
    start = [i for i in shown if first["area"][i] > enough and first["frac"][i] > START_SHARE]
    notes = [dict(id=number(i), video_id=k, category_id=category(first, i), attributes=words(first, i),
                  areas=[int(x) for x in c["area"][:, i]], click=deepest(first["full"][i]) if i in start else None,
                  bboxes=[xywh(c["boxes"][t, i], world.size) if c["area"][t, i] > 0 else None for t in range(frames)],
                  segmentations=[encode_rle(c["full"][t, i].numpy()) if c["area"][t, i] > 0 else None
                                 for t in range(frames)]) for i in shown]
    texts = []
    if start:
        meant = category(first, start[0])
        texts.append(dict(video_id=k, phrase=CATEGORIES[meant - 1]["name"],
                          annotation_ids=[number(i) for i in shown if category(first, i) == meant]))
        # a near miss that never shows: the same colour, another shape
        there = {category(first, i) for i in c["valid"][0].nonzero()[:, 0].tolist()}
        row = (meant - 1) // len(SHAPES) * len(SHAPES)
        absent = [row + s + 1 for s in range(len(SHAPES)) if row + s + 1 not in there]
        texts.append(dict(video_id=k, phrase=CATEGORIES[absent[k % len(absent)] - 1]["name"], annotation_ids=[]))
    video = dict(id=k, name=folder, file_names=names, width=world.size, height=world.size, length=frames)
    return dict(videos=[video], annotations=notes, prompts=texts)


def share(job):
    """One worker's scenes and clips."""
    args, worker = job
    torch.set_num_threads(1)
    world, prompts = World(args.image, "cpu"), Prompts(build_tokenizer(), "cpu")
    scenes = [scene_record(k, world, prompts, args.out) for k in range(worker, args.scenes, args.workers)]
    films = [clip_record(k, world, args.frames, args.out) for k in range(worker, args.clips, args.workers)]
    return scenes, films


def gather(records, what, path):
    records = sorted(records, key=lambda r: r[what][0]["id"])
    merged = {key: [x for r in records for x in r[key]] for key in (records[0] if records else {})}
    with open(path, "w") as f:
        json.dump(dict(info=dict(description="held-out scenes of sam3-shapes"), categories=CATEGORIES, **merged), f)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--scenes", type=int, default=500)
    ap.add_argument("--clips", type=int, default=100)
    ap.add_argument("--frames", type=int, default=24)
    ap.add_argument("--image", type=int, default=336, help="side in pixels")
    ap.add_argument("--workers", type=int, default=4)
    args = ap.parse_args()
    os.makedirs(os.path.join(args.out, "images"), exist_ok=True)
    torch.set_num_threads(1)
    jobs = [(args, w) for w in range(args.workers)]
    if args.workers > 1:
        with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
            parts = pool.map(share, jobs)
    else:
        parts = [share(jobs[0])]
    gather([r for p in parts for r in p[0]], "images", os.path.join(args.out, "images.json"))
    gather([r for p in parts for r in p[1]], "videos", os.path.join(args.out, "clips.json"))
    print(f"{args.scenes} scenes and {args.clips} clips of {args.frames} frames in {args.out}")


if __name__ == "__main__":
    main()
