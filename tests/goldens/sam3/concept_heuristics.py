"""What the rules of transformers' Sam3VideoModel decide about made-up detections and tracks.

    python concept_heuristics.py FILE        (tests/data/engine/concept_heuristics.json)

The reference's own methods run on a stand-in model: its detector and tracker are things that move over a field of
16 x 16 pixels, appear, vanish, drift apart and run into each other. Masks are stored as what they were drawn from:
[discs, dots], discs as x, y, radius and dots as x, y, value, both in one flat list. A disc's logit is
(radius^2 - distance^2) / 4 in -8..8, the highest of all discs; a dot sets a pixel to value / 4. Masks that come out
are stored as the CRC-32 of their bytes (logits f32, pixels u8).
"""
import json
import sys
import zlib
from types import SimpleNamespace

import numpy as np
import torch
from transformers import Sam3VideoConfig
from transformers.models.sam3_video import modeling_sam3_video as video
from transformers.models.sam3_video.processing_sam3_video import Sam3VideoProcessor

import video_kernels

SIDE, ENLARGED = 16, 32
RULES = [name for name, value in Sam3VideoConfig.__annotations__.items()
         if name not in ("detector_config", "tracker_config", "initializer_range", "low_res_mask_size")]


# ---- masks -------------------------------------------------------------------------------------------------

def draw(description, height=SIDE, width=SIDE):
    discs, dots = description
    y, x = np.mgrid[0:height, 0:width]
    logits = np.full((height, width), -8.0, np.float32)
    for cx, cy, radius in zip(discs[::3], discs[1::3], discs[2::3]):
        values = (radius * radius - (x - cx) ** 2 - (y - cy) ** 2).astype(np.float32) / 4
        logits = np.maximum(logits, np.clip(values, -8, 8))
    for px, py, value in zip(dots[::3], dots[1::3], dots[2::3]):
        logits[py, px] = value / 4
    return logits


def stack(descriptions):
    return torch.from_numpy(np.stack([draw(d) for d in descriptions])) if descriptions else torch.zeros(0, SIDE, SIDE)


def crc(mask):
    mask = np.asarray(mask)
    return zlib.crc32(np.ascontiguousarray(mask.astype(np.uint8 if mask.dtype == bool else np.float32)).tobytes())


def short(value):
    """The fewest digits that give the same f32."""
    return float(str(np.float32(value)))


def some_dots(random, discs, count):
    """Holes and specks."""
    dots = []
    for _ in range(count):
        inside = discs and random.random() < 0.5
        x, y = (discs[0], discs[1]) if inside else random.integers(0, SIDE, 2)
        x, y = np.clip([x + random.integers(-1, 2), y + random.integers(-1, 2)], 0, SIDE - 1)
        dots += [int(x), int(y), int(random.integers(-12, 0) if inside else random.integers(1, 12))]
    return dots


# ---- the stand-in model ------------------------------------------------------------------------------------

class Thing:
    def __init__(self, random, phrase, frames):
        self.phrase, self.radius = phrase, int(random.integers(2, 5))
        self.place, self.speed = random.uniform(1, SIDE - 2, 2), random.uniform(-0.8, 0.8, 2)
        self.first = int(random.integers(0, max(1, frames // 2))) if random.random() < 0.6 else 0
        self.gone = [int(v) for v in random.integers(0, frames, 2)] if random.random() < 0.5 else [frames, frames]
        self.sure = random.uniform(0.55, 0.97)   # typical score
        self.missed = random.choice([0.0, 0.1, 0.5])  # share of frames on which the detector does not see it

    def there(self, step):
        return step >= self.first and not self.gone[0] <= step < self.gone[0] + 1 + self.gone[1] // 4

    def disc(self, step):
        place = np.abs((self.place + self.speed * step) % (2 * SIDE) - SIDE)
        return [int(place[0]), int(place[1]), self.radius]


class World:
    """The detector's and the tracker's answers, step by step; remembers which thing an object follows."""

    def __init__(self, seed, frames, phrases):
        self.random = np.random.default_rng(seed)
        self.things = [Thing(self.random, i % phrases, frames) for i in range(5 * phrases)]
        self.phrases, self.queries = phrases, 6
        self.follows, self.habits, self.step = {}, {}, -1

    def next(self):
        self.step += 1
        self.detections = [self.detect(phrase) for phrase in range(self.phrases)]

    def detect(self, phrase):
        random, found = self.random, []
        for thing in self.things:
            if thing.phrase == phrase and thing.there(self.step) and random.random() >= thing.missed:
                x, y, radius = thing.disc(self.step)
                discs = [x + int(random.integers(0, 2)), y, radius]
                score = np.clip(thing.sure + random.normal(0, 0.05), 0.05, 0.995)
                found.append((score, [discs, some_dots(random, discs, int(random.integers(0, 3)))], thing))
                if random.random() < 0.15:  # seen twice
                    found.append((score - 0.04, [[x, y + 1, radius], []], thing))
        if random.random() < 0.25:  # nothing is there
            discs = [int(v) for v in random.integers(0, SIDE, 2)] + [2]
            found.append((random.uniform(0.4, 0.95), [discs, []], None))
        random.shuffle(found)
        found = found[:self.queries]
        while len(found) < self.queries:
            found.append((0.05, [[], []], None))  # not stored
        return found

    def adopt(self, object_id, mask):
        for phrase in self.detections:
            for _, description, thing in phrase:
                if np.array_equal(draw(description) >= 0.5, mask):
                    self.follows[object_id] = thing
        self.habits[object_id] = (self.random.choice(["true", "true", "drifts", "switches"]),
                                  self.step + int(self.random.integers(1, 9)))

    def track(self, object_id):
        """A mask and an object score."""
        random = self.random
        habit, since = self.habits[object_id]
        if habit == "switches" and self.step == since:
            old = self.follows[object_id]
            others = [t for t in self.things if t is not old and (old is None or t.phrase == old.phrase)]
            self.follows[object_id] = random.choice(others)
        thing = self.follows[object_id]
        if thing is None or not thing.there(self.step) or random.random() < 0.04:
            return [[], []], float(np.float32(random.uniform(-4, 0)))
        discs = thing.disc(self.step)
        if habit == "drifts" and self.step >= since:
            discs[0] += self.step - since
        if random.random() < 0.3:
            discs[2] = max(1, discs[2] + int(random.integers(-1, 2)))
        return ([discs, some_dots(random, discs, int(random.integers(0, 3)))],
                float(np.float32(random.uniform(-1, 6))))


class StandIn:
    """Sam3VideoModel's methods without its networks."""

    def __init__(self, world, rules):
        config = Sam3VideoConfig(**rules)
        for name in RULES:
            setattr(self, name, getattr(config, name))
        self.low_res_mask_size, self.device, self.world = SIDE, "cpu", world
        self.detector_model, self.tracker_model = Detector(world), Tracker(world)
        self.plans = []

    def get_vision_features_for_tracker(self, vision_embeds):
        return [torch.zeros(1)], [torch.zeros(1)]

    def run_tracker_update_planning_phase(self, **arguments):
        self.world.tracked = arguments["tracker_low_res_masks_global"].shape[0]
        plan, metadata = video.Sam3VideoModel.run_tracker_update_planning_phase(self, **arguments)
        self.plans.append(plan)
        return plan, metadata

    def __call__(self, **arguments):
        return self.forward(**arguments)


for method in ("run_detection", "run_tracker_propagation", "_associate_det_trk", "_process_hotstart",
               "run_memory_encoder", "_prepare_recondition_masks", "forward", "propagate_in_video_iterator",
               "_get_objects_to_suppress_based_on_most_recently_occluded", "_apply_non_overlapping_constraints",
               "_suppress_overlapping_based_on_recent_occlusion", "_suppress_shrinked_masks", "build_outputs",
               "_suppress_object_pw_area_shrinkage", "_suppress_object_pw_area_shrinkage_impl",
               "_tracker_update_memories", "_tracker_add_new_objects", "run_tracker_update_execution_phase",
               "_merge_detections_from_prompts", "_det_track_one_frame", "_get_processing_order"):
    setattr(StandIn, method, getattr(video.Sam3VideoModel, method))


class Detector:
    def __init__(self, world):
        self.world, self.phrase = world, 0

    def get_vision_features(self, pixel_values):
        self.world.next()
        self.phrase = 0
        self.probabilities = []

    def __call__(self, vision_embeds, text_embeds, attention_mask):
        found = self.world.detections[self.phrase]
        self.phrase += 1
        scores = torch.tensor([score for score, _, _ in found], dtype=torch.float32)[None]
        masks = stack([description for _, description, _ in found])[None]
        out = SimpleNamespace(pred_logits=torch.logit(scores), presence_logits=torch.full((1, 1), 4.0),
                              pred_masks=masks, pred_boxes=torch.zeros(1, len(found), 4))
        self.probabilities.append((out.pred_logits.sigmoid() * out.presence_logits.sigmoid())[0].tolist())
        return out


class Tracker:
    def __init__(self, world):
        self.world = world

    def __call__(self, inference_session, frame_idx, reverse, run_mem_encoder):
        session = inference_session
        if run_mem_encoder:
            for object_id in session.obj_with_new_inputs:
                mask = session.mask_inputs_per_obj[session.obj_id_to_idx(object_id)][frame_idx]
                self.world.adopt(object_id, mask[0, 0].numpy() > 0)
            return None
        answers = [self.world.track(session.obj_idx_to_id(i)) for i in range(session.get_obj_num())]
        self.world.tracks = answers
        for i in range(len(answers)):
            session.output_dict_per_obj[i]["non_cond_frame_outputs"][frame_idx] = {}
        return SimpleNamespace(pred_masks=stack([d for d, _ in answers])[:, None],
                               object_score_logits=torch.tensor([[s] for _, s in answers], dtype=torch.float32))

    def _encode_new_memory(self, current_vision_feats, pred_masks_high_res, object_score_logits, is_mask_from_pts):
        self.world.memories = pred_masks_high_res[:, 0].clone()
        self.world.seen = (object_score_logits.flatten() > 0).tolist()
        return torch.zeros(1, len(pred_masks_high_res), 1), torch.zeros(1, len(pred_masks_high_res), 1)


# ---- sequences ---------------------------------------------------------------------------------------------

QUICK = dict(hotstart_delay=7, hotstart_unmatch_thresh=3, hotstart_dup_thresh=3, recondition_every_nth_frame=4,
             high_conf_thresh=0.7, high_iou_thresh=0.6)
SEQUENCES = [
    dict(name="defaults", frames=40, phrases=2, rules={}),
    dict(name="quick hot start", frames=40, phrases=2, rules=QUICK),
    dict(name="backwards", frames=40, phrases=2, rules=QUICK, reverse=True),
    dict(name="streaming", frames=32, phrases=2, rules=QUICK, streaming=True),
    dict(name="no hot start", frames=30, phrases=1, rules=dict(hotstart_delay=0)),
    dict(name="hides the unmatched", frames=40, phrases=1,
         rules=QUICK | dict(suppress_unmatched_only_within_hotstart=False, init_trk_keep_alive=2, max_trk_keep_alive=4,
                            min_trk_keep_alive=-2)),
    dict(name="hides the empty", frames=40, phrases=2,
         rules=QUICK | dict(suppress_unmatched_only_within_hotstart=False, init_trk_keep_alive=1, max_trk_keep_alive=3,
                            decrease_trk_keep_alive_for_empty_masklets=True)),
    dict(name="corrects with detections", frames=30, phrases=2,
         rules=QUICK | dict(recondition_on_trk_masks=False, recondition_every_nth_frame=2)),
    dict(name="three objects at most", frames=30, phrases=2, rules=QUICK | dict(max_num_objects=3)),
    dict(name="gives way early", frames=40, phrases=1,
         rules=QUICK | dict(suppress_overlapping_based_on_recent_occlusion_threshold=0.2, hotstart_unmatch_thresh=1)),
    dict(name="gives way early, backwards", frames=30, phrases=1, reverse=True,
         rules=QUICK | dict(suppress_overlapping_based_on_recent_occlusion_threshold=0.2)),
    dict(name="nothing suppressed", frames=30, phrases=2,
         rules=QUICK | dict(suppress_overlapping_based_on_recent_occlusion_threshold=0.0, fill_hole_area=0,
                            det_nms_thresh=0.0)),
    dict(name="strict", frames=30, phrases=1,
         rules=QUICK | dict(score_threshold_detection=0.7, det_nms_thresh=0.4, assoc_iou_thresh=0.4,
                            trk_assoc_iou_thresh=0.7, new_det_thresh=0.8, fill_hole_area=3)),
]


class Run:
    """Drives one sequence and writes down, frame by frame, what went in and what came out."""

    def __init__(self, seed, case):
        self.case = case
        self.world = World(seed, case["frames"], case["phrases"])
        self.model = StandIn(self.world, case["rules"])
        video_frames = None if case.get("streaming") else torch.zeros(case["frames"], 3, 1, 1)
        self.session = video.Sam3VideoInferenceSession(video=video_frames, video_height=ENLARGED, video_width=ENLARGED,
                                                       dtype=torch.float32)
        for i in range(case["phrases"]):
            self.session.add_prompt(f"phrase {i}")
            self.session.prompt_embeddings[i] = self.session.prompt_attention_masks[i] = None
        self.frames, self.gone = [], set()
        forward = self.model.forward
        self.model.forward = lambda **arguments: self.note(forward(**arguments))

    def note(self, out):
        world, session, plan = self.world, self.session, self.model.plans[-1]
        removed = plan["obj_ids_newly_removed"]
        self.gone |= removed
        hidden = sorted(out.suppressed_obj_ids)
        masks = {i: m[0] for i, m in out.obj_id_to_mask.items() if i not in self.gone}
        assert set(masks) == set(out.object_ids)
        last = session.obj_id_to_last_occluded
        count = world.tracked
        self.frames.append(dict(
            frame=out.frame_idx,
            detections=[dict(scores=[short(s) for s in p if s > 0.1], masks=[d for s, d, _ in found if s > 0.1])
                        for p, found in zip(self.model.detector_model.probabilities, world.detections)],
            tracks=[d for d, _ in world.tracks] if count else [],
            object_scores=[short(s) for _, s in world.tracks] if count else [],
            expected=dict(
                ids=out.object_ids, new_detections=plan["new_det_out_inds"], new_ids=plan["new_det_obj_ids"],
                removed=sorted(removed), hidden=hidden, reconditioned=sorted(plan["reconditioned_obj_ids"]),
                phrases=[session.obj_id_to_prompt_id[i] for i in out.object_ids],
                scores=[short(out.obj_id_to_score[i]) for i in out.object_ids],
                unmatched=[len(session.unmatched_frame_inds.get(i, [])) for i in out.object_ids],
                keep_alive=[session.trk_keep_alive[i] for i in out.object_ids],
                last_hidden=[int(last[i]) if i in last else None for i in out.object_ids],
                memories=[crc(m) for m in world.memories] if count else [], seen=world.seen if count else [],
                visible=[[i, short(out.obj_id_to_tracker_score[i]), crc(m)] for i, m in sorted(masks.items())
                         if i not in hidden and (m > 0).any()])))
        self.frames[-1]["shown"] = []
        return out

    def show(self, out):
        """Called when the reference hands out a frame; belongs to the frame that was last processed."""
        result = Sam3VideoProcessor.postprocess_outputs(PROCESSOR, self.session, out)
        objects = [[i, short(score), box, crc(mask), self.session.obj_id_to_prompt_id[i]] for i, score, box, mask in
                   zip(result["object_ids"].tolist(), result["scores"].tolist(), result["boxes"].int().tolist(),
                       result["masks"])]
        self.frames[-1]["shown"].append([out.frame_idx, objects])

    def run(self):
        case = self.case
        if case.get("streaming"):
            for _ in range(case["frames"]):
                self.show(self.model(inference_session=self.session, frame=torch.zeros(3, 1, 1)))
        else:
            start = case["frames"] if case.get("reverse") else 0
            for out in self.model.propagate_in_video_iterator(self.session, start_frame_idx=start,
                                                              reverse=case.get("reverse", False)):
                self.show(out)
        return dict(name=case["name"], rules=case["rules"], reverse=case.get("reverse", False),
                    streaming=case.get("streaming", False), frames=self.frames)


PROCESSOR = SimpleNamespace()
for method in ("_apply_non_overlapping_constraints", "_apply_object_wise_non_overlapping_constraints",
               "_apply_object_wise_non_overlapping_constraints_impl"):
    setattr(PROCESSOR, method, getattr(Sam3VideoProcessor, method).__get__(PROCESSOR))


def summary(sequence):
    frames = [f["expected"] for f in sequence["frames"]]
    counts = {key: sum(len(f[key]) for f in frames) for key in ("new_ids", "removed", "hidden", "reconditioned")}
    counts["empty memories"] = sum(not s for f in frames for s in f["seen"])
    counts["tracks"] = sum(len(f["ids"]) for f in frames) / len(frames)
    counts["shown"] = sum(len(objects) for f in sequence["frames"] for _, objects in f["shown"])
    return counts


# ---- single functions --------------------------------------------------------------------------------------

def random_masks(random, count):
    return [[sum(([int(v) for v in random.integers(2, SIDE - 2, 2)] + [int(random.integers(2, 6))]
                  for _ in range(random.integers(0, 3))), []), some_dots(random, [8, 8, 4], int(random.integers(0, 6)))]
            for _ in range(count)]


def clean_ups(random):
    for area in (0, 1, 2, 4, 16, 200):
        for masks in (random_masks(random, 6), [[[], sum(([int(x), int(y), int(v)] for x, y, v in zip(
                *random.integers(0, SIDE, (2, 150)), random.integers(1, 9, 150))), [])]]):
            logits = video.fill_holes_in_mask_scores(stack(masks)[:, None], max_area=area)
            yield dict(area=area, masks=masks, expected=[crc(m) for m in logits[:, 0]])


def suppressions(random):
    for threshold in (0.1, 0.3, 0.5, 1.0):
        for nms in (0.05, 0.3, 0.6, 1.0):
            masks = random_masks(random, 8)
            scores = (random.integers(1, 20, 8) / 20).astype(np.float32)
            keep = video.nms_masks(torch.from_numpy(scores), stack(masks), threshold, nms)
            yield dict(threshold=threshold, nms=nms, masks=masks, scores=[short(v) for v in scores],
                       expected=keep.nonzero()[:, 0].tolist())


def shrinkages(random):
    for case in range(16):
        masks = random_masks(random, int(random.integers(1, 7)))
        if case % 4 == 0:
            masks = masks + [masks[0]]  # equal logits everywhere
        groups = [int(v) for v in random.integers(0, 2, len(masks))]
        out = StandIn._suppress_object_pw_area_shrinkage(StandIn(None, {}), stack(masks)[:, None], groups)
        yield dict(masks=masks, groups=groups, expected=[crc(m) for m in out[:, 0]])


def associations(random):
    for case in range(24):
        rules = dict(assoc_iou_thresh=float(random.choice([0.0, 0.1, 0.3])), trk_assoc_iou_thresh=float(
            random.choice([0.2, 0.5])), new_det_thresh=float(random.choice([0.3, 0.7])), high_conf_thresh=float(
            random.choice([0.4, 0.8])), high_iou_thresh=float(random.choice([0.1, 0.4])))
        tracks = random_masks(random, 0 if case == 0 else int(random.integers(1, 7)))
        detections = random_masks(random, 0 if case == 1 else int(random.integers(1, 7)))
        scores = (random.integers(1, 20, len(detections)) / 20).astype(np.float32)
        ids = sorted(int(v) for v in random.choice(30, len(tracks), replace=False))
        phrases = [[int(v) for v in random.integers(0, 2, n)] for n in (len(detections), len(tracks))]
        new, unmatched, matches, confirmed, empty = StandIn._associate_det_trk(
            StandIn(None, rules), stack(detections), torch.from_numpy(scores), stack(tracks), ids,
            torch.tensor(phrases[0]), torch.tensor(phrases[1]))
        yield dict(rules=rules, detections=detections, scores=[short(v) for v in scores], tracks=tracks, ids=ids,
                   detection_phrases=phrases[0], track_phrases=phrases[1],
                   expected=dict(new=new, unmatched=unmatched, empty=empty,
                                 confirmed=sorted(map(list, confirmed.items())),
                                 matches=[matches[i] for i in sorted(matches)]))


def main():
    video_kernels.install()
    torch.set_num_threads(1)
    random = np.random.default_rng(3)
    data = dict(clean_up=list(clean_ups(random)), kept_detections=list(suppressions(random)),
                without_shrunken=list(shrinkages(random)), associate=list(associations(random)), sequences=[])
    for seed, case in enumerate(SEQUENCES):
        data["sequences"].append(Run(seed + 20, case).run())
        print(case["name"], summary(data["sequences"][-1]))
    with open(sys.argv[1], "w") as file:
        json.dump(data, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
