#!/usr/bin/env python3
"""Checks that the training forwards compute what transformers' inference computes, and that a saved model reloads.

    selftest.py [tiny|smoke]
"""
import itertools
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers.models.sam3_tracker_video.modeling_sam3_tracker_video import Sam3TrackerVideoInferenceSession

import config
from clips import clips
from detector import Detector
from masks import cxcywh_to_xyxy
from match import hungarian
from metrics import Finding, decode_rle, encode_rle, iou, match_tracks, switches
from prompts import Prompts
from rng import Rng
from scenes import World
from tokenizer import MAX_TEXT, build_tokenizer
from tracker import NO_OBJECT, Tracker


def close(name, a, b, tolerance):
    worst, scale = (a.float() - b.float()).abs().max().item(), b.float().abs().max().item()
    print(f"  {name}: largest difference {worst:.2e} (scale {scale:.2f})")
    if worst > tolerance * max(1.0, scale):
        raise SystemExit(f"{name}: the training forward differs from transformers by {worst:.2e}, more than "
                         f"{tolerance:g} of {scale:.2f}")


def check_assignment():
    torch.manual_seed(0)
    for n, m in ((1, 3), (2, 4), (3, 5), (4, 6)):
        cost = torch.rand(50, n, m)
        cost[::3, -1] = 0.7  # a row that must not matter
        for problem, got in zip(cost, hungarian(cost)):
            best = min(sum(problem[i, q[i]].item() for i in range(n)) for q in itertools.permutations(range(m), n))
            assert len(set(got.tolist())) == n and abs(best - problem[range(n), got].sum().item()) < 1e-5
    print("assignment: optimal in 200 random problems")


def check_metrics():
    rng = np.random.default_rng(0)
    for density in (0.0, 0.3, 1.0):
        mask = rng.random((7, 5)) < density
        assert np.array_equal(decode_rle(encode_rle(mask)), mask)
    assert encode_rle(np.array([[1, 0], [1, 1]]))["counts"] == [0, 2, 1, 1]  # down the columns, background first
    a, b, nothing = (np.zeros((6, 6), bool) for _ in range(3))
    a[1:4, 1:4] = b[2:5, 2:5] = True
    assert iou(a, b) == 4 / 14 and iou(nothing, nothing) == 1
    found = Finding()
    found.add([b, a], [a])      # one right, one too many
    found.add([], [])           # absent, and recognised
    found.add([a], [])          # absent, but found
    result = found.result()
    assert (result["precision"], result["recall"], result["absent_recognised"]) == (1 / 3, 1, 0.5)
    tracks = {1: [a, a, nothing, nothing], 2: [nothing, nothing, nothing, a]}
    assert switches(tracks, [[a, a, a, a]]) == [1] and match_tracks(tracks, [[a, a, a, a]]) == ([0.5], 1)
    print("metrics: right on cases worked out by hand")


def check_detector(folder, det, world, prompts, rng, tok):
    print("detector, against Sam3Model:")
    model = transformers.Sam3Model.from_pretrained(folder, dtype=torch.float32).to(world.device).eval()
    scene = world.images(3, rng)
    pr = prompts.sample(scene, 2, rng)
    for ids, mask in zip(pr["ids"], pr["mask"]):
        phrase = prompts.text(ids, mask)
        assert tok["hf"](phrase)["input_ids"] == ids[: int(mask.sum())].tolist(), phrase
    _, (f0, f1, f2) = det.vision(scene["image"])
    prompt, pmask = det.prompt(pr, f2)
    two = lambda x: x.repeat(2, 1, 1, 1)
    x, states, boxes, presence, logits = det.detr(two(f2), prompt, pmask)
    embeddings, semantic = det.pixels(x, two(f0), two(f1), prompt, pmask)
    masks = det.masks(embeddings, states[-1])
    pad = MAX_TEXT - pr["ids"].shape[1]
    ids, attention = F.pad(pr["ids"], (0, pad), value=prompts.eos), F.pad(pr["mask"].long(), (0, pad))
    exemplars = dict(input_boxes=pr["boxes"], input_boxes_labels=pr["labels"])
    for name, rows, extra in (("boxes", slice(0, 3), exemplars), ("text", slice(3, 6), {})):
        out = model(pixel_values=scene["image"], input_ids=ids[rows], attention_mask=attention[rows], **extra)
        close(name + ", logits", logits[-1][rows], out.pred_logits, 1e-4)
        close(name + ", presence", presence[-1][rows][:, None], out.presence_logits, 1e-4)
        close(name + ", boxes", cxcywh_to_xyxy(boxes[-1][rows]), out.pred_boxes, 1e-4)
        close(name + ", masks", masks[rows], out.pred_masks, 1e-4)
        close(name + ", semantic", semantic[rows][:, None], out.semantic_seg, 1e-4)


def follow(trk, model, clip, kind, points, labels, rough):
    """The clip's masks as the training's forward makes them, one object, memory as the session keeps it (bf16)."""
    S, L, T = trk.size, trk.low, clip["image"].shape[1]
    s0, s1, f2 = trk.features(clip["image"][0])
    bank, masks = {"cond": {}, "track": {}}, []
    for t in range(T):
        emb, multi = f2[t:t + 1], True
        if t > 0:
            emb, prompt = trk.attend(emb, bank, t, max(T, 2)), trk.no_prompt(1)
        elif kind == "mask":
            full = F.interpolate(rough[None], size=(S, S), mode="bilinear", align_corners=False)
            down = F.interpolate(trk.trk.mask_downsample(full), size=(L, L), mode="bilinear", align_corners=False,
                                 antialias=True)
            prompt = trk.no_prompt(1, down)
        else:
            emb, prompt = emb + trk.trk.no_memory_embedding.view(1, -1, 1, 1), trk.prompt(points, labels)
            multi = kind == "click"
        four, quality, tokens, score, _ = trk.decode(emb, s0[t:t + 1], s1[t:t + 1], *prompt)
        mask, token = trk.pick(four, quality, tokens, multi)
        if not multi:  # inference falls back to the three masks when the single one is unstable
            mask = model.mask_decoder._dynamic_multimask_via_stability(four[:, None], quality[:, None])[0][:, 0, 0]
        seen = score > 0
        mask = torch.where(seen[:, None, None], mask, NO_OBJECT)
        up = F.interpolate(mask[:, None], size=(S, S), mode="bilinear", align_corners=False)
        there = seen
        if t == 0 and kind == "mask":
            up, there = full * 20 - 10, torch.ones_like(seen)
            mask = F.interpolate(up, size=(L, L), mode="bilinear", align_corners=False, antialias=True)[:, 0]
        masks.append(mask[0])
        # inference brings masks to the memory's size by way of the image's
        up = F.interpolate(up, size=(16 * trk.grid,) * 2, mode="bilinear", align_corners=False, antialias=True)
        memory = trk.encode_memory(f2[t:t + 1], up[:, 0], there, torch.full_like(seen, t == 0))
        record = dict(memory=memory.to(torch.bfloat16).float(), pointer=trk.pointer(token, seen))
        bank["cond" if t == 0 else "track"][t] = record
    return masks


def check_tracker(folder, trk, world, rng):
    print("tracker, against Sam3TrackerVideoModel's session:")
    device, S = world.device, world.size
    model = transformers.Sam3TrackerVideoModel.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    clip = clips(world, 1, 4, rng)
    target = int((clip["area"][0, 0] * clip["valid"][0, 0]).argmax())
    box = clip["boxes"][0, 0, target] * S
    rough = (clip["vis"][0, 0, target] > 0.5).float()[None]
    for kind in ("click", "box", "mask"):
        session = Sam3TrackerVideoInferenceSession(
            video=clip["image"][0], video_height=S, video_width=S, inference_device=device,
            inference_state_device=device, video_storage_device=device, dtype=torch.float32)
        index = session.obj_id_to_idx(1)
        points, labels = box.view(1, 2, 2), torch.tensor([[2, 3]], device=device)
        if kind == "click":
            points, labels = points.mean(1, keepdim=True), torch.ones(1, 1, dtype=torch.long, device=device)
        if kind == "mask":
            session.add_mask_inputs(index, 0, rough[None])
        else:
            session.add_point_inputs(index, 0, dict(point_coords=points[:, None], point_labels=labels[:, None].int()))
        session.obj_with_new_inputs = [1]
        theirs = [o.pred_masks.reshape(trk.low, trk.low).clone()
                  for o in model.propagate_in_video_iterator(session, start_frame_idx=0)]
        for t, (mine, their) in enumerate(zip(follow(trk, model, clip, kind, points, labels, rough), theirs)):
            close(f"{kind}, frame {t}", mine, their, 2e-4)


def check_folder(folder, saved, p, tok):
    video = transformers.Sam3VideoModel.from_pretrained(folder, dtype=torch.float32).state_dict()
    wrong = [k for k, x in video.items() if not torch.equal(x.cpu(), saved[k].to(x.dtype))]
    assert not wrong, f"Sam3VideoModel reloads these differently: {wrong[:5]}"
    for name in ("Sam3VideoProcessor", "Sam3Processor", "Sam3TrackerVideoProcessor", "Sam3TrackerProcessor"):
        processor = getattr(transformers, name).from_pretrained(folder)
        assert processor.image_processor.size["height"] == p["image"], name
        if hasattr(processor, "tokenizer"):
            assert processor.tokenizer("a red circle")["input_ids"] == tok["hf"]("a red circle")["input_ids"], name
    print(f"folder: {len(video)} tensors and four processors reload")


@torch.no_grad()
def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    check_assignment()
    check_metrics()
    p, tok = dict(config.PRESETS[sys.argv[1] if len(sys.argv) > 1 else "tiny"]), build_tokenizer()
    model = config.build_model(p, tok, 3)
    for x in model.parameters():
        if x.ndim == 1:
            x.data += 0.05 * torch.randn_like(x)  # move biases and norms off their defaults
    model.tracker_model.mask_decoder.pred_obj_score_head.proj_out.bias += 5  # every object is seen on every frame
    saved = {k: (v.half().float() if v.is_floating_point() else v) for k, v in model.state_dict().items()}
    model.load_state_dict(saved)
    world, prompts, rng = World(p["image"], device, 6), Prompts(tok, device), Rng(device, 7)
    with tempfile.TemporaryDirectory() as folder:
        config.save_model(model, p, tok, folder)
        model.to(device)
        check_detector(folder, Detector(model, p, device), world, prompts, rng, tok)
        check_tracker(folder, Tracker(model, p, device), world, rng)
        check_folder(folder, saved, p, tok)
    print("all checks passed")


if __name__ == "__main__":
    main()
