#!/usr/bin/env python3
"""Trains the tiny SAM 3 from scratch on synthetic scenes: README.md has the recipe.

    train.py --stage detector --minutes 9.3 --out out
    train.py --stage tracker --minutes 9.3 --resume out --out out
"""
import argparse
import json
import os
import sys
import time

START = time.time()
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
from safetensors.torch import load_file, save_file

import config
from detector_loss import DetectorAux
from stages import train_detector, train_tracker
from tokenizer import build_tokenizer
from tracker_loss import TrackerAux


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--stage", choices=["detector", "tracker"], required=True)
    ap.add_argument("--minutes", type=float, required=True, help="of the whole command, the start included")
    ap.add_argument("--out", required=True, help="folder of the model")
    ap.add_argument("--resume", help="folder of a model to start from")
    ap.add_argument("--size", choices=list(config.PRESETS), default="tiny")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--batch", type=int, default=256, help="detector: images in a step")
    ap.add_argument("--prompts", type=int, default=4, help="detector: prompts for each image, the first with a box")
    ap.add_argument("--lr-detector", type=float, default=1.4e-3)
    ap.add_argument("--frames", type=int, default=256, help="tracker: frames in a step")
    ap.add_argument("--plans", type=int, default=6, help="tracker: different plans (CUDA graphs) in each phase")
    ap.add_argument("--lr-tracker", type=float, default=1.2e-3)
    ap.add_argument("--max-steps", type=int, default=10**9)
    ap.add_argument("--smoke", action="store_true", help="short clips, for tests on a CPU")
    ap.add_argument("--no-graphs", dest="graphs", action="store_false", help="launch every kernel by itself")
    ap.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    return ap.parse_args()


class Run:
    """The model, its training-only heads, and the folder that they are saved to."""

    def __init__(self, args):
        self.args, self.device = args, torch.device("cuda" if torch.cuda.is_available() else "cpu")
        os.makedirs(args.out, exist_ok=True)
        self.file = open(os.path.join(args.out, "train.log"), "a")
        self.history, self.counts = [], {}
        self.p = config.load_preset(args.resume) if args.resume else dict(config.PRESETS[args.size])
        self.tok = build_tokenizer()
        self.model = config.build_model(self.p, self.tok, args.seed)
        self.aux = {"detector": DetectorAux(self.p), "tracker": TrackerAux(self.p)}
        if args.resume:
            self.load(args.resume)
        self.model.to(self.device)
        for aux in self.aux.values():
            aux.to(self.device)
        if self.device.type == "cuda":
            self.model.to(memory_format=torch.channels_last)

    def log(self, text):
        line = f"[{time.time() - START:6.1f}s] {text}"
        print(line, flush=True)
        print(line, file=self.file, flush=True)

    def aux_named(self, stage):
        return [(f"aux.{n}", x) for n, x in self.aux[stage].named_parameters()]

    def load(self, folder):
        self.model.load_state_dict(config.load_state(folder))
        heads = load_file(os.path.join(folder, "training.safetensors"))
        for stage, aux in self.aux.items():
            aux.load_state_dict({k[len(stage) + 1:]: v for k, v in heads.items() if k.startswith(stage + ".")})
        with open(os.path.join(folder, "training.json")) as f:
            before = json.load(f)
        self.history, self.counts = before["history"], before["counts"]

    def save(self, state):
        """The model as it is shipped, and beside it what only a further training needs."""
        config.save_model(self.model, self.p, self.tok, self.args.out, state)
        heads = {f"{stage}.{k}": v.detach().cpu().contiguous() for stage, aux in self.aux.items()
                 for k, v in aux.state_dict().items()}
        save_file(heads, os.path.join(self.args.out, "training.safetensors"))
        with open(os.path.join(self.args.out, "training.json"), "w") as f:
            json.dump(dict(counts=self.counts, history=self.history), f)


def fast_math():
    """Large products run in bf16; the rest (places, boxes) must not be rounded."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.enable_cudnn_sdp(False)


def main():
    args = arguments()
    fast_math()
    run = Run(args)
    weights, dead = config.count_weights(run.model)
    run.log(f"{' '.join(sys.argv[1:])} | torch {torch.__version__} on {run.device}, {weights / 1e6:.2f} M weights "
            f"({dead / 1e6:.2f} M never read)")
    stage = train_detector if args.stage == "detector" else train_tracker
    stage(run, START + 60 * args.minutes)
    run.log("done")


if __name__ == "__main__":
    main()
