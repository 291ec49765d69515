"""Adds the interactive head's goldens (tracker-*.safetensors) to folders made by make.py.

    python tracker.py FOLDER...

Each case: picture image-0, prompts in its pixels, the processor and Sam3TrackerModel as transformers have them. The
official-* cases add the no-memory embedding to the map the decoder reads, as Meta's predictor and transformers' video
model do; transformers' image model adds it to the 0.5x level, which nothing reads.
"""
import argparse
import json
import os

import numpy as np
import torch
from transformers import Sam3TrackerModel, Sam3TrackerProcessor
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

from common import Recorder, channels_last, pack_masks, store, synthetic_image

LIMIT = 1600
SIZE = (97, 131)

# name -> points [objects][points][xy], labels, boxes [objects][xyxy], multimask
CASES = {
    "point": dict(points=[[[65.0, 48.0]]], labels=[[1]], multimask=True),
    "point-single": dict(points=[[[65.0, 48.0]]], labels=[[1]], multimask=False),
    "points": dict(points=[[[30.5, 20.25], [90.0, 70.0], [12.0, 88.0], [120.0, 5.0]]], labels=[[1, 1, 0, 0]],
                   multimask=False),
    "box": dict(boxes=[[22.0, 17.0, 84.5, 77.0]], multimask=False),
    "point-box": dict(points=[[[50.0, 40.0], [100.0, 80.0]]], labels=[[1, 0]], boxes=[[22.0, 17.0, 84.5, 77.0]],
                      multimask=True),
    "three-objects": dict(points=[[[65.0, 48.0], [10.0, 10.0]], [[20.0, 80.0], [64.0, 50.0]],
                                  [[110.0, 30.0], [3.0, 90.0]]],
                          labels=[[1, 0], [1, 1], [1, 0]], multimask=True),
    "three-boxes": dict(boxes=[[5.0, 5.0, 40.0, 50.0], [60.0, 10.0, 130.0, 44.0], [30.0, 52.0, 100.0, 96.0]],
                        multimask=False),
}


def record_tracker(recorder, model):
    put = recorder.put
    for i in range(3):
        recorder.hook(model.vision_encoder.neck.fpn_layers[i],
                      lambda out, i=i: put(f"tracker.fpn.{i}", channels_last(out)))

    def prompt(out):
        sparse, dense = out
        put("prompt.sparse", sparse)
        put("prompt.dense", channels_last(dense))

    recorder.hook(model.prompt_encoder, prompt)

    def decoder_in(_module, _args, kwargs):
        put("tracker.embedding", channels_last(kwargs["image_embeddings"]))
        put("tracker.position", channels_last(kwargs["image_positional_embeddings"]))
        put("tracker.high.0", channels_last(kwargs["high_resolution_features"][0]))
        put("tracker.high.1", channels_last(kwargs["high_resolution_features"][1]))

    recorder.handles.append(model.mask_decoder.register_forward_pre_hook(decoder_in, with_kwargs=True))

    def transformer(out):
        tokens, image = out
        put("tracker.tokens", tokens[0])
        put("tracker.keys", image.reshape(-1, *image.shape[-2:]))

    recorder.hook(model.mask_decoder.transformer, transformer)


def all_masks(model):
    """Keeps what the decoder had before it chose among its four masks."""
    kept = {}
    original = model.mask_decoder._dynamic_multimask_via_stability

    def choose(masks, scores):
        kept["masks"], kept["iou"] = masks, scores
        return original(masks, scores)

    model.mask_decoder._dynamic_multimask_via_stability = choose
    return kept


class TrackerMaker:
    def __init__(self, folder):
        self.folder = folder
        self.model = Sam3TrackerModel.from_pretrained(folder, dtype=torch.float32).eval()
        size = self.model.config.vision_config.backbone_config.image_size
        self.processor = Sam3TrackerProcessor(Sam3ImageProcessor(size={"height": size, "width": size}))
        self.size = size
        self.picture = synthetic_image(*SIZE, seed=100)
        self.kept = all_masks(self.model)

    @torch.no_grad()
    def embeddings(self, official):
        inputs = self.processor(images=self.picture, return_tensors="pt")
        recorder = Recorder()
        record_tracker(recorder, self.model)
        maps = self.model.get_image_embeddings(inputs["pixel_values"])
        recorder.close()
        if official:
            maps[-1] = maps[-1] + self.model.no_memory_embedding.reshape(1, -1, 1, 1)
        return maps, recorder.tensors

    @torch.no_grad()
    def forward(self, maps, inputs, multimask, mask):
        """Records one decoder run; the four masks come from a second run without multimask."""
        call = {k: inputs[k] for k in ("input_points", "input_labels", "input_boxes") if k in inputs}
        self.model(image_embeddings=list(maps), input_masks=mask, multimask_output=False, **call)
        recorder = Recorder()
        record_tracker(recorder, self.model)
        output = self.model(image_embeddings=list(maps), input_masks=mask, multimask_output=multimask, **call)
        recorder.close()
        tensors = recorder.tensors
        tensors["tracker.masks"] = self.kept["masks"][0].numpy()
        tensors["tracker.iou"] = self.kept["iou"][0].numpy()
        tensors["tracker.object_score"] = output.object_score_logits[0].numpy()
        tensors["result.low_res"] = output.pred_masks[0].numpy()
        tensors["result.iou"] = output.iou_scores[0].numpy()
        return output, tensors

    def run(self, name, points=None, labels=None, boxes=None, multimask=True, mask=None, official=False):
        maps, _ = self.embeddings(official)
        inputs = self.processor(images=self.picture, input_points=[points] if points else None,
                                input_labels=[labels] if labels else None, input_boxes=[boxes] if boxes else None,
                                return_tensors="pt")
        output, tensors = self.forward(maps, inputs, multimask, mask)
        for key in ("input_points", "input_boxes"):  # in the network's pixels
            if key in inputs:
                tensors[key] = inputs[key][0].numpy()
        if "input_labels" in inputs:
            tensors["input_labels"] = inputs["input_labels"][0].int().numpy()
        if mask is not None:
            tensors["input_mask"] = mask[0, 0].numpy()
        masks = self.processor.post_process_masks(output.pred_masks, [SIZE])[0]  # [objects, masks, H, W]
        tensors["result.masks"] = pack_masks(masks.flatten(0, 1).numpy())
        # constant over the image in every case: kept in tracker-image alone
        for key in ("tracker.embedding", "tracker.position", "tracker.high.0", "tracker.high.1"):
            tensors.pop(key)
        store(os.path.join(self.folder, f"tracker-{name}.safetensors"), tensors,
              dict(images="tracker-image" + ("-official" if official else ""), points=json.dumps(points),
                   labels=json.dumps(labels), boxes=json.dumps(boxes), multimask=str(multimask).lower(),
                   sizes=json.dumps([SIZE]), image_size=self.size, behaviour="official" if official else "hf"), LIMIT)
        stability = self.model.mask_decoder._get_stability_scores(self.kept["masks"][:, :, :1])
        print(f"  tracker-{name}: iou {np.round(tensors['result.iou'], 3).tolist()}, object "
              f"{np.round(tensors['tracker.object_score'].ravel(), 2).tolist()}, stability "
              f"{np.round(stability.numpy().ravel(), 3).tolist()}, positive {masks.float().mean():.2f}")
        return output

    def image(self, official):
        """tracker-image: the tracker's neck and what the decoder reads for the picture of image-0."""
        maps, tensors = self.embeddings(official)
        tensors["tracker.embedding"] = channels_last(maps[2]).numpy()
        tensors["tracker.high.0"] = channels_last(maps[0]).numpy()
        tensors["tracker.high.1"] = channels_last(maps[1]).numpy()
        tensors["tracker.position"] = channels_last(self.model.get_image_wide_positional_embeddings()).numpy()
        if official:
            tensors = {"tracker.embedding": tensors["tracker.embedding"]}
        suffix = "-official" if official else ""
        store(os.path.join(self.folder, f"tracker-image{suffix}.safetensors"), tensors,
              dict(images="image-0", image_size=self.size, behaviour="official" if official else "hf"), 4096)


def make(folder):
    print(folder)
    maker = TrackerMaker(folder)
    maker.image(official=False)
    answers = {name: maker.run(name, **case) for name, case in CASES.items()}
    # refinement: the best mask of the first click goes back in with a second one
    answer = answers["point"]
    best = int(answer.iou_scores[0, 0].argmax())
    low = answer.pred_masks[:, 0, best:best + 1].clone()
    maker.run("mask", mask=low, multimask=False)
    maker.run("refine", points=[[[65.0, 48.0], [20.0, 20.0]]], labels=[[1, 0]], mask=low, multimask=False)
    for module in maker.model.vision_encoder.backbone.modules():  # Meta's ViT normalises with 1e-5
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    maker.image(official=True)
    maker.run("official-point", points=[[[65.0, 48.0]]], labels=[[1]], multimask=True, official=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for folder in args.folders:
        make(folder)


if __name__ == "__main__":
    main()
