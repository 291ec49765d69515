"""What the reference follows through rendered clips with a small trained model: by click and by text.

    python prototype_video.py OUT --model FOLDER --scenes FOLDER [--clips 10] [--frames 24]

FOLDER of --scenes holds the scene generator (scenes.py, grammar.py). Written to OUT:

    clips/<clip>/<frame>.png      the pictures
    prompts.json                  per clip: text, clicks {id: [x, y]} on frame 0
    truth/<clip>.json             per object that is clicked on, its mask on every frame
    click/<clip>.jsonl            a line a frame, as `sam3 track` writes them
    text/<clip>.jsonl

compare_tracks.py compares.
"""
import argparse
import json
import os
import sys

import numpy as np
import torch
from PIL import Image
from transformers import AutoTokenizer, Sam3VideoModel
from transformers.models.sam3_video.processing_sam3_video import Sam3VideoProcessor

import video_kernels
import video_model
from prototype import inner_point
from rle import encode_mask

SEED = 9_700_000


def rle(mask):
    return dict(size=list(mask.shape), counts=encode_mask(np.asarray(mask).astype(bool)))


def usable(clip, side):
    """Objects that are well visible on the first frame."""
    good = clip["valid"][0, 0] & (clip["area"][0, 0] > 0.0015 * side * side) & (clip["frac"][0, 0] > 0.4)
    return good.nonzero()[:, 0].tolist()


def render(scenes_folder, side, count, length, out):
    sys.path.insert(0, scenes_folder)
    from grammar import COLOURS, SHAPES
    from scenes import Rng, World

    world, rng = World(side, "cpu"), Rng("cpu", SEED)
    os.makedirs(os.path.join(out, "truth"), exist_ok=True)
    prompts = {}
    while len(prompts) < count:
        clip = world.clips(1, length, rng, want_full=True, speed=1.5)
        objects = usable(clip, side)[:2]
        if not objects:
            continue
        name = f"clip-{len(prompts):02d}"
        folder = os.path.join(out, "clips", name)
        os.makedirs(folder, exist_ok=True)
        for t in range(length):
            pixels = ((clip["image"][0, t] * 0.5 + 0.5) * 255).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
            Image.fromarray(pixels).save(os.path.join(folder, f"{t:05d}.png"))
        first = objects[0]
        text = f"{COLOURS[int(clip['colour'][0, 0, first])]} {SHAPES[int(clip['shape'][0, 0, first])]}"
        full = clip["full"][0].numpy()
        prompts[name] = dict(text=text, clicks={str(j): inner_point(full[0, j]) for j in objects})
        with open(os.path.join(out, "truth", f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump({str(j): [rle(full[t, j]) for t in range(length)] for j in objects}, file)
    with open(os.path.join(out, "prompts.json"), "w", encoding="utf-8") as file:
        json.dump(prompts, file, indent=1)
    return prompts


def write(out, kind, name, lines):
    os.makedirs(os.path.join(out, kind), exist_ok=True)
    with open(os.path.join(out, kind, f"{name}.jsonl"), "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


def frames_of(out, name):
    folder = os.path.join(out, "clips", name)
    return np.stack([np.asarray(Image.open(os.path.join(folder, f)).convert("RGB")) for f in sorted(os.listdir(folder))])


@torch.inference_mode()
def follow_clicks(model, processor, frames, clicks):
    session = processor.init_video_session(video=frames)
    ids = [int(i) for i in clicks]
    processor.add_inputs_to_inference_session(
        session, frame_idx=0, obj_ids=ids, input_points=[[[clicks[str(i)]] for i in ids]],
        input_labels=[[[1] for _ in ids]])
    for out in model.propagate_in_video_iterator(session, start_frame_idx=0):
        masks = processor.post_process_masks([out.pred_masks], [frames.shape[1:3]])[0][:, 0]
        scores = out.object_score_logits.sigmoid().flatten()
        yield dict(frame=out.frame_idx, objects=[
            dict(id=i, score=float(s), mask=rle(m.numpy()))
            for i, s, m in sorted(zip(out.object_ids, scores, masks), key=lambda item: item[0]) if m.any()])


@torch.inference_mode()
def follow_text(model, processor, frames, text):
    session = processor.init_video_session(video=frames)
    processor.add_text_prompt(session, text)
    for out in model.propagate_in_video_iterator(session, start_frame_idx=0):
        result = processor.postprocess_outputs(session, out)
        yield dict(frame=out.frame_idx, objects=[
            dict(id=int(i), label=text, score=float(s), mask=rle(m.numpy()))
            for i, s, m in zip(result["object_ids"], result["scores"], result["masks"])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--model", required=True)
    parser.add_argument("--scenes", required=True)
    parser.add_argument("--clips", type=int, default=10)
    parser.add_argument("--frames", type=int, default=24)
    args = parser.parse_args()
    video_kernels.install()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        side = json.load(file)["detector_config"]["vision_config"]["backbone_config"]["image_size"]
    prompts = render(args.scenes, side, args.clips, args.frames, args.out)
    tracker, tracker_processor = video_model.load_tracker(args.model)
    detector = Sam3VideoModel.from_pretrained(args.model, dtype=torch.float32).eval()
    text_processor = Sam3VideoProcessor(tracker_processor.image_processor, tracker_processor.video_processor,
                                        AutoTokenizer.from_pretrained(args.model))
    for name, prompt in prompts.items():
        frames = frames_of(args.out, name)
        write(args.out, "click", name, follow_clicks(tracker, tracker_processor, frames, prompt["clicks"]))
        write(args.out, "text", name, follow_text(detector, text_processor, frames, prompt["text"]))
        print(name, prompt["text"], flush=True)


if __name__ == "__main__":
    main()
