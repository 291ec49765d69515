#!/usr/bin/env python3
"""Times a training step with and without torch.compile and CUDA graphs, at several batch sizes.

    throughput.py detector:graphs:256 detector:graphs+compile:256 tracker-8:graphs+compile:256 ...
"""
import argparse
import sys
import tempfile
import time
import traceback

import torch

import train
from stages import DetectorStage, TrackerStage

WARM, TIMED = 5, 12


def measure(case):
    stage, options, batch = case.split(":")
    sys.argv = ["train.py", "--stage", stage.split("-")[0], "--minutes", "9", "--out", tempfile.mkdtemp(),
                "--plans", "1", "--batch", batch, "--frames", batch]
    args = train.arguments()
    args.graphs, args.compile = "graphs" in options, "compile" in options
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    start = time.time()
    run = train.Run(args)
    if stage == "detector":
        part = DetectorStage(run)
        step = part.step
    else:
        part = TrackerStage(run)
        step = part.plans(int(stage.split("-")[1]), 4, 1.0, True)[0]
    part.opt.set_rate(0.03)
    for _ in range(WARM):
        step()
        part.opt.step()
    torch.cuda.synchronize()
    ready = time.time()
    for _ in range(TIMED):
        step()
        part.opt.step()
    torch.cuda.synchronize()
    took = (time.time() - ready) / TIMED
    values, _ = step.read()
    print(f"{case}: {int(batch) / took:.0f} /s, {1000 * took:.1f} ms a step, ready after {ready - start:.1f} s, "
          f"{torch.cuda.max_memory_reserved() / 2**30:.1f} GiB, loss {values['loss']:.3f}", flush=True)
    return step, part


def profile(step, part):
    from torch.profiler import ProfilerActivity, profile as trace
    with trace(activities=[ProfilerActivity.CUDA]) as t:
        for _ in range(2):
            step()
            part.opt.step()
        torch.cuda.synchronize()
    print(t.key_averages().table(sort_by="self_device_time_total", row_limit=22, max_name_column_width=90), flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases", nargs="+", help="stage:options:batch, stage detector or tracker-FRAMES; @ before: profile")
    cases = ap.parse_args().cases
    train.fast_math()
    for case in cases:
        try:
            step, part = measure(case.lstrip("@"))
            if case.startswith("@"):
                profile(step, part)
            del step, part
        except Exception:
            print(f"{case}: FAILED\n{traceback.format_exc()}", flush=True)


if __name__ == "__main__":
    main()
