#!/usr/bin/env python3
"""Evaluates a model folder on the held-out set, through transformers, and draws contact sheets.

    evaluate.py --model out --heldout heldout --out metrics [--workers 8] [--tasks text ...] [--threshold 0.5]
"""
import argparse
import json
import multiprocessing
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
import transformers
from PIL import Image

import predict
import sheets
from heldout import deepest
from metrics import Finding, decode_rle, iou, match_tracks, switches, track_j

BATCH = 32
SHOWN = 24       # cells of an image sheet
STRIPS = 6       # clips of a video sheet
PER_CLIP = 3     # objects to click in a clip


class Data:
    """The part of the held-out set that falls to one worker."""

    def __init__(self, args, device, worker):
        self.folder, self.device, self.threshold = args.heldout, device, args.threshold
        with open(os.path.join(self.folder, "images.json")) as f:
            self.images = json.load(f)
        with open(os.path.join(self.folder, "clips.json")) as f:
            self.clips = json.load(f)
        mine = lambda i: i % args.workers == worker
        self.scenes = {x["id"]: x for x in self.images["images"] if mine(x["id"])}
        self.videos = [x for x in self.clips["videos"] if mine(x["id"])]
        self.notes = {a["id"]: a for a in self.images["annotations"] if a["image_id"] in self.scenes}
        self.tracks = {a["id"]: a for a in self.clips["annotations"] if mine(a["video_id"])}
        self.cache = {}

    def pixels(self, name):
        if name not in self.cache:
            self.cache[name] = np.asarray(Image.open(os.path.join(self.folder, name)).convert("RGB"))
        return self.cache[name]

    def tensor(self, names):
        x = torch.from_numpy(np.stack([self.pixels(n) for n in names])).to(self.device)
        return x.permute(0, 3, 1, 2).float() / 127.5 - 1

    def mask(self, number):
        return decode_rle(self.notes[number]["segmentation"])

    def track(self, number):
        a = self.tracks[number]
        size = next(s["size"] for s in a["segmentations"] if s)
        return [decode_rle(s) if s else np.zeros(size, bool) for s in a["segmentations"]]


def batches(items):
    return [items[i:i + BATCH] for i in range(0, len(items), BATCH)]


def eval_text(data, model, tokenizer):
    records, cells = [], []
    asked = [p for p in data.images["prompts"] if p["image_id"] in data.scenes]
    for some in batches(asked):
        names = [data.scenes[p["image_id"]]["file_name"] for p in some]
        results = predict.find(model, tokenizer, data.tensor(names), [p["phrase"] for p in some], data.threshold)
        for p, name, found in zip(some, names, results):
            truth = [data.mask(i) for i in p["annotation_ids"]]
            one = Finding()
            one.add(found, truth)
            records.append(dict(phrase=p["phrase"], counts=vars(one)))
            if len(cells) < SHOWN:
                cells.append(sheets.cell(data.pixels(name), dict(enumerate(found)), truth,
                                         f"{p['phrase']} ({len(found)}/{len(truth)})"))
    return records, cells


def eval_exemplars(data, model, tokenizer):
    records, cells = [], []
    asked = [p for p in data.images["exemplars"] if p["image_id"] in data.scenes]
    for some in batches(asked):
        names = [data.scenes[p["image_id"]]["file_name"] for p in some]
        images = data.tensor(names)
        x, y, w, h = (torch.tensor([p["bbox"] for p in some], device=data.device) / images.shape[-1]).unbind(-1)
        boxes = torch.stack([x + w / 2, y + h / 2, w, h], -1)[:, None]
        results = predict.find(model, tokenizer, images, ["visual"] * len(some), data.threshold, boxes)
        for p, name, found in zip(some, names, results):
            truth = [data.mask(i) for i in p["annotation_ids"]]
            one = Finding()
            one.add(found, truth)
            records.append(dict(counts=vars(one)))
            if len(cells) < SHOWN:
                cells.append(sheets.cell(data.pixels(name), dict(enumerate(found)), truth,
                                         f"{len(found)}/{len(truth)}", box=p["bbox"]))
    return records, cells


def correction(mask, truth):
    """The pixel deepest inside the larger of the two errors, and its label."""
    missing, extra = truth & ~mask, mask & ~truth
    add = missing.sum() >= extra.sum()
    place = deepest(missing if add else extra) or deepest(truth)
    return place, int(bool(add))


def eval_clicks(data, model):
    """One object of every scene: one click, then two corrections, with and without the previous mask."""
    records, cells, by_scene = [], [], {}
    for a in data.notes.values():
        by_scene.setdefault(a["image_id"], []).append(a)
    chosen = [notes[k % len(notes)] for k, notes in sorted(by_scene.items())]
    for some in batches(chosen):
        names = [data.scenes[a["image_id"]]["file_name"] for a in some]
        images = data.tensor(names)
        truth = [torch.from_numpy(data.mask(a["id"])) for a in some]
        scores = [dict() for _ in some]
        for way in ("points", "points_and_mask"):
            points = torch.tensor([[a["click"]] for a in some], device=data.device)
            labels = torch.ones(len(some), 1, dtype=torch.long, device=data.device)
            low = None
            for n in (1, 2, 3):
                masks, low = predict.click(model, images, points, labels, low if way == "points_and_mask" else None)
                masks = masks.cpu()
                for s, m, t in zip(scores, masks, truth):
                    s[f"{way}_{n}"] = iou(m.numpy(), t.numpy())
                if n == 1 and way == "points":
                    shown = masks
                more = [correction(m, t) for m, t in zip(masks, truth)]
                points = torch.cat([points, torch.tensor([[p] for p, _ in more], device=data.device)], 1)
                labels = torch.cat([labels, torch.tensor([[v] for _, v in more], device=data.device)], 1)
        for a, name, s, m, t in zip(some, names, scores, shown, truth):
            records.append(s)
            if len(cells) < SHOWN:
                text = f"1 click {s['points_1']:.2f}, 3 clicks {s['points_3']:.2f}"
                cells.append(sheets.cell(data.pixels(name), {0: m.numpy()}, [t.numpy()], text, points=[a["click"]]))
    return records, cells


def strip(data, video, tracks, truth, text):
    T = video["length"]
    return [sheets.cell(data.pixels(video["file_names"][t]), {i: m[t] for i, m in tracks.items()},
                        [m[t] for m in truth], f"{text} {t}") for t in range(0, T, max(1, T // 8))]


def eval_video_clicks(data, model):
    records, cells = [], []
    for video in data.videos:
        notes = [a for a in data.tracks.values() if a["video_id"] == video["id"] and a["click"]][:PER_CLIP]
        if not notes:
            continue
        tracks = predict.follow_clicks(model, data.tensor(video["file_names"]), [a["click"] for a in notes])
        truth = [data.track(a["id"]) for a in notes]
        for i, t in enumerate(truth):
            mine = tracks[i]
            records.append(dict(j=track_j(mine[1:], t[1:]), first=iou(mine[0], t[0]), last=iou(mine[-1], t[-1])))
        if len(cells) < STRIPS * 8:
            cells += strip(data, video, tracks, truth, "click")
    return records, cells


def eval_video_text(data, model, tokenizer):
    records, cells = [], []
    asked = {p["video_id"]: p for p in data.clips["prompts"] if p["annotation_ids"]}
    for video in data.videos:
        if video["id"] not in asked:
            continue
        p = asked[video["id"]]
        tracks = predict.follow_text(model, tokenizer, data.tensor(video["file_names"]), p["phrase"])
        truth = [data.track(i) for i in p["annotation_ids"]]
        js, extra = match_tracks(tracks, truth)
        records.append(dict(video=video["id"], js=js, extra=extra, switches=switches(tracks, truth)))
        if len(cells) < STRIPS * 8:
            cells += strip(data, video, tracks, truth, p["phrase"])
    return records, cells


TASKS = dict(text=("Sam3Model", eval_text, True), exemplar=("Sam3Model", eval_exemplars, True),
             click=("Sam3TrackerModel", eval_clicks, False),
             video_click=("Sam3TrackerVideoModel", eval_video_clicks, False),
             video_text=("Sam3VideoModel", eval_video_text, True))


def work(job):
    """One task on one worker's share -> records, cells"""
    args, worker, task = job
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Data(args, device, worker)
    kind, function, with_text = TASKS[task]
    model = predict.load(kind, args.model, device)
    if with_text:
        return function(data, model, transformers.AutoTokenizer.from_pretrained(args.model))
    return function(data, model)


# ---- summing up ----------------------------------------------------------------------------------------------
def finding(records):
    total = Finding()
    for r in records:
        for key, value in r["counts"].items():
            setattr(total, key, getattr(total, key) + value)
    return total.result()


def summary(task, records):
    average = lambda values: sum(values) / max(len(values), 1)
    if task in ("text", "exemplar"):
        return finding(records)
    if task == "click":
        return dict(one_click=average([r["points_1"] for r in records]), objects=len(records),
                    three_clicks=average([r["points_3"] for r in records]),
                    three_clicks_with_mask=average([r["points_and_mask_3"] for r in records]))
    if task == "video_click":
        return dict(j=average([r["j"] for r in records]), first_frame=average([r["first"] for r in records]),
                    last_frame=average([r["last"] for r in records]), tracks=len(records))
    tracks = sum(len(r["js"]) for r in records)
    changes = [n for r in records for n in r["switches"]]
    return dict(j=average([j for r in records for j in r["js"]]), tracks=tracks,
                extra_tracks=sum(r["extra"] for r in records), switches=sum(changes),
                switched_tracks=average([n > 0 for n in changes]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", required=True)
    ap.add_argument("--heldout", required=True)
    ap.add_argument("--out", required=True, help="folder of metrics.json and the sheets")
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--threshold", type=float, default=0.5, help="of the scores of what a phrase or an exemplar finds")
    ap.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    result = dict(transformers=transformers.__version__, torch=torch.__version__, threshold=args.threshold)
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        for task in args.tasks:
            start = time.time()
            parts = pool.map(work, [(args, w, task) for w in range(args.workers)], chunksize=1)
            result[task] = {k: round(v, 4) for k, v in summary(task, [r for p in parts for r in p[0]]).items()}
            print(f"{task} in {time.time() - start:.0f} s: {json.dumps(result[task])}", flush=True)
            cells, video = [c for p in parts for c in p[1]], task.startswith("video")
            if cells:
                shown = cells[:STRIPS * 8 if video else SHOWN]
                sheets.save(shown, os.path.join(args.out, f"{task}.png"), 8 if video else 6)
            with open(os.path.join(args.out, "metrics.json"), "w") as f:
                json.dump(result, f, indent=1)
                f.write("\n")


if __name__ == "__main__":
    main()
