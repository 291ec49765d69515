"""Compares tracked videos: the reference's lines with this program's, frame by frame.

    python compare_tracks.py EXPECTED ACTUAL [--score 1e-3] [--truth FOLDER]

EXPECTED and ACTUAL are folders of equally named .jsonl files, a line a frame with objects (id, score, mask as COCO
RLE). With --truth (clip.json: masks by object and frame) both sides' mean IoU over all frames is printed. Ends with 1
if ids differ on a frame, a score by more than --score, or a mask by more than 0.1 % of its pixels.
"""
import argparse
import json
import os
import sys

import numpy as np

from rle import decode_mask


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {line["frame"]: {o["id"]: o for o in line["objects"]} for line in lines}


def pixels(item):
    return decode_mask(item["mask"]["size"], item["mask"]["counts"]).astype(bool)


def mean_iou(frames, truth):
    out = []
    for key, masks in truth.items():
        for t, mask in enumerate(masks):
            true = decode_mask(mask["size"], mask["counts"]).astype(bool)
            found = frames[t].get(int(key))
            mine = pixels(found) if found else np.zeros_like(true)
            union = (true | mine).sum()
            out.append(1.0 if union == 0 else (true & mine).sum() / union)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("expected")
    parser.add_argument("actual")
    parser.add_argument("--score", type=float, default=1e-3)
    parser.add_argument("--truth")
    args = parser.parse_args()
    bad = 0
    total = dict(frames=0, objects=0, pixels=0, score=0.0)
    quality = [[], []]
    for name in sorted(os.listdir(args.expected)):
        expected, actual = (read(os.path.join(folder, name)) for folder in (args.expected, args.actual))
        ids, worst, differing = 0, 0.0, 0
        for frame in sorted(expected.keys() | actual.keys()):
            left, right = expected.get(frame, {}), actual.get(frame, {})
            if frame not in expected or frame not in actual or left.keys() != right.keys():
                print(f"{name}: frame {frame}: expected ids {sorted(left)}, found {sorted(right)}")
                bad += 1
                continue
            for key, item in left.items():
                a, b = pixels(item), pixels(right[key])
                ids += 1
                worst = max(worst, abs(item["score"] - right[key]["score"]))
                differing += int((a != b).sum())
                bad += int((a != b).sum() > 0.001 * a.size)
        bad += worst > args.score
        print(f"{name}: {len(expected)} frames, {ids} masks, worst score difference {worst:.1e}, "
              f"{differing} differing pixels")
        total["frames"] += len(expected)
        total["objects"] += ids
        total["pixels"] += differing
        total["score"] = max(total["score"], worst)
        if args.truth:
            with open(os.path.join(args.truth, name.replace(".jsonl", ".json")), encoding="utf-8") as file:
                truth = json.load(file)
            quality[0] += mean_iou(expected, truth)
            quality[1] += mean_iou(actual, truth)
    print(f"all: {total['frames']} frames, {total['objects']} masks, worst score difference {total['score']:.1e}, "
          f"{total['pixels']} differing pixels; {bad} outside the limits")
    if args.truth:
        print(f"mean IoU with the truth: expected {np.mean(quality[0]):.4f}, actual {np.mean(quality[1]):.4f}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
