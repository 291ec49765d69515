"""The two stages of training, each inside its share of the clock."""
import gc
import random
import time

import torch

import blocks
from clips import clips
from detector import Detector
from detector_loss import DetectorLoss
from graphs import Pace, Step
from optimiser import Optimiser
from prompts import Prompts
from rng import Rng
from scenes import World
from tracker import Tracker
from tracker_loss import Plan, TrackerLoss

LOG_EVERY, SAVE_EVERY = 10.0, 90.0


def autocast(device):
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def compiled(function):
    return torch.compile(function, dynamic=False)


def compile_layers():
    """One compilation of a layer serves all layers like it: minutes less than compiling whole networks."""
    for name in ("vit_layer", "encoder_layer", "decoder_layer"):
        setattr(blocks, name, compiled(getattr(blocks, name)))


class Loop:
    """Time box, log and checkpoints around a stage's steps."""

    def __init__(self, name, run, optimiser, end, unit):
        self.name, self.run, self.opt, self.unit = name, run, optimiser, unit
        self.start, self.end = time.time(), end
        self.logged = self.saved = self.start
        self.pace, self.items, self.total = Pace(run.device), 0, 0

    def progress(self):
        done = (time.time() - self.start) / max(self.end - self.start, 1e-6)
        return max(done, self.opt.steps / self.run.args.max_steps)

    def step(self, step, items):
        step()
        self.opt.step()
        self.pace.tick()
        self.items += items
        self.total += items

    def report(self, steps, note="", force=False):
        now = time.time()
        if not force and now - self.logged < LOG_EVERY:
            return
        sums, count = {}, {}
        for step in steps:
            values, n = step.read()
            for k, v in values.items():
                sums[k], count[k] = sums.get(k, 0.0) + v * n, count.get(k, 0) + n
        values = {k: sums[k] / count[k] for k in sums}
        if not values:
            return
        rate = self.items / (now - self.logged)
        self.run.log(f"{self.name} {self.opt.steps:6d} {100 * self.progress():5.1f}% {rate:6.0f} {self.unit}/s {note}| "
                     + " ".join(f"{k}={v:.3f}" for k, v in values.items()))
        if not all(v == v for v in values.values()) and self.opt.recover():
            self.run.log("weights were not finite: back to their average")
        rounded = {k: round(v, 4) for k, v in values.items()}
        self.run.history.append(dict(stage=self.name, step=self.opt.steps, **rounded))
        self.logged, self.items = time.time(), 0
        if now - self.saved > SAVE_EVERY:
            self.saved = now
            self.run.save(self.opt.averaged(self.run.model))

    def finish(self):
        self.opt.settle()
        for x in self.opt.params:
            x.grad = None
        self.run.counts[self.name] = dict(steps=self.opt.steps, items=self.total,
                                          seconds=round(time.time() - self.start, 1))
        self.run.save(self.run.model.state_dict())


class DetectorStage:
    """Images with phrases and exemplar boxes: everything but the tracker learns."""

    def __init__(self, run):
        a, model, device = run.args, run.model, run.device
        world, prompts = World(run.p["image"], device), Prompts(run.tok, device)
        rng = Rng(device, 1_000_000 * a.seed + 17)
        loss = DetectorLoss(Detector(model, run.p, device), run.aux["detector"], device)
        if a.compile:
            world.draw = compiled(world.draw)
            compile_layers()
            loss.picture_loss = compiled(loss.picture_loss)
        for name, x in model.named_parameters():
            x.requires_grad_(name.startswith("detector_model.") and "fpn_layers.3." not in name
                             and name != "detector_model.text_encoder.text_projection.weight")
        self.opt = opt = Optimiser([*model.named_parameters(), *run.aux_named("detector")], a.lr_detector)
        self.aux_weight = aux_weight = torch.ones((), device=device)

        def work():
            opt.zero_grad()
            scene = world.images(a.batch, rng)
            pr = prompts.sample(scene, a.prompts, rng, miss=0.85)
            with autocast(device):
                total, parts = loss(scene, pr, aux_weight)
            total.backward()
            return parts

        self.step = Step(work, rng, capture=a.graphs)


def train_detector(run, end):
    stage = DetectorStage(run)
    loop = Loop("detector", run, stage.opt, end, "images")
    while (progress := loop.progress()) < 1:
        lr = stage.opt.set_rate(progress)
        stage.aux_weight.fill_(1 - 0.8 * progress)
        loop.step(stage.step, run.args.batch)
        loop.report([stage.step], f"lr {lr:.1e} ")
    loop.report([stage.step], force=True)
    loop.finish()


def start_tracker(run, tracker, world):
    """The detector's pyramid already makes sharp features of this ViT: start from it, at the size of the click
    encodings; louder features would drown the clicks."""
    neck, head = run.model.tracker_neck, run.model.tracker_model.mask_decoder
    neck.load_state_dict(run.model.detector_model.vision_encoder.neck.state_dict())
    with torch.no_grad():
        s0, s1, f2 = tracker.features(world.images(16, Rng(run.device, 5))["image"])
        k = 4.5 / f2.flatten(2).norm(dim=1).mean()
        neck.fpn_layers[2].proj2.weight.mul_(k)
        neck.fpn_layers[2].proj2.bias.mul_(k)
        head.conv_s0.weight.mul_(0.5 / s0.std())
        head.conv_s1.weight.mul_(0.5 / s1.std())


class TrackerStage:
    """Clips with clicks, boxes and masks on the first frame: the tracker learns on a frozen ViT."""

    def __init__(self, run):
        a, model, device = run.args, run.model, run.device
        self.run, self.py = run, random.Random(a.seed)
        self.world, tracker = World(run.p["image"], device), Tracker(run.model, run.p, device)
        if not run.counts.get("tracker"):
            start_tracker(run, tracker, self.world)
        self.rng = Rng(device, 1_000_000 * a.seed + 500_017)
        self.loss = TrackerLoss(tracker, run.aux["tracker"])
        if a.compile:
            self.world.draw = compiled(self.world.draw)
            # only what has the same shape in every phase: compiling the rest anew in each would cost more than it saves
            blocks.vit_layer = compiled(blocks.vit_layer)
        for name, x in model.named_parameters():
            x.requires_grad_(name.startswith("tracker_") and "fpn_layers.3." not in name
                             and "no_memory_positional_encoding" not in name)
        # the neck holds still until clicks are understood, then learns slowly
        self.opt = Optimiser([*model.named_parameters(), *run.aux_named("tracker")], a.lr_tracker,
                             slow=("tracker_neck.", 0.25))
        self.aux_weight, self.force = torch.ones((), device=device), torch.ones((), device=device)

    def work(self, plan, speed):
        def one():
            self.opt.zero_grad()
            clip = clips(self.world, self.run.args.frames // plan.frames, plan.frames, self.rng, speed=speed)
            with autocast(self.run.device):
                total, parts = self.loss(clip, plan, self.rng, self.force, self.aux_weight)
            total.backward()
            return parts
        return one

    def plans(self, frames, objects, speed, corrections):
        """Steps of different plans that share their memory: they never run at the same time."""
        a = self.run.args
        pool = torch.cuda.graph_pool_handle() if self.run.device.type == "cuda" else None
        return [Step(self.work(Plan.draw(self.py, frames, objects, corrections), speed), self.rng, pool, a.graphs)
                for _ in range(a.plans)]


def phase(progress, smoke=False):
    """Images first, then longer and longer clips -> frames, objects, speed, whether clicks correct"""
    if progress < 0.15:
        return 1, 3, 1.0, progress > 0.05
    if progress < 0.22:
        return 2, 3, 1.0, True
    if progress < 0.45 or smoke:
        return 4, 3, 1.5, True
    return (8, 4, 1.5, True) if progress < 0.8 else (16, 4, 1.2, True)


def train_tracker(run, end):
    stage = TrackerStage(run)
    loop = Loop("tracker", run, stage.opt, end, "frames")
    current, steps = None, []
    while (progress := loop.progress()) < 1:
        lr = stage.opt.set_rate(progress, slow_on=progress > 0.07)
        stage.aux_weight.fill_(0.6 - 0.4 * progress)
        stage.force.fill_(max(0.0, 0.6 - progress))
        if phase(progress, run.args.smoke) != current:
            if steps:
                loop.report(steps, force=True)
            current, steps = phase(progress, run.args.smoke), None  # frees the graphs of the last phase
            gc.collect()
            steps = stage.plans(*current)
        loop.step(stage.py.choice(steps), run.args.frames)
        loop.report(steps, f"T{current[0]} lr {lr:.1e} ")
    loop.report(steps, force=True)
    loop.finish()
