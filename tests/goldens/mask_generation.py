"""Makes tests/data/mask_generation: what the reference finds when it outlines everything in a picture.

    python mask_generation.py OUT [--only CASE]

Cases without crops are answered by transformers' MaskGenerationPipeline itself. It keeps neither stabilities nor
points, and its crops fail (torch.stack of images of different sizes), so the same steps are run here a second time with
the functions of its image processors, in the order of Meta's generator; where the pipeline works both must agree.
Pictures of SAM 3 are square there: the pipeline scales its grid as if the picture kept its aspect.

The thresholds of a case are asked for as quantiles and moved into the middle of a gap, so that no decision hangs on the
last bits of a float; a decision that is still too close ends the script.
"""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.ops import box_iou, nms
from transformers import Sam3TrackerModel, SamModel
from transformers.models.sam.image_processing_sam import SamImageProcessor
from transformers.models.sam3 import image_processing_sam3 as steps
from transformers.pipelines import MaskGenerationPipeline

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "sam3"))
from common import store  # noqa: E402
sys.path.insert(0, HERE)
import gguf_to_hf  # noqa: E402

# iou, stability: the share of the masks to throw away. crop: of the scene, x0 y0 x1 y1.
CASES = {
    "sam1": dict(model="tests/data/models/sam1-l", scene="scene-04", points=7, batch=24, iou=0.45, stability=0.2,
                 offset=0.1, nms=0.97),
    "sam1-crops": dict(model="tests/data/models/sam1-l", scene="scene-04", points=7, batch=64, iou=0.45, stability=0.2,
                       offset=0.1, nms=0.97, layers=1, crop_nms=0.8, overlap=512 / 1500, downscale=1),
    "sam3": dict(model="models/sam3-shapes.gguf", scene="scene-00", points=9, batch=32, iou=0.4, stability=0.3, offset=1.0,
                 nms=0.71),
    "sam3-resized": dict(model="models/sam3-shapes.gguf", scene="scene-03", crop=(20, 10, 280, 270), points=7, batch=10,
                         iou=0.3, stability=0.4, offset=0.5, nms=0.6),
    "sam3-crops": dict(model="models/sam3-shapes.gguf", scene="scene-04", points=7, batch=64, iou=0.3, stability=0.3,
                       offset=1.0, nms=0.71, layers=1, crop_nms=0.61, overlap=0.4, downscale=2),
}
MARGIN = dict(iou=2e-5, stability=2e-4, overlap=1e-6)
CLOSE = 1e-5  # of the logits' range: pixels nearer to 0 may differ, but no box may move with them


def in_a_gap(values, share):
    """A threshold below which about `share` of the values lie, in the middle of the widest gap near there."""
    values = np.sort(values[np.isfinite(values)])
    at = int(share * len(values))
    low, high = max(1, at - 4), min(len(values) - 1, at + 5)
    best = max(range(low, high), key=lambda i: values[i] - values[i - 1])
    return float(np.float32((values[best] + values[best - 1]) / 2))


def check_margin(name, values, threshold):
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    distance = np.abs(values - threshold).min() if len(values) else np.inf
    assert distance > MARGIN[name], f"{name} {threshold} is {distance:.1e} from a value"


def checked_nms(boxes, scores, threshold):
    if len(boxes):
        overlaps = box_iou(boxes.float(), boxes.float()).numpy()
        check_margin("overlap", overlaps[~np.eye(len(boxes), dtype=bool)], threshold)
    return nms(boxes.float(), scores, threshold)


class Reference:
    def __init__(self, case):
        folder = os.path.join(ROOT, case["model"])
        with tempfile.TemporaryDirectory() as copy:
            if folder.endswith(".gguf"):
                gguf_to_hf.main(Path(folder), Path(copy))
                folder = copy
            self.load(folder)
        self.case = case
        self.picture = Image.open(os.path.join(ROOT, "assets", case["scene"] + ".png")).convert("RGB")
        if "crop" in case:
            self.picture = self.picture.crop(case["crop"])

    def load(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.keeps_aspect = json.load(file)["model_type"] == "sam"
        if self.keeps_aspect:
            self.model = SamModel.from_pretrained(folder, dtype=torch.float32).eval()
            self.processor = SamImageProcessor.from_pretrained(folder)
        else:
            self.model = Sam3TrackerModel.from_pretrained(folder, dtype=torch.float32).eval()
            self.processor = steps.Sam3ImageProcessor.from_pretrained(folder)

    @torch.no_grad()
    def decode(self, box, layer):
        """All candidates of one crop, upsampled: logits [K, H, W], iou [K], points [K, 2] in the crop's pixels."""
        part = self.picture.crop(box)
        inputs = self.processor(images=part, return_tensors="pt")
        maps = self.model.get_image_embeddings(inputs["pixel_values"])
        side = int(self.case["points"] / self.case.get("downscale", 1) ** layer)
        points = steps._build_point_grid(side) * torch.tensor(part.size)
        if self.keeps_aspect:
            height, width = inputs["reshaped_input_sizes"][0].tolist()
        else:
            height, width = inputs["pixel_values"].shape[-2:]
        scaled = points * torch.tensor([width / part.size[0], height / part.size[1]])
        output = self.model(image_embeddings=maps, input_points=scaled[None, :, None],
                            input_labels=torch.ones(1, len(points), 1, dtype=torch.long))
        sizes = dict(original_sizes=inputs["original_sizes"].tolist())
        if self.keeps_aspect:
            sizes["reshaped_input_sizes"] = inputs["reshaped_input_sizes"].tolist()
        logits = self.processor.post_process_masks(output.pred_masks, binarize=False, **sizes)[0]
        return logits.flatten(0, 1), output.iou_scores[0].flatten(), points.repeat_interleave(logits.shape[1], 0)

    def crops(self):
        """Each crop's box and layer with what the decoder says of it."""
        size = self.picture.size[::-1]
        boxes, layers = steps._generate_per_layer_crops(self.case.get("layers", 0), self.case.get("overlap", 0), size)
        return [(box, self.decode(box, layer)) for box, layer in zip(boxes, layers)]

    def filter(self, box, decoded, thresholds):
        """One crop after its filters and its own suppression; boxes and points in pixels of the picture."""
        logits, iou, points = decoded
        stability = steps._compute_stability_score(logits, 0, self.case["offset"])
        check_margin("stability", stability[iou > thresholds["iou"]], thresholds["stability"])
        size = self.picture.size[::-1]
        masks, scores, boxes = self.processor.filter_masks(
            logits[None], iou[None], size, box, thresholds["iou"], thresholds["stability"], 0, self.case["offset"])
        # which ones those are, found by the same conditions
        passed = (iou > thresholds["iou"]) & (stability > thresholds["stability"])
        all_boxes = steps._batched_mask_to_box(logits > 0)
        whole = ~steps._is_box_near_crop_edge(all_boxes, box, [0, 0, *self.picture.size])
        index = torch.nonzero(passed & whole).flatten()
        assert torch.equal(scores, iou[index]) and torch.equal(boxes, all_boxes[index])
        print(f"    {box}: {len(iou)} masks, {int(passed.sum())} pass, {len(index)} not cut off", end="")
        kept = checked_nms(boxes, scores, self.case["nms"])
        print(f", {len(kept)} without duplicates")
        span = logits.max() - logits.min()
        for shift in (-CLOSE * span, CLOSE * span):
            assert torch.equal(steps._batched_mask_to_box(logits[index] > shift), boxes), "a box hangs on a pixel"
        index = index[kept]
        close = logits[index].abs() < CLOSE * span
        shift = torch.tensor([box[0], box[1]])
        return [dict(rle=masks[k]["counts"], iou=iou[i].item(), stability=stability[i].item(),
                     box=(all_boxes[i] + shift.repeat(2)).tolist(), point=(points[i] + shift).tolist(), crop=box,
                     close=int(close[n].sum())) for n, (k, i) in enumerate(zip(kept.tolist(), index.tolist()))]

    def run(self):
        decoded = self.crops()
        iou = torch.cat([d[1] for _, d in decoded]).numpy()
        stability = [steps._compute_stability_score(d[0], 0, self.case["offset"]) for _, d in decoded]
        stability = torch.cat(stability).numpy()
        thresholds = dict(iou=in_a_gap(iou, self.case["iou"]))
        thresholds["stability"] = in_a_gap(stability[iou > thresholds["iou"]], self.case["stability"])
        check_margin("iou", iou, thresholds["iou"])
        found = [mask for box, d in decoded for mask in self.filter(box, d, thresholds)]
        if len(decoded) > 1:
            boxes = torch.tensor([m["box"] for m in found])
            crops = np.array([m["crop"] for m in found], np.float32)
            area = (crops[:, 2] - crops[:, 0]) * (crops[:, 3] - crops[:, 1])
            kept = checked_nms(boxes, torch.from_numpy(1 / area), self.case["crop_nms"])
            found = [found[i] for i in kept]
        else:
            self.compare_with_pipeline(found, thresholds)
        return found, thresholds

    def compare_with_pipeline(self, found, thresholds):
        pipeline = MaskGenerationPipeline(model=self.model, image_processor=self.processor)
        answer = pipeline(self.picture, points_per_crop=self.case["points"], points_per_batch=self.case["batch"],
                          pred_iou_thresh=thresholds["iou"], stability_score_thresh=thresholds["stability"],
                          stability_score_offset=self.case["offset"], crops_nms_thresh=self.case["nms"],
                          output_rle_mask=True, output_bboxes_mask=True)
        assert [m["box"] for m in found] == answer["bounding_boxes"].tolist()
        assert np.allclose([m["iou"] for m in found], answer["scores"], rtol=0, atol=1e-6)
        for mask, rle in zip(found, answer["rle_mask"]):
            if mask["rle"] != rle["counts"]:
                flat = [np.repeat(np.arange(len(c)) % 2, c) for c in (mask["rle"], rle["counts"])]
                assert (flat[0] != flat[1]).sum() <= mask["close"]
        print("    the pipeline agrees")


def write(path, case, found, thresholds, size):
    column = lambda key, kind: np.array([m[key] for m in found], kind)  # noqa: E731
    tensors = dict(iou=column("iou", np.float32), stability=column("stability", np.float32),
                   boxes=column("box", np.int32), points=column("point", np.float32), crops=column("crop", np.int32),
                   close=column("close", np.int32), runs=np.array([len(m["rle"]) for m in found], np.int32),
                   counts=np.concatenate([np.array(m["rle"], np.int32) for m in found]))
    keys = dict(model=case["model"], scene=case["scene"], crop=json.dumps(case.get("crop")), width=size[0],
                height=size[1], points_per_side=case["points"], points_per_batch=case["batch"],
                pred_iou_thresh=thresholds["iou"], stability_score_thresh=thresholds["stability"],
                stability_score_offset=case["offset"], box_nms_thresh=case["nms"], crop_n_layers=case.get("layers", 0),
                crop_nms_thresh=case.get("crop_nms", 0.7), crop_overlap_ratio=case.get("overlap", 512 / 1500),
                crop_n_points_downscale_factor=case.get("downscale", 1))
    store(path, tensors, keys, limit=1 << 30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    for name, case in CASES.items():
        if args.only and name != args.only:
            continue
        print(name)
        reference = Reference(case)
        found, thresholds = reference.run()
        path = os.path.join(args.out, f"{name}.safetensors")
        write(path, case, found, thresholds, reference.picture.size)
        print(f"    {thresholds}: {len(found)} masks, {sum(m['close'] for m in found)} close pixels, "
              f"{len({tuple(m['crop']) for m in found})} crops, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
