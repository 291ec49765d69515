"""How long transformers takes on a GPU for what `sam3 bench --random` measures; prints JSON with the same names.

    python bench/reference_gpu.py [--mode reduce-overhead] [--runs 50] [--warmup 5] [--masks 10] [--batch 8] [--image FILE]

A SAM 3 of the published size with random weights in bf16, in eager mode and compiled (torch.compile with CUDA graphs unless --mode
says otherwise). The clock runs from the decoded picture to --masks masks of its size in the host's memory; pre-processing runs on
the GPU, which is faster for the reference. `encoder` is the network's image encoder alone, from pixels to features on the GPU, for
one picture and for --batch. --small and --device cpu are for trying the script itself.
"""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import transformers
from transformers import Sam3Config, Sam3Model
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

CONTEXT = 32  # tokens of a phrase, padding included
REAL_TOKENS = 4
SMALL = 336  # pixels


def say(text):
    print(text, file=sys.stderr, flush=True)


def synthetic_picture(width=1280, height=960):
    """As apps/cli/bench_tasks.cpp draws it."""
    y, x, c = np.ogrid[:height, :width, :3]
    return ((x * (c + 1) // 5 + y * (3 - c) // 4) & 255).astype(np.uint8)


def small_config():
    layers = {"num_hidden_layers": 1, "num_layers": 1}
    config = Sam3Config().to_dict()
    config["vision_config"]["backbone_config"].update(layers, global_attn_indexes=[0])
    for part in ("text_config", "geometry_encoder_config", "detr_encoder_config", "detr_decoder_config"):
        config[part].update(layers)
    config = Sam3Config(**config)
    config.image_size = SMALL
    return config


class Reference:
    def __init__(self, options):
        self.options = options
        self.device = torch.device(options.device)
        torch.manual_seed(0)
        with self.device:
            self.model = Sam3Model(small_config() if options.small else Sam3Config()).to(torch.bfloat16).eval()
        self.processor = Sam3ImageProcessor(**({"size": {"height": SMALL, "width": SMALL}} if options.small else {}))
        self.ids = torch.randint(1, 40000, (1, CONTEXT), device=self.device)
        self.mask = (torch.arange(CONTEXT, device=self.device) < REAL_TOKENS).long()[None]

    def pixels(self, pictures):
        return self.processor(images=pictures, return_tensors="pt", device=self.device)["pixel_values"].to(torch.bfloat16)

    def masks(self, output, size):
        """The best so many, in the host's memory: random weights leave no sensible threshold."""
        scores = (output.pred_logits.sigmoid() * output.presence_logits.sigmoid()).float()
        least = scores[0].topk(self.options.masks + 1).values[-1].item()
        found = self.processor.post_process_instance_segmentation(output, threshold=least, target_sizes=[size])[0]
        return found["masks"].to(torch.uint8).cpu(), found["scores"].float().cpu(), found["boxes"].float().cpu()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work):
        for _ in range(self.options.warmup):
            work()
        times = []
        for _ in range(self.options.runs):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - start)
        return {"median": statistics.median(times), "best": min(times)}

    def measure(self, model, encoder, picture, batch=0):
        size = picture.shape[:2]
        one = self.pixels([picture])
        prompt = {"input_ids": self.ids, "attention_mask": self.mask}
        features = self.model.get_vision_features(pixel_values=one)
        waits = {
            "image_phrase": lambda: self.masks(model(pixel_values=self.pixels([picture]), **prompt), size),
            "second_phrase": lambda: self.masks(model(vision_embeds=features, **prompt), size),
            "encoder": lambda: encoder(one),
        }
        if batch > 0:
            many = one.expand(batch, -1, -1, -1).contiguous()
            waits["encoder_batch"] = lambda: encoder(many)
        answer = {}
        for name, work in waits.items():
            start = time.perf_counter()
            answer[name] = self.seconds(work)
            say(f"{name}: {answer[name]['median'] * 1e3:.2f} ms; measured in {time.perf_counter() - start:.0f} s")
        return answer


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="reduce-overhead")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--masks", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()

    picture = synthetic_picture()
    if options.image:
        from PIL import Image
        picture = np.asarray(Image.open(options.image).convert("RGB"))
    torch.set_float32_matmul_precision("high")
    reference = Reference(options)
    report = {"torch": torch.__version__, "transformers": transformers.__version__, "precision": "bf16", "runs": options.runs,
              "batch": options.batch, "masks": options.masks, "mode": options.mode,
              "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device}
    model = reference.model
    say("eager")
    report["eager"] = reference.measure(model, model.vision_encoder, picture, options.batch)
    if not options.no_compile:
        say("compiled")
        compiled = torch.compile(model, mode=options.mode)
        encoder = torch.compile(model.vision_encoder, mode=options.mode)
        try:
            report["compiled"] = reference.measure(compiled, encoder, picture)  # a batch would take a minute more
        except Exception as error:  # the compiler does not manage every model; the figures above stand all the same
            report["not_compiled"] = str(error).splitlines()[0]
            say(f"torch.compile failed: {report['not_compiled']}")
    if options.device == "cuda":
        report["peak_bytes"] = torch.cuda.max_memory_allocated()
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
