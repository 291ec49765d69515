"""How long the reference takes for what this program does; run in an environment with PyTorch and transformers.

    python reference_times.py click MODEL IMAGE X,Y [--repeat 5]         one click after encoding
    python reference_times.py video MODEL FOLDER X,Y X,Y ... [--frames 5]  objects clicked on frame 0, then followed

MODEL is a Hugging Face folder of a SAM 3 video model. Prints one JSON object with seconds. OPENBLAS_NUM_THREADS=1 should be
set: docs/parity.md says why and what it costs.
"""
import argparse
import json
import os
import time

import numpy as np
import torch
from PIL import Image
from transformers import Sam3TrackerModel, Sam3TrackerProcessor, Sam3TrackerVideoModel, Sam3TrackerVideoProcessor
from transformers.models.sam2_video.video_processing_sam2_video import Sam2VideoVideoProcessor
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor


def numbers(text):
    return [float(v) for v in text.split(",")]


@torch.inference_mode()
def click(args):
    model = Sam3TrackerModel.from_pretrained(args.model, dtype=torch.float32).eval()
    processor = Sam3TrackerProcessor(Sam3ImageProcessor.from_pretrained(args.model))
    picture = Image.open(args.input).convert("RGB")
    inputs = processor(images=picture, input_points=[[[numbers(args.points[0])]]], input_labels=[[[1]]],
                       return_tensors="pt")
    sizes = inputs.pop("original_sizes").tolist()
    start = time.perf_counter()
    embeddings = model.get_image_embeddings(inputs.pop("pixel_values"))
    encode = time.perf_counter() - start
    inputs.pop("reshaped_input_sizes", None)
    times = []
    for _ in range(args.repeat):
        start = time.perf_counter()
        output = model(image_embeddings=[e.clone() for e in embeddings], **inputs)
        processor.post_process_masks(output.pred_masks, sizes)
        times.append(time.perf_counter() - start)
    return dict(encode=encode, click=times)


@torch.inference_mode()
def video(args):
    model = Sam3TrackerVideoModel.from_pretrained(args.model, dtype=torch.float32).eval()
    side = model.config.image_size
    square = {"height": side, "width": side}
    processor = Sam3TrackerVideoProcessor(
        Sam3ImageProcessor(size=square),
        Sam2VideoVideoProcessor(size=square, image_mean=[0.5] * 3, image_std=[0.5] * 3))
    names = sorted(os.listdir(args.input))[:args.frames]
    frames = np.stack([np.asarray(Image.open(os.path.join(args.input, n)).convert("RGB")) for n in names])
    session = processor.init_video_session(video=frames)
    ids = list(range(len(args.points)))
    processor.add_inputs_to_inference_session(
        session, frame_idx=0, obj_ids=ids, input_points=[[[numbers(p)] for p in args.points]],
        input_labels=[[[1] for _ in ids]])
    times, start = [], time.perf_counter()
    for out in model.propagate_in_video_iterator(session, start_frame_idx=0):
        processor.post_process_masks([out.pred_masks], [frames.shape[1:3]])
        times.append(time.perf_counter() - start)
        print(f"frame {out.frame_idx}: {times[-1]:.2f} s", flush=True)
        start = time.perf_counter()
    return dict(frames=times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["click", "video"])
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("points", nargs="+")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--frames", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(json.dumps(dict(click=click, video=video)[args.what](args)))


if __name__ == "__main__":
    main()
