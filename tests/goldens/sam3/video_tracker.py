"""Adds the click-video goldens of transformers' Sam3TrackerVideoModel to a folder made by video_model.py.

    python video_tracker.py FOLDER

A case is a list of actions: prompts, in pixels of the frames, and steps, one frame each. The answers of all steps stand
one after the other: the ids in the metadata, a score and a final mask for each object, and the low-resolution logits of
those that are seen.

Memories are stored as bf16. A difference in the last bit of anything before may round one of their values the other
way, by half a percent, and every later frame feels it. `score_spread` says how far that carries: the largest difference
of a score between runs of the reference itself, with its two implementations of attention and with weights changed by
3e-7; `conditioned_spread` the same of memory.conditioned, in parts of its range.
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

from common import channels_last, pack_masks, store
from video_model import FRAMES, HEIGHT, WIDTH, load_frames, load_tracker

LIMIT = 6000
NUDGES = [3e-7, -3e-7, 1e-6]
MARGIN = 1e-3  # object scores and the qualities of competing candidates keep this distance from a change of mind


def click(frame, *points, id=1, keep_old=False):
    """points: (x, y), or (x, y, 0) for one that lies outside the object."""
    return dict(do="prompt", id=id, frame=frame, points=[list(p[:2]) for p in points],
                labels=[p[2] if len(p) > 2 else 1 for p in points], keep_old=keep_old)


def box(frame, x0, y0, x1, y1, id=1, points=()):
    return dict(click(frame, *points, id=id), box=[x0, y0, x1, y1])


def disc_mask(frame, cx, cy, radius, id=1):
    return dict(do="prompt", id=id, frame=frame, disc=[cx, cy, radius])


def steps(frames, reverse=False):
    return [dict(do="step", frame=t, reverse=reverse) for t in frames]


RED0, BLUE0 = (13.2, 23.1), (74.8, 46.2)  # centres of two discs on the first frame
CASES = {
    "points": [click(0, RED0), *steps(range(FRAMES))],
    "several-points": [click(2, (23.0, 23.0), (20.0, 28.0), (60.0, 50.0, 0)), *steps(range(2, FRAMES))],
    "box": [box(0, 2.5, 12.0, 24.0, 34.5), *steps(range(FRAMES))],
    "points-box": [box(6, 29.0, 36.0, 53.0, 66.0, points=[(41.0, 50.0), (60.0, 20.0, 0)]), *steps(range(6, FRAMES))],
    "mask": [disc_mask(0, *RED0, 10.6), *steps(range(FRAMES))],
    "two-objects": [click(0, RED0, id=7), *steps([0]), box(5, 33.0, 50.0, 58.0, 66.0, id=3), *steps([5]),
                    *steps(range(FRAMES))],
    "three-objects": [click(0, RED0, id=1), disc_mask(0, *BLUE0, 9.9, id=2), *steps(range(7)),
                      click(7, (40.0, 47.0), id=3), *steps(range(7, FRAMES))],
    "refine": [click(0, RED0), *steps([0]), click(0, (40.0, 60.0, 0), keep_old=True), *steps(range(FRAMES))],
    "correction": [click(0, RED0), *steps(range(10)), click(6, (41.7, 23.1), (70.0, 50.0, 0)),
                   *steps(range(6, FRAMES))],
    "mask-correction": [click(0, BLUE0), *steps(range(8)), disc_mask(5, 36.9, 23.1, 10.6), *steps(range(5, 10))],
    "backward": [click(9, (56.0, 23.1)), *steps(range(9, -1, -1), reverse=True)],
    "both": [click(5, (36.9, 23.1)), *steps(range(5, FRAMES)), *steps(range(5, -1, -1), reverse=True)],
    # Lost from the third frame on; a click on a later frame answers there.
    "disappears": [click(2, (22.0, 39.0)), *steps(range(2, 10)), click(7, (46.4, 23.1)), *steps(range(7, FRAMES))],
    "many-prompts": [*[action for t, x in ((0, 13.2), (2, 22.7), (3, 27.4), (4, 32.2), (6, 41.7), (8, 51.1))
                       for action in (click(t, (x, 23.1)), *steps([t]))], *steps(range(1, FRAMES))],
    "streaming": [click(0, RED0), *steps(range(FRAMES))],
}
STAGES = ("points", 3)  # the case and the step of which the memory's parts are stored


class Watch:
    """Records the memory's parts, and how close the tracker came to another choice."""

    def __init__(self, model):
        self.tensors, self.margins = {}, []
        prepare, encode = model._prepare_memory_conditioned_features, model._encode_new_memory
        single, decode = model._single_frame_forward, model.mask_decoder.forward

        def prepared(*args, **kwargs):
            out = prepare(*args, **kwargs)
            self.tensors["memory.conditioned"] = channels_last(out)
            return out

        def encoded(*args, **kwargs):
            out = encode(*args, **kwargs)
            self.tensors["memory.tokens"] = out[0].float().permute(1, 0, 2)
            return out

        def answered(*args, **kwargs):
            out = single(*args, **kwargs)
            self.tensors["memory.pointer"] = out.object_pointer[0]
            self.margins.append(out.object_score_logits.abs().min().item())
            return out

        def decoded(*args, **kwargs):
            out = decode(*args, **kwargs)
            if kwargs["multimask_output"]:
                best = out[1].flatten().sort(descending=True).values
                self.margins.append((best[0] - best[1]).item())
            return out

        model._prepare_memory_conditioned_features, model._encode_new_memory = prepared, encoded
        model._single_frame_forward, model.mask_decoder.forward = answered, decoded


class Replay:
    def __init__(self, folder):
        self.folder = folder
        self.frames = load_frames(folder)
        self.model, self.processor = load_tracker(folder)
        self.watch = Watch(self.model)

    def prompt(self, session, action, given):
        size = dict(original_size=(HEIGHT, WIDTH)) if session.video_height is None else {}
        call = dict(frame_idx=action["frame"], obj_ids=action["id"], **size)
        if "disc" in action:
            cx, cy, radius = action.pop("disc")
            y, x = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
            self.processor.add_inputs_to_inference_session(
                session, input_masks=(x - cx) ** 2 + (y - cy) ** 2 < radius**2, **call)
            index = session.obj_id_to_idx(action["id"])
            action["mask"] = f"prompt.{len(given)}"
            given[action["mask"]] = pack_masks(session.mask_inputs_per_obj[index][action["frame"]][0].numpy() > 0.5)
            return
        if action["points"]:
            call |= dict(input_points=[[action["points"]]], input_labels=[[action["labels"]]])
        if "box" in action:
            call |= dict(input_boxes=[[action["box"]]])
        self.processor.add_inputs_to_inference_session(session, clear_old_inputs=not action["keep_old"], **call)

    def step(self, session, action, streaming):
        frame = action["frame"]
        if streaming and (session.processed_frames is None or frame not in session.processed_frames):
            pixels = self.processor(images=self.frames[frame], return_tensors="pt")["pixel_values"][0]
            return self.model(session, frame=pixels)
        return self.model(session, frame_idx=frame, reverse=action["reverse"])

    @torch.inference_mode()
    def play(self, name):
        """-> actions with the answers' ids, given masks and stages, logits [K, h, w], scores [K]"""
        actions = json.loads(json.dumps(CASES[name]))
        streaming = name == "streaming"
        session = self.processor.init_video_session(video=None if streaming else self.frames)
        tensors, logits, scores = {}, [], []
        count = 0
        for action in actions:
            if action["do"] == "prompt":
                waiting = list(session.obj_with_new_inputs)  # the processor would forget them
                self.prompt(session, action, tensors)
                session.obj_with_new_inputs = waiting + [action["id"]]
                continue
            out = self.step(session, action, streaming)
            action["ids"] = out.object_ids
            logits.append(out.pred_masks[:, 0])
            scores.append(out.object_score_logits.reshape(-1))
            if (name, count) == STAGES:
                tensors |= {key: value.numpy() for key, value in self.watch.tensors.items()}
            count += 1
        return actions, tensors, torch.cat(logits), torch.cat(scores)

    def others(self, name):
        """More runs that are the same on paper."""
        self.model.set_attn_implementation("eager")
        yield self.play(name)
        self.model.set_attn_implementation("sdpa")
        weights = self.model.vision_encoder.backbone.embeddings.patch_embeddings.projection.weight
        kept = weights.detach().clone()
        for nudge in NUDGES:
            with torch.no_grad():
                weights.copy_(kept * (1 + nudge))
            yield self.play(name)
            with torch.no_grad():
                weights.copy_(kept)

    def run(self, name):
        self.watch.margins.clear()
        actions, tensors, logits, scores = self.play(name)
        spread = {"score_spread": 0.0, "conditioned_spread": 0.0}
        for _, stages, _, other in self.others(name):
            spread["score_spread"] = max(spread["score_spread"], (other - scores).abs().max().item())
            if "memory.conditioned" in stages:
                part, whole = stages["memory.conditioned"], tensors["memory.conditioned"]
                relative = float(np.abs(part - whole).max() / np.ptp(whole))
                spread["conditioned_spread"] = max(spread["conditioned_spread"], relative)
        self.finish(name, actions, tensors, logits, scores, {k: f"{v:.1e}" for k, v in spread.items()})

    def finish(self, name, actions, tensors, logits, scores, spread):
        full = F.interpolate(logits[:, None], size=(HEIGHT, WIDTH), mode="bilinear", align_corners=False)[:, 0]
        masks = torch.cat(self.processor.post_process_masks([logits[:, None]], [(HEIGHT, WIDTH)]))[:, 0]
        assert torch.equal(masks, full > 0)
        tensors |= {"scores": scores.numpy(), "logits": logits[scores > 0].numpy(),
                    "masks": pack_masks(masks.numpy())}
        close = int((full.abs() < 1e-4).sum())
        store(os.path.join(self.folder, f"video-{name}.safetensors"), tensors,
              dict(actions=json.dumps(actions), streaming=str(name == "streaming").lower(), total_frames=FRAMES,
                   stage_step=STAGES[1] if name == STAGES[0] else -1, behaviour="hf", close_pixels=close, **spread),
              LIMIT)
        print(f"  video-{name}: scores {np.round(scores.numpy(), 1).tolist()}, areas "
              f"{masks.sum((1, 2)).tolist()}, margin {min(self.watch.margins):.4f}, {spread}, close {close}")
        assert min(self.watch.margins) > MARGIN, "too close to another choice: choose another prompt"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    args = parser.parse_args()
    torch.set_num_threads(1)
    replay = Replay(args.folder)
    for name in CASES:
        replay.run(name)


if __name__ == "__main__":
    main()
