"""Makes tests/data/models/<name>: small random SAM 3 models in the transformers layout, and the reference's answers.

    python make.py OUT --tokenizer FOLDER [--only NAME]

FOLDER holds tokenizer.json, tokenizer_config.json, vocab.json and merges.txt of a CLIP-style tokenizer with a small
vocabulary. tracker.py adds the interactive head's goldens to the folders made here.
"""
import argparse
import copy
import json
import os
import shutil

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file as save_torch
from transformers import AutoTokenizer, Sam3Model, Sam3Processor, Sam3VideoConfig, Sam3VideoModel
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

from common import calibrate, pack_masks, randomize, recording, round_to_half, store, synthetic_image

THRESHOLD, MASK_THRESHOLD = 0.3, 0.5
IMAGE_LIMIT, CASE_LIMIT = 8192, 1600
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"]

# a: windows divide the 8x8 grid, head size 16, 2x2 tiles of the position table.
# b: 9x9 grid in windows of 4 (padded to 12x12), head size 32, a 5x5 position table cut off at 9, other patches.
MODELS = {
    "sam3-a": dict(seed=8, image=112, other=154, patch=14, pretrain=56, window=4, vit=48, vit_heads=3, vit_mlp=111,
                   layers=4, globals=[1, 3], d=32, heads=2, ffn=80, text=48, text_heads=3, text_layers=2, text_mlp=64,
                   geometry=2, roi=3, fusion=2, decoder=3, queries=16, tracker_heads=2, tracker_mlp=64),
    "sam3-b": dict(seed=7, image=72, other=96, patch=8, pretrain=40, window=4, vit=64, vit_heads=2, vit_mlp=96,
                   layers=4, globals=[1, 2], d=32, heads=4, ffn=64, text=32, text_heads=4, text_layers=3, text_mlp=80,
                   geometry=1, roi=7, fusion=2, decoder=2, queries=13, tracker_heads=2, tracker_mlp=48),
}
SIZES = [(97, 131), (120, 83)]  # original height and width of image-0 and image-1


def build_config(p, tokenizer):
    grid = p["image"] // p["patch"]
    vision = dict(
        model_type="sam3_vision_model", fpn_hidden_size=p["d"], scale_factors=[4.0, 2.0, 1.0, 0.5],
        backbone_feature_sizes=[[4 * grid] * 2, [2 * grid] * 2, [grid] * 2],
        backbone_config=dict(
            model_type="sam3_vit_model", hidden_size=p["vit"], intermediate_size=p["vit_mlp"], patch_size=p["patch"],
            num_hidden_layers=p["layers"], num_attention_heads=p["vit_heads"], image_size=p["image"],
            window_size=p["window"], global_attn_indexes=p["globals"], pretrain_image_size=p["pretrain"]))
    common = dict(hidden_size=p["d"], num_attention_heads=p["heads"], intermediate_size=p["ffn"], dropout=0.0)
    detector = dict(
        model_type="sam3", vision_config=vision,
        text_config=dict(
            vocab_size=len(tokenizer), hidden_size=p["text"], intermediate_size=p["text_mlp"], hidden_act="gelu",
            projection_dim=p["text"], num_hidden_layers=p["text_layers"], num_attention_heads=p["text_heads"],
            max_position_embeddings=32, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id),
        geometry_encoder_config=dict(num_layers=p["geometry"], roi_size=p["roi"], **common),
        detr_encoder_config=dict(num_layers=p["fusion"], **common),
        detr_decoder_config=dict(num_layers=p["decoder"], num_queries=p["queries"], **common),
        mask_decoder_config=dict(hidden_size=p["d"], num_attention_heads=p["heads"], num_upsampling_stages=3))
    tracker = dict(
        model_type="sam3_tracker_video", vision_config=copy.deepcopy(vision), image_size=p["image"],
        prompt_encoder_config=dict(hidden_size=p["d"], image_size=p["image"], patch_size=p["patch"]),
        mask_decoder_config=dict(hidden_size=p["d"], mlp_dim=p["tracker_mlp"], iou_head_hidden_dim=p["d"],
                                 num_attention_heads=p["tracker_heads"]),
        memory_attention_hidden_size=p["d"], memory_attention_num_layers=1,
        memory_attention_feed_forward_hidden_size=p["ffn"], memory_attention_dropout=0.0,
        memory_attention_rope_dropout=0.0, memory_encoder_hidden_size=p["d"], memory_encoder_output_channels=64,
        mask_downsampler_embed_dim=p["d"], memory_fuser_embed_dim=p["d"], memory_fuser_intermediate_dim=p["d"],
        memory_fuser_num_layers=1)
    return Sam3VideoConfig(detector_config=detector, tracker_config=tracker, low_res_mask_size=4 * grid)


def build_processor(size, patch, tokenizer):
    square = {"height": size, "width": size}
    low = {"height": 4 * size // patch, "width": 4 * size // patch}
    return Sam3Processor(Sam3ImageProcessor(size=square, mask_size=low), tokenizer)


def detector_at(model, size):
    """The same weights as a Sam3Model for another square input: RoPE and position tiles are those of the new size."""
    config = copy.deepcopy(model.config.detector_config)
    config.image_size = size
    detector = Sam3Model(config).eval()
    detector.load_state_dict(model.detector_model.state_dict())
    return detector


def save_folder(folder, model, processor, tokenizer_folder):
    os.makedirs(folder, exist_ok=True)
    weights = {k: v.half() if v.is_floating_point() else v for k, v in model.state_dict().items()}
    save_torch({k: v.contiguous().clone() for k, v in weights.items()}, os.path.join(folder, "model.safetensors"),
               metadata={"format": "pt"})
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    model.config.architectures = ["Sam3VideoModel"]
    model.config.dtype = "float32"
    model.config.save_pretrained(folder)
    processor.save_pretrained(folder)
    for name in TOKENIZER_FILES:  # as they are: save_pretrained writes them in its own order and spacing
        shutil.copyfile(os.path.join(tokenizer_folder, name), os.path.join(folder, name))
        os.chmod(os.path.join(folder, name), 0o644)


def add_cls_token(inputs):
    """A box that is padding still brings the CLS token: what the official model has on text-only prompts."""
    batch = len(inputs["input_ids"])
    inputs["input_boxes"] = torch.full((batch, 1, 4), 0.5)
    inputs["input_boxes_labels"] = torch.full((batch, 1), -10)


# ---- cases -------------------------------------------------------------------------------------------------

class Maker:
    def __init__(self, folder, detector, processor, size):
        self.folder, self.detector, self.processor, self.size = folder, detector, processor, size
        self.pictures = [synthetic_image(h, w, seed=100 + i) for i, (h, w) in enumerate(SIZES)]

    @torch.no_grad()
    def image(self, index, suffix, limit, **metadata):
        """image-<index><suffix>: the picture, the network's input and every vision.* tensor."""
        inputs = self.processor(images=self.pictures[index], return_tensors="pt")
        with recording(self.detector, decoder=False) as recorder:
            self.detector.get_vision_features(inputs["pixel_values"])
        tensors = {"image": self.pictures[index], "pixel_values": inputs["pixel_values"].permute(0, 2, 3, 1).numpy()}
        store(os.path.join(self.folder, f"image-{index}{suffix}.safetensors"), tensors | recorder.tensors,
              dict(image_size=self.size, **metadata), limit)

    @torch.no_grad()
    def run(self, name, pictures, texts, boxes=None, labels=None, suffix="", official=False):
        """One forward of a batch; `boxes` holds xyxy pixels for each image, or None."""
        inputs = self.processor(images=[self.pictures[i] for i in pictures], text=texts, input_boxes=boxes,
                                input_boxes_labels=labels, return_tensors="pt")
        sizes = [tuple(s) for s in inputs.pop("original_sizes").tolist()]
        if official and boxes is None:
            add_cls_token(inputs)
        with recording(self.detector, vision=False) as recorder:
            output = self.detector(**inputs)
        tensors = recorder.tensors
        if official and boxes is None:
            tensors["geometry.features"] = tensors["geometry.features"][:, :1]
            tensors["geometry.mask"] = tensors["geometry.mask"][:, :1]
        self.finish(name, tensors, inputs, output, sizes, pictures, texts, boxes, suffix, official)
        return output

    def finish(self, name, tensors, inputs, output, sizes, pictures, texts, boxes, suffix, official):
        tensors["text.ids"] = inputs["input_ids"].int().numpy()
        tensors["text.mask"] = inputs["attention_mask"].to(torch.uint8).numpy()
        if boxes is not None:
            tensors["geometry.boxes"] = inputs["input_boxes"].numpy()
            tensors["geometry.labels"] = inputs["input_boxes_labels"].int().numpy()
        threshold = 0.5 if official else THRESHOLD
        margin, close = self.results(tensors, output, sizes, threshold, official)
        files = [f"image-{i}{suffix}" for i in pictures]
        store(os.path.join(self.folder, f"{name}.safetensors"), tensors,
              dict(images=",".join(files), texts=json.dumps(texts), boxes=json.dumps(boxes), image_size=self.size,
                   sizes=json.dumps(sizes), threshold=threshold, mask_threshold=MASK_THRESHOLD,
                   behaviour="official" if official else "hf", close_pixels=close), CASE_LIMIT)
        counts = [len(tensors[f"result.{i}.scores"]) for i in range(len(sizes))]
        scores = output.pred_logits.sigmoid() * output.presence_logits.sigmoid()
        print(f"  {name}: scores {scores.min():.3f}..{scores.max():.3f}, kept {counts}, nearest threshold "
              f"{margin:.4f}, mask logits {output.pred_masks.min():.1f}..{output.pred_masks.max():.1f}, "
              f"positive {(output.pred_masks > 0).float().mean():.2f}, close pixels {close}")
        assert margin > 2e-3, "a score lies on a threshold: choose another seed"
        assert any(counts), "nothing was found: choose another seed"

    def results(self, tensors, output, sizes, threshold, official):
        """result.<n>.*: post-processed as the processor does it (official: upsampled as logits)."""
        processed = self.processor.post_process_instance_segmentation(
            output, threshold=threshold, mask_threshold=MASK_THRESHOLD, target_sizes=sizes)
        scores = output.pred_logits.sigmoid() * output.presence_logits.sigmoid()
        close = 0
        for n, result in enumerate(processed):
            keep = scores[n] > threshold
            masks = result["masks"].bool()
            if keep.any():
                low = output.pred_masks[n][keep]
                low = low if official else low.sigmoid()
                full = F.interpolate(low[None], size=sizes[n], mode="bilinear", align_corners=False)[0]
                full = full.sigmoid() if official else full
                close += int(((full - MASK_THRESHOLD).abs() < 1e-4).sum())
                masks = full > MASK_THRESHOLD
                assert official or torch.equal(masks, result["masks"].bool())
            tensors[f"result.{n}.queries"] = keep.nonzero()[:, 0].int().numpy()
            tensors[f"result.{n}.scores"] = result["scores"].numpy()
            tensors[f"result.{n}.boxes"] = result["boxes"].numpy()
            tensors[f"result.{n}.masks"] = pack_masks(masks.numpy())
            semantic = self.processor.post_process_semantic_segmentation(output, target_sizes=sizes)[n]
            tensors[f"result.{n}.semantic"] = pack_masks(semantic.bool().numpy()[None])
        margin = min((scores - t).abs().min().item() for t in (0.3, 0.5))
        return margin, close

    @torch.no_grad()
    def two_phrases(self, name, texts):
        """One image, encoded once, and each phrase on its own; stacked over the phrases."""
        inputs = self.processor(images=self.pictures[0], text=texts, return_tensors="pt")
        sizes = [tuple(inputs["original_sizes"][0].tolist())] * len(texts)
        vision = self.detector.get_vision_features(inputs["pixel_values"])
        parts, outputs = [], []
        for i in range(len(texts)):
            with recording(self.detector, vision=False) as recorder:
                outputs.append(self.detector(vision_embeds=vision, input_ids=inputs["input_ids"][i:i + 1],
                                             attention_mask=inputs["attention_mask"][i:i + 1]))
            parts.append(recorder.tensors)
        tensors = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
        output = outputs[0]
        for key in ("pred_masks", "pred_boxes", "pred_logits", "presence_logits", "semantic_seg"):
            setattr(output, key, torch.cat([getattr(o, key) for o in outputs]))
        self.finish(name, tensors, inputs, output, sizes, [0], texts, None, "", False)


def concept_cases(maker):
    maker.run("text", [0], ["red circle"])
    maker.run("boxes", [0], None, boxes=[[[20.0, 15.0, 70.0, 62.0]]])
    maker.run("text-boxes", [0], ["striped star"], boxes=[[[12.5, 30.25, 44.0, 80.75], [90.0, 8.0, 128.0, 40.0]]])
    # one box a fraction of a feature cell wide, one that leaves the picture, one of it all
    maker.run("negative-boxes", [0], ["a small blue ring"],
              boxes=[[[60.0, 20.0, 64.5, 23.0], [100.0, 70.0, 140.0, 97.0], [0.0, 0.0, 131.0, 97.0]]],
              labels=[[1, 0, 0]])
    maker.two_phrases("two-phrases", ["green triangle", "every large dotted hexagon near the moon"])
    maker.run("batch", [0, 1], ["heart", "two yellow squares on a table"])
    maker.run("mixed-batch", [0, 1], ["person", None],
              boxes=[None, [[5.0, 9.0, 60.0, 77.0], [30.0, 50.0, 80.0, 110.0]]], labels=[None, [1, 0]])


def official_case(model, folder, processor, size):
    """Meta's behaviour on HF's modules: epsilon 1e-5 in every LayerNorm, CLS token always, upsampling of logits."""
    detector = detector_at(model, size)
    for module in detector.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    maker = Maker(folder, detector, processor, size)
    maker.image(0, "-official", CASE_LIMIT, behaviour="official")
    maker.run("official-text", [0], ["red circle"], suffix="-official", official=True)


def probes(processor):
    """What the weights are calibrated on: phrases with and without boxes."""
    picture = synthetic_image(*SIZES[0], seed=100)
    out = []
    for text, boxes in (("red circle", None), ("two yellow squares on a table", None), ("person", None),
                        ("visual", [[[20, 15, 70, 62]]]), ("striped star", [[[12, 30, 44, 80], [90, 8, 128, 40]]]),
                        ("a small blue ring", [[[60, 20, 64, 23], [10, 30, 110, 90]]])):
        inputs = processor(images=picture, text=text, input_boxes=boxes, return_tensors="pt")
        inputs.pop("original_sizes")
        out.append(inputs)
    with_cls = dict(out[0])
    add_cls_token(with_cls)
    return [*out, with_cls]


def make(name, out, tokenizer_folder):
    p = MODELS[name]
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    folder = os.path.join(out, name)
    model = Sam3VideoModel(build_config(p, tokenizer)).eval()
    randomize(model, p["seed"], half=True)
    processor = build_processor(p["image"], p["patch"], tokenizer)
    calibrate(model.detector_model, probes(processor))
    round_to_half(model)
    save_folder(folder, model, processor, tokenizer_folder)
    print(f"{name}: {sum(v.numel() for v in model.state_dict().values())} values")
    maker = Maker(folder, model.detector_model, processor, p["image"])
    maker.image(0, "", IMAGE_LIMIT)
    maker.image(1, "", CASE_LIMIT)
    concept_cases(maker)
    size = p["other"]
    other = Maker(folder, detector_at(model, size), build_processor(size, p["patch"], tokenizer), size)
    suffix = f"-size{size}"
    other.image(0, suffix, CASE_LIMIT)
    other.run(f"text-boxes{suffix}", [0], ["red circle"], boxes=[[[20.0, 15.0, 70.0, 62.0]]], suffix=suffix)
    if name == "sam3-a":
        official_case(model, folder, processor, p["image"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--only", choices=list(MODELS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [args.only] if args.only else MODELS:
        make(name, args.out, args.tokenizer)


if __name__ == "__main__":
    main()
