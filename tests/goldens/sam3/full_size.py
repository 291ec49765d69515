"""A SAM 3 of the published size with random weights, and what the reference makes of a picture with it.

    python full_size.py MODEL --make --bpe bpe_simple_vocab_16e6.txt.gz [--dtype f16|f32] [--seed 1]
    python full_size.py MODEL --run IMAGE --text T [--second T2] [--box X0,Y0,X1,Y1] --dump OUT

--make writes a transformers folder (config.json, model.safetensors, tokenizer and processor files): 3.4 GB as f32.
--run times each stage and writes every named intermediate as OUT/<name>.npy and the answer as OUT/result.json;
compare.py sets two such folders side by side. Needs about 8 GB of memory.
"""
import argparse
import copy
import json
import os
import time

# OpenBLAS's own threads inside PyTorch's parallel attention can slow the reference down tenfold: see docs/parity.md.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoTokenizer, Sam3Model, Sam3Processor, Sam3VideoConfig, Sam3VideoModel
from transformers.initialization import no_init_weights
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

from clip_tokenizer import write_tokenizer
from common import calibrate, randomize, recording, round_to_half, synthetic_image
from rle import encode_mask

CALIBRATION_SIZE = 336  # a smaller input is enough to set the scale of the outputs


def calibrate_small(model, tokenizer):
    """Calibrates on a 336-pixel twin that shares the weights' memory."""
    config = copy.deepcopy(model.config.detector_config)
    config.image_size = CALIBRATION_SIZE
    with no_init_weights():
        twin = Sam3Model(config).eval()
    twin.load_state_dict(model.detector_model.state_dict(), assign=True)
    size = {"height": CALIBRATION_SIZE, "width": CALIBRATION_SIZE}
    processor = Sam3Processor(Sam3ImageProcessor(size=size), tokenizer)
    probes = []
    for i, text in enumerate(("truck", "a dog", "wheel", "person in a red coat", "tree", "visual")):
        boxes = [[[100, 100, 300, 400]]] if text == "visual" else None
        inputs = processor(images=synthetic_image(480, 640, seed=100 + i), text=text, input_boxes=boxes,
                           return_tensors="pt")
        inputs.pop("original_sizes")
        probes.append(inputs)
    calibrate(twin, probes)


def make(folder, bpe, dtype, seed):
    os.makedirs(folder, exist_ok=True)
    tokenizer = write_tokenizer(bpe, folder)
    config = Sam3VideoConfig()
    with no_init_weights():
        model = Sam3VideoModel(config).eval()
    half = dtype == "f16"
    randomize(model, seed, half=False)
    calibrate_small(model, tokenizer)
    if half:
        round_to_half(model)
    state = {k: (v.half() if half and v.is_floating_point() else v).contiguous() for k, v in model.state_dict().items()}
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config.architectures = ["Sam3VideoModel"]
    config.dtype = "float32"
    config.save_pretrained(folder)
    Sam3Processor(Sam3ImageProcessor(), tokenizer).save_pretrained(folder)
    print(f"{sum(v.numel() for v in state.values()) / 1e6:.1f} M values as {dtype} in {folder}")


# ---- run ---------------------------------------------------------------------------------------------------

def time_stages(recorder, model):
    recorder.time(model.vision_encoder.backbone, "vision.backbone")
    recorder.time(model.vision_encoder.neck, "vision.neck")
    recorder.time(model.text_encoder, "text")
    recorder.time(model.geometry_encoder, "geometry")
    recorder.time(model.detr_encoder, "fusion")
    recorder.time(model.detr_decoder, "decoder")
    recorder.time(model.mask_decoder, "masks")


def write_result(path, processor, output, size, texts, threshold):
    result = processor.post_process_instance_segmentation(output, threshold=threshold, target_sizes=[size])[0]
    detections = [dict(label=texts, score=float(s), box=[float(v) for v in b],
                       mask=dict(size=list(size), counts=encode_mask(m.numpy().astype(bool))))
                  for s, b, m in zip(result["scores"], result["boxes"], result["masks"])]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(threshold=threshold, detections=detections), file)


@torch.no_grad()
def run(folder, image, text, second, box, out, threshold):
    os.makedirs(out, exist_ok=True)
    load = os.getloadavg()[0]
    model = Sam3Model.from_pretrained(folder, dtype=torch.float32).eval()
    processor = Sam3Processor(Sam3ImageProcessor.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    picture = np.asarray(Image.open(image).convert("RGB"))
    started = time.perf_counter()
    boxes = [[[float(v) for v in box.split(",")]]] if box else None
    inputs = processor(images=picture, text=text, input_boxes=boxes, return_tensors="pt")
    size = tuple(inputs.pop("original_sizes")[0].tolist())
    prepared = time.perf_counter() - started
    with recording(model) as recorder:
        time_stages(recorder, model)
        vision = {}
        recorder.hook(model.vision_encoder, lambda out: vision.update(features=out))
        started = time.perf_counter()
        output = model(**inputs)
        whole = time.perf_counter() - started
    recorder.put("pixel_values", inputs["pixel_values"].permute(0, 2, 3, 1))
    recorder.put("text.ids", inputs["input_ids"])
    recorder.put("text.mask", inputs["attention_mask"].bool())
    for name, value in recorder.tensors.items():
        np.save(os.path.join(out, f"{name}.npy"), value)
    write_result(os.path.join(out, "result.json"), processor, output, size, text, threshold)
    times = dict(prepare=prepared, **recorder.times, whole=whole)
    if second:
        tokens = processor(text=second, return_tensors="pt")
        started = time.perf_counter()
        model(vision_embeds=vision["features"], **tokens)
        times["second phrase"] = time.perf_counter() - started
    # a time means nothing without these: a load above the number of cores spoils it
    conditions = dict(threads=torch.get_num_threads(), openblas_threads=os.environ["OPENBLAS_NUM_THREADS"],
                      cores=os.cpu_count(), load_before=load, load_after=os.getloadavg()[0])
    with open(os.path.join(out, "times.json"), "w", encoding="utf-8") as file:
        json.dump(dict(seconds=times, conditions=conditions), file, indent=1)
    print(conditions)
    for stage, seconds in times.items():
        print(f"{stage:16s} {seconds:8.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--bpe")
    parser.add_argument("--dtype", choices=["f16", "f32"], default="f16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", metavar="IMAGE")
    parser.add_argument("--text")
    parser.add_argument("--second")
    parser.add_argument("--box")
    parser.add_argument("--threshold", type=float, default=0.3)
    parser.add_argument("--dump", default="dump")
    args = parser.parse_args()
    if args.make:
        make(args.model, args.bpe, args.dtype, args.seed)
    if args.run:
        run(args.model, args.run, args.text, args.second, args.box, args.dump, args.threshold)


if __name__ == "__main__":
    main()
