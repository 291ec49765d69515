"""What torch and torchvision compute for the mask layer, and COCO's RLE vectors in a compact form.

Run in the reference environment: python masks.py OUTPUT_FOLDER (tests/data/mask) COCO_RESULTS
where COCO_RESULTS is instances_val2014_fakesegm100_results.json of cocodataset/cocoapi.
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torchvision.ops import nms

from resize import noise


def coco_lines(path):
    """Every third vector: height, width, area, box, string. Area and box come from decoding into pixels."""
    yield "# height width area x y box_width box_height counts"
    with open(path) as file:
        results = json.load(file)
    for entry in results[::3]:
        height, width = entry["segmentation"]["size"]
        text = entry["segmentation"]["counts"]
        mask = decode(text, height, width)
        rows, columns = np.nonzero(mask)
        box = (0, 0, 0, 0)
        if rows.size:
            box = (columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1)
        yield f"{height} {width} {mask.sum()} {' '.join(map(str, box))} {text}"


def decode(text, height, width):
    counts, value, shift = [], 0, 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    flat = np.repeat(np.arange(len(counts)) % 2, counts)
    assert flat.size == height * width
    return flat.reshape(width, height).T


def nms_lines():
    """Boxes and scores on a coarse grid, so that ties and overlaps equal to the threshold occur."""
    yield "# threshold boxes; then per box x0 y0 x1 y1 score; then kept indices"
    rng = np.random.default_rng(7)
    for threshold in (0.1, 0.5, 0.7, 1 / 3):
        for count in (0, 1, 30, 90):
            corner = rng.integers(0, 12, (count, 2))
            boxes = np.concatenate([corner, corner + rng.integers(0, 9, (count, 2))], axis=1).astype(np.float32)
            scores = (rng.integers(0, 40, count) / 8).astype(np.float32)
            kept = nms(torch.from_numpy(boxes), torch.from_numpy(scores), threshold).tolist()
            numbers = " ".join(" ".join(map(str, [*box, score])) for box, score in zip(boxes, scores))
            yield f"{threshold!r} {count} {numbers} {len(kept)} {' '.join(map(str, kept))}"


def logits_of(width, height, seed):
    return torch.from_numpy(noise(width, height, 1, seed, 0)[:, :, 0].astype(np.float32) / 16 - 8)


def to_bits(mask):
    return np.packbits(mask.numpy().astype(np.uint8).reshape(-1)).tobytes().hex()


def upsample_lines():
    yield "# in_width in_height width height seed; then every value; logits are noise / 16 - 8"
    sizes = [(5, 4, 11, 9), (7, 7, 3, 3), (1, 1, 4, 3), (6, 5, 6, 13), (9, 3, 4, 3), (8, 8, 8, 8), (3, 10, 17, 31)]
    for seed, (iw, ih, ow, oh) in enumerate(sizes):
        values = F.interpolate(logits_of(iw, ih, seed)[None, None], size=(oh, ow), mode="bilinear", align_corners=False)
        yield f"{iw} {ih} {ow} {oh} {seed} " + " ".join(f"{v:.9g}" for v in values.flatten().tolist())


def mask_lines():
    yield "# kind in_width in_height width height seed; then the mask's bits, row-major, in hexadecimal"
    for seed, (iw, ih, ow, oh) in enumerate([(36, 36, 101, 67), (24, 30, 64, 150), (40, 40, 25, 33)]):
        logits = logits_of(iw, ih, seed)[None, None]
        after = F.interpolate(logits, size=(oh, ow), mode="bilinear", align_corners=False) > 0
        before = F.interpolate(logits.sigmoid(), size=(oh, ow), mode="bilinear", align_corners=False) > 0.5
        yield f"logits {iw} {ih} {ow} {oh} {seed} {to_bits(after)}"
        yield f"sigmoid_first {iw} {ih} {ow} {oh} {seed} {to_bits(before)}"


if __name__ == "__main__":
    folder, coco = sys.argv[1:3]
    files = {"coco_rle.txt": coco_lines(coco), "nms.txt": nms_lines(), "upsample.txt": upsample_lines(), "masks.txt": mask_lines()}
    for name, lines in files.items():
        with open(f"{folder}/{name}", "w") as out:
            out.write("\n".join(lines) + "\n")
