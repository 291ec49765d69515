"""Makes tests/data/models/sam3-v: a small random Sam3VideoModel and the frames that the video goldens are made on.

    python video_model.py OUT --tokenizer FOLDER

Importing this module lets transformers build trackers whose memories are narrower than 64 channels.
"""
import argparse
import os

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoTokenizer, Sam3TrackerVideoModel, Sam3TrackerVideoProcessor, Sam3VideoModel
from transformers.models.sam2_video.video_processing_sam2_video import Sam2VideoVideoProcessor
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor
from transformers.models.sam3_tracker_video import modeling_sam3_tracker_video as tracker_module

from common import calibrate, lookup, randomize, round_to_half, store, synthetic_image
from make import build_config, build_processor, save_folder

# A pointer of 64 channels is two memory tokens of 32.
MODEL = dict(seed=5, image=112, patch=14, pretrain=56, window=4, vit=48, vit_heads=3, vit_mlp=96, layers=3,
             globals=[1, 2], d=64, heads=4, ffn=64, text=48, text_heads=3, text_layers=2, text_mlp=64, geometry=1,
             roi=3, fusion=1, decoder=2, queries=12, tracker_heads=2, tracker_mlp=64)
MEMORY_CHANNELS, MEMORY_LAYERS, FUSER_LAYERS = 32, 2, 2
FRAMES, HEIGHT, WIDTH = 14, 66, 88
PHRASES = ["red circle", "two yellow squares on a table", "person", "blue ring", "striped star"]
MASK_SHIFT = -3.0  # on the detector's mask logits, whose deviation is 3: objects cover a part of the picture
SEEN = 0.8         # share of frames on which a followed object is seen
# Factors on the tracker's weights beyond those of common.py: without them a click and a memory hardly change a mask.
TRACKER_GAIN = [("cross_attn_image.o_proj.weight", 5.0), ("cross_attn_image_to_token.o_proj.weight", 2.5),
                ("self_attn.o_proj.weight", 2.0), ("conv_s0", 0.2), ("conv_s1", 0.2)]
PLACE = 2.0  # equal biases of queries and keys, which the rotary encoding turns into a preference for the same place


def widen_cross_attention():
    """transformers has the width of a memory token in its configuration and 64 in one constructor."""
    original = tracker_module.Sam3TrackerVideoRoPEAttention.__init__

    def build(self, config, kv_in_dim=None, rope_k_repeat=False):
        width = None if kv_in_dim is None else config.memory_encoder_output_channels
        original(self, config, kv_in_dim=width, rope_k_repeat=rope_k_repeat)

    tracker_module.Sam3TrackerVideoRoPEAttention.__init__ = build


widen_cross_attention()


def load_frames(folder):
    """u8 [FRAMES, HEIGHT, WIDTH, 3]"""
    return load_file(os.path.join(folder, "frames.safetensors"))["frames"]


def load_tracker(folder):
    """Sam3TrackerVideoModel with the folder's weights, and its processor."""
    model, report = Sam3TrackerVideoModel.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"], report
    return model.eval(), tracker_processor(model.config.image_size)


def tracker_processor(size):
    square = {"height": size, "width": size}
    videos = Sam2VideoVideoProcessor(size=square, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    return Sam3TrackerVideoProcessor(Sam3ImageProcessor(size=square), videos)


def synthetic_video(frames, height, width):
    """A textured background that drifts, and three discs: one crosses, one leaves and comes back, one comes late."""
    wide = synthetic_image(height, width + 2 * frames, seed=40)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    out = []
    for t in range(frames):
        picture = wide[:, 2 * t:2 * t + width].astype(np.float64)
        u = t / (frames - 1)
        discs = [(0.15 + 0.7 * u, 0.35, 0.16, (230, 60, 40)),
                 (0.85 + 0.45 * np.sin(np.pi * u), 0.7, 0.15, (60, 90, 240)),
                 (0.6 - 0.3 * u, 1.35 - 0.9 * u, 0.18, (240, 220, 70))]
        for cx, cy, radius, colour in discs:
            inside = (x - cx * width) ** 2 + (y - cy * height) ** 2 < (radius * height) ** 2
            picture[inside] = 0.8 * np.array(colour) + 0.2 * picture[inside]
        out.append(np.clip(np.rint(picture), 0, 255).astype(np.uint8))
    return np.stack(out)


@torch.no_grad()
def shift_masks(detector, shift):
    """Adds a constant to every mask logit, through one channel that pixels and queries then use for nothing else."""
    pixels, queries = detector.mask_decoder.instance_projection, detector.mask_decoder.mask_embedder.layers[-1]
    for layer in (pixels, queries):
        layer.weight[0].zero_()
    pixels.bias[0] = abs(shift) ** 0.5
    queries.bias[0] = shift / abs(shift) ** 0.5


@torch.no_grad()
def strengthen(tracker, gains):
    """Pixels look for tokens and for memories that lie where they are: clicks and memories have a place."""
    for name, value in tracker.state_dict().items():
        value.mul_(lookup(gains, name, 1.0))
    for layer in tracker.mask_decoder.transformer.layers:
        attention = layer.cross_attn_image_to_token
        attention.k_proj.load_state_dict(attention.q_proj.state_dict())
    for layer in tracker.memory_attention.layers:
        attention = layer.cross_attn_image
        half = attention.head_dim // 2  # the channels of x, then those of y; fast frequencies first
        for start in (0, half):
            attention.q_proj.bias[start:start + 6] = PLACE
            attention.k_proj.bias[start:start + 6] = PLACE


@torch.no_grad()
def followed_scores(folder, frames):
    """Object scores of clicked objects on frames that the memory conditions: [objects, frames]."""
    model, processor = load_tracker(folder)
    scores = []
    for point in ([13.0, 22.0], [70.0, 46.0], [44.0, 33.0], [20.0, 55.0]):
        session = processor.init_video_session(video=frames)
        processor.add_inputs_to_inference_session(session, frame_idx=0, obj_ids=1, input_points=[[[point]]],
                                                  input_labels=[[[1]]])
        outputs = model.propagate_in_video_iterator(session, start_frame_idx=0)
        scores.append([out.object_score_logits.item() for out in outputs][1:])
    return np.array(scores)


@torch.no_grad()
def calibrate_presence(model, frames, save):
    """Scales object scores to a deviation of 1 and shifts them until the wanted share is above 0. `save` writes the
    model and returns its folder. An object that is not seen leaves other memories: only a run tells the share."""
    head = model.tracker_model.mask_decoder.pred_obj_score_head.proj_out
    head.bias.fill_(100.0)
    scores = followed_scores(save(), frames) - 100.0
    scale = 1.0 / scores.std()
    head.weight.mul_(scale)
    low, high = -scale * scores.max(), -scale * scores.min()
    for _ in range(6):
        head.bias.fill_((low + high) / 2)
        share = (followed_scores(save(), frames) > 0).mean()
        low, high = (low, (low + high) / 2) if share > SEEN else ((low + high) / 2, high)


def make(folder, tokenizer_folder):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    config = build_config(MODEL, tokenizer)
    tracker = config.tracker_config
    tracker.memory_encoder_output_channels = MEMORY_CHANNELS
    tracker.memory_attention_num_layers, tracker.memory_fuser_num_layers = MEMORY_LAYERS, FUSER_LAYERS
    model = Sam3VideoModel(config).eval()
    randomize(model, MODEL["seed"], half=True)
    processor = build_processor(MODEL["image"], MODEL["patch"], tokenizer)
    frames = synthetic_video(FRAMES, HEIGHT, WIDTH)
    probes = [processor(images=frames[3 * i], text=text, return_tensors="pt") for i, text in enumerate(PHRASES)]
    for inputs in probes:
        inputs.pop("original_sizes")
    calibrate(model.detector_model, probes)
    shift_masks(model.detector_model, MASK_SHIFT)
    strengthen(model.tracker_model, TRACKER_GAIN)

    def save():
        round_to_half(model)
        save_folder(folder, model, processor, tokenizer_folder)
        return folder

    calibrate_presence(model, frames, save)
    store(os.path.join(folder, "frames.safetensors"), {"frames": frames}, dict(image_size=MODEL["image"]), 0)
    print(f"{folder}: {sum(v.numel() for v in model.state_dict().values())} values, "
          f"object scores {np.round(followed_scores(folder, frames), 2).tolist()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tokenizer", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    make(os.path.join(args.out, "sam3-v"), args.tokenizer)


if __name__ == "__main__":
    main()
