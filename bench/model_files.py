#!/usr/bin/env python3
"""Times, sizes and peak memory of converting, quantising and running a model's files, as docs/gguf.md states them.

    bench/model_files.py SAM3 MODEL WORK IMAGE [--pt MODEL.pt] [--text truck] [--image-size N] [--types f32,f16,...]

SAM3 is the program, MODEL a Hugging Face folder, WORK a folder for the files that are made. Each file then segments
IMAGE; its answers are compared with those of the folder itself.
"""
import argparse
import json
import os
import sys
import time
from pathlib import Path


def run(command):
    """Seconds and peak memory in GB."""
    begin = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return time.monotonic() - begin, usage.ru_maxrss / 1e6


def runs_of(counts):
    """Run lengths of a COCO RLE string."""
    runs, i = [], 0
    while i < len(counts):
        value, shift, more = 0, 0, True
        while more:
            code = ord(counts[i]) - 48
            value |= (code & 31) << shift
            more, shift, i = bool(code & 32), shift + 5, i + 1
            if not more and code & 16:
                value |= -1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
    return runs


def iou(a, b):
    edges = []
    for weight, counts in ((1, a), (2, b)):
        at = 0
        for i, length in enumerate(runs_of(counts)):
            at += length
            edges.append((at, weight))
    edges.sort()
    state = [False, False]
    both = either = at = 0
    for place, weight in edges:
        if any(state):
            either += place - at
        if all(state):
            both += place - at
        at = place
        state[weight - 1] = not state[weight - 1]
    return both / either if either else 1.0


def compare(found, wanted):
    """Detections, and how well the best of the folder are met: worst score difference and mean IoU of the best match."""
    a, b = found["detections"], wanted["detections"]
    scores, overlaps = [0.0], []
    for one in b[:10]:
        overlap, match = max(((iou(x["mask"]["counts"], one["mask"]["counts"]), x) for x in a[:40]), default=(0, one),
                             key=lambda pair: pair[0])
        overlaps.append(overlap)
        scores.append(abs(match["score"] - one["score"]))
    return f"{len(a)} of {len(b)}, {max(scores):.1e}, {sum(overlaps) / max(len(overlaps), 1):.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sam3")
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("image")
    parser.add_argument("--pt")
    parser.add_argument("--text", default="truck")
    parser.add_argument("--image-size", default="336")
    parser.add_argument("--types", default="f32,f16,q8_0,q6_k,q5_k,q4_k,q4_0")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    program, work = options.sam3, options.work

    def segment(model, name, *prompt):
        out = work / ("out-" + name)
        cost = run([program, "segment", "-m", str(model), "-i", options.image, "--image-size", options.image_size,
                    "--threshold", "0.3", "-o", str(out), "-f", "json", "-q", "--overwrite", *prompt])
        return cost, json.loads((out / (Path(options.image).stem + ".json")).read_text())

    def size(path):
        return sum(f.stat().st_size for f in (path.glob("*.safetensors") if path.is_dir() else [path])) / 1e9

    text = ("-t", options.text)
    (_, wanted), (_, clicked) = segment(options.model, "hf", *text), segment(options.model, "hf-click", "--point", "90,90")
    print("| file | from | written in s | peak GB | size GB | run in s | peak GB | detections, worst score difference, mean IoU |")
    print("|---|---|---|---|---|---|---|---|")

    def row(name, source, command, answer, *prompt):
        path = work / name
        written = run([program, *command, "--overwrite", "-q"]) if command else None
        (seconds, peak), found = segment(path if command else Path(source), name, *prompt)
        made = f"{written[0]:.1f} | {written[1]:.2f}" if written else "- | -"
        print(f"| {name} | {Path(source).name} | {made} | {size(path if command else Path(source)):.3f} | "
              f"{seconds:.1f} | {peak:.2f} | {compare(found, answer)} |", flush=True)

    row(Path(options.model).name, options.model, None, wanted, *text)
    if options.pt:
        row(Path(options.pt).name, options.pt, None, wanted, *text)
        row("pt-f16.gguf", options.pt, ["convert", options.pt, str(work / "pt-f16.gguf"), "--type", "f16"], wanted, *text)
    for kind in options.types.split(","):
        from_f16 = kind not in ("f32", "f16")
        source = str(work / "f16.gguf") if from_f16 else options.model
        row(f"{kind}.gguf", source, ["quantize" if from_f16 else "convert", source, str(work / f"{kind}.gguf"), "--type", kind],
            wanted, *text)
    for kind in ("f16", "q8_0", "q4_0"):
        row(f"visual-{kind}.gguf", options.model, ["convert", options.model, str(work / f"visual-{kind}.gguf"), "--type", kind,
                                                   "--visual-only"], clicked, "--point", "90,90")


if __name__ == "__main__":
    main()
