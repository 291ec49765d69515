"""Compares detections: the reference's JSON files with this program's, by picture and prompt.

    python compare_results.py EXPECTED ACTUAL [--score 1e-3] [--box 0.5] [--iou 0.995]

EXPECTED and ACTUAL are files or folders of equally named .json files. A file is {"detections": [...]}, or a list of
detections; a detection has score, box [x0, y0, x1, y1] in pixels and mask {size, counts} with compressed COCO RLE.
Detections are paired by mask overlap. Ends with 1 if a pair is missing or differs by more than the limits.
"""
import argparse
import json
import os
import sys
from dataclasses import dataclass

import numpy as np

from rle import decode_mask


@dataclass
class Difference:
    expected: int = 0
    actual: int = 0
    paired: int = 0
    score: float = 0.0
    box: float = 0.0
    iou: float = 1.0
    pixels: int = 0

    def add(self, other):
        self.expected += other.expected
        self.actual += other.actual
        self.paired += other.paired
        self.score, self.box = max(self.score, other.score), max(self.box, other.box)
        self.iou = min(self.iou, other.iou)
        self.pixels += other.pixels

    def __str__(self):
        return (f"expected {self.expected}, found {self.actual}, paired {self.paired}; worst score difference "
                f"{self.score:.2e}, box {self.box:.3f} px, mask IoU {self.iou:.5f}, differing pixels {self.pixels}")


def overlap(a, b):
    union = np.logical_or(a, b).sum()
    return float(np.logical_and(a, b).sum() / union) if union else 1.0


def compare_detections(expected, actual):
    """Greedy pairing: best overlap first, the nearer score where two overlap alike."""
    out = Difference(len(expected), len(actual))
    left = [decode_mask(d["mask"]["size"], d["mask"]["counts"]) for d in expected]
    right = [decode_mask(d["mask"]["size"], d["mask"]["counts"]) for d in actual]
    pairs = sorted(((round(overlap(a, b), 4), -abs(expected[i]["score"] - actual[j]["score"]), i, j)
                    for i, a in enumerate(left) for j, b in enumerate(right) if a.shape == b.shape), reverse=True)
    used_left, used_right = set(), set()
    for iou, _, i, j in pairs:
        if i in used_left or j in used_right or iou < 0.5:
            continue
        used_left.add(i)
        used_right.add(j)
        one = Difference(paired=1, score=abs(expected[i]["score"] - actual[j]["score"]),
                         iou=overlap(left[i], right[j]), pixels=int((left[i] != right[j]).sum()))
        if expected[i].get("box") and actual[j].get("box"):
            one.box = max(abs(x - y) for x, y in zip(expected[i]["box"], actual[j]["box"]))
        out.add(one)
    return out


def read(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    return data if isinstance(data, list) else data["detections"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("expected")
    parser.add_argument("actual")
    parser.add_argument("--score", type=float, default=1e-3)
    parser.add_argument("--box", type=float, default=0.5)
    parser.add_argument("--iou", type=float, default=0.995)
    args = parser.parse_args()
    if os.path.isdir(args.expected):
        names = sorted(n for n in os.listdir(args.expected) if n.endswith(".json"))
        files = [(os.path.join(args.expected, n), os.path.join(args.actual, n), n) for n in names]
    else:
        files = [(args.expected, args.actual, os.path.basename(args.expected))]
    total, failed = Difference(), []
    for left, right, name in files:
        if not os.path.exists(right):
            print(f"{name}: missing")
            failed.append(name)
            continue
        one = compare_detections(read(left), read(right))
        bad = (one.paired != one.expected or one.paired != one.actual or one.score > args.score or one.box > args.box or
               one.iou < args.iou)
        if bad:
            failed.append(name)
        print(f"{name}: {one}{'  <<<' if bad else ''}")
        total.add(one)
    print(f"all {len(files)}: {total}; {len(failed)} outside the limits")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
