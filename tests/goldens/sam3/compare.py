"""Compares two dumps of named intermediates (folders of <name>.npy, and result.json if both have it).

    python compare.py EXPECTED ACTUAL [--limit 1e-3]

One line a tensor: shape, range of the expected one, largest and mean difference relative to that range. Ends with 1
if a tensor is missing, has another shape, or differs by more than the limit.
"""
import argparse
import json
import os
import sys

import numpy as np

from compare_results import compare_detections

STAGES = ["pixel_values", "vision.patch_embed", "vision.pre_norm", "vision.block", "vision.backbone", "vision.fpn",
          "text", "geometry", "fusion", "decoder", "masks", "semantic"]


def order(name):
    stage = next((i for i, s in enumerate(STAGES) if name.startswith(s)), len(STAGES))
    return stage, [int(p) if p.isdigit() else p for p in name.split(".") if p.isdigit()], name


def valid_tokens(name, value, folder):
    """Text and geometry features behind the padding mask mean nothing: they are set to 0 on both sides."""
    mask_name = {"text.features": "text.mask", "geometry.features": "geometry.mask"}.get(name)
    path = os.path.join(folder, f"{mask_name}.npy")
    if mask_name is None or not os.path.exists(path):
        return value
    return value * np.load(path).astype(value.dtype)[..., None]


def with_padding(name, value, expected):
    """Text features may end where the phrase does, and not with the padding."""
    if name != "text.features" or value.ndim != 3 or value.shape[1] >= expected.shape[1]:
        return value
    return np.pad(value, ((0, 0), (0, expected.shape[1] - value.shape[1]), (0, 0)))


def compare(expected_folder, actual_folder, limit):
    names = sorted((f[:-4] for f in os.listdir(expected_folder) if f.endswith(".npy")), key=order)
    failed = []
    print(f"{'tensor':24s} {'shape':>18s} {'range':>9s} {'max':>9s} {'mean':>9s}")
    for name in names:
        path = os.path.join(actual_folder, f"{name}.npy")
        if not os.path.exists(path):
            print(f"{name:24s} missing")
            failed.append(name)
            continue
        expected = valid_tokens(name, np.load(os.path.join(expected_folder, f"{name}.npy")), expected_folder)
        actual = with_padding(name, np.load(path), expected)
        if actual.size != expected.size:
            print(f"{name:24s} shape {actual.shape}, expected {expected.shape}")
            failed.append(name)
            continue
        actual = valid_tokens(name, actual.reshape(expected.shape), expected_folder)
        expected, actual = expected.astype(np.float64), actual.astype(np.float64)
        span = max(expected.max() - expected.min(), abs(expected).max(), 1e-6)
        difference = np.abs(actual - expected)
        worst = difference.max() / span
        if not worst <= limit:
            failed.append(name)
        print(f"{name:24s} {'x'.join(map(str, expected.shape)):>18s} {span:9.3g} {worst:9.2e} "
              f"{difference.mean() / span:9.2e}{'' if worst <= limit else '  <<<'}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("expected")
    parser.add_argument("actual")
    parser.add_argument("--limit", type=float, default=1e-3)
    args = parser.parse_args()
    failed = compare(args.expected, args.actual, args.limit)
    results = [os.path.join(folder, "result.json") for folder in (args.expected, args.actual)]
    if all(map(os.path.exists, results)):
        expected, actual = (json.load(open(path, encoding="utf-8")) for path in results)
        print(compare_detections(expected["detections"], actual["detections"]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
