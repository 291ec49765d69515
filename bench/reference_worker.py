"""The reference's side of bench/against-reference; runs in an environment with PyTorch and transformers.

    reference_worker.py [--tuned]

Without --tuned PyTorch is as its users have it, with OPENBLAS_NUM_THREADS=1. Loads a model once and then answers requests, one
JSON object a line on stdin and stdout:

    {"job": "phrase", "model": FOLDER, "image": FILE, "text": T, "second": T2, "threshold": 0.5}
    {"job": "click",  "model": FOLDER, "image": FILE}
    {"job": "video",  "model": FOLDER, "image": FILE, "objects": 3, "frames": 1}
    {"job": "sam1",   "model": FOLDER, "image": FILE}

The answer has the seconds of what `sam3 bench --json` calls waits, and the most memory since the model was asked for. The clock
runs from the decoded picture to masks of its size: pre- and post-processing count, reading files does not.
"""
import ctypes
import gc
import json
import os
import statistics
import sys
import time

CORES = len(os.sched_getaffinity(0))
TUNED = sys.argv[1:] == ["--tuned"]
os.environ["OPENBLAS_NUM_THREADS"] = str(CORES) if TUNED else "1"  # it cannot be raised later; see share_cores
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import (AutoTokenizer, Sam3Model, Sam3Processor, Sam3TrackerModel, Sam3TrackerProcessor,
                          Sam3TrackerVideoModel, Sam3TrackerVideoProcessor, SamModel, SamProcessor)
from transformers.models.sam.image_processing_sam import SamImageProcessor
from transformers.models.sam2_video.video_processing_sam2_video import Sam2VideoVideoProcessor
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

CLICKS = 5  # a click is short: several a measurement, as in the program
LARGE_ROWS, LARGE_WEIGHTS = 1000, 1_000_000  # a linear layer that gains from all cores: those of the image encoder
PIXELS_PER_FRAME = 8  # how far the picture moves from frame to frame, as in the program


def loaded_openblas():
    """The OpenBLAS that PyTorch multiplies with, or nothing where it has another library."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split()[-1] for line in file if "/libopenblas" in line}
    libraries = (ctypes.CDLL(path) for path in sorted(paths))
    return next((library for library in libraries if hasattr(library, "openblas_set_num_threads")), None)


def share_cores():
    """Makes the reference faster than its users have it: OpenBLAS has all cores during large linear layers and one otherwise. PyTorch's
    attention calls it from threads of its own, and small products lose more by waiting for threads than they gain. Answers whether it
    was done."""
    library = loaded_openblas()
    if library is None:
        return False
    linear = torch.nn.functional.linear
    library.openblas_set_num_threads(1)

    def linear_on_all_cores(x, weight, *bias, **options):
        if x.numel() < LARGE_ROWS * x.shape[-1] or weight.numel() < LARGE_WEIGHTS:
            return linear(x, weight, *bias, **options)
        library.openblas_set_num_threads(CORES)
        try:
            return linear(x, weight, *bias, **options)
        finally:
            library.openblas_set_num_threads(1)

    torch.nn.functional.linear = linear_on_all_cores
    return True


def load(model_class, folder):
    model = model_class.from_pretrained(folder, dtype=torch.float32).eval()
    for weights in model.parameters():
        weights.sum()  # the file is mapped: without this the first measurement would read it from the disk
    return model


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def read_picture(path):
    return np.asarray(Image.open(path).convert("RGB"))


class Phrases:
    def __init__(self, folder):
        self.model = load(Sam3Model, folder)
        self.processor = Sam3Processor(Sam3ImageProcessor.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))

    def find(self, vision, text, size, threshold):
        tokens = self.processor(text=text, return_tensors="pt")
        output = self.model(vision_embeds=vision, **tokens)
        found = self.processor.post_process_instance_segmentation(output, threshold=threshold, target_sizes=[size])
        return len(found[0]["scores"])

    def measure(self, request):
        picture = read_picture(request["image"])
        size, threshold = picture.shape[:2], request["threshold"]

        def encode():
            pixels = self.processor(images=picture, return_tensors="pt")["pixel_values"]
            return self.model.get_vision_features(pixel_values=pixels)

        encoding, vision = timed(encode)
        first, _ = timed(lambda: self.find(vision, request["text"], size, threshold))
        second, found = timed(lambda: self.find(vision, request["second"], size, threshold))
        return {"seconds": {"image_phrase": encoding + first, "second_phrase": second}, "detections": found}


class Clicks:
    def __init__(self, folder):
        self.model = load(Sam3TrackerModel, folder)
        self.processor = Sam3TrackerProcessor(Sam3ImageProcessor.from_pretrained(folder))
        self.encoded = {}  # the picture's features: what is measured begins after encoding

    def embeddings(self, image):
        if image not in self.encoded:
            picture = read_picture(image)
            pixels = self.processor(images=picture, return_tensors="pt")["pixel_values"]
            self.encoded[image] = (picture.shape[:2], self.model.get_image_embeddings(pixels))
        return self.encoded[image]

    def click(self, embeddings, size, x):
        prompt = self.processor(input_points=[[[[x, size[0] * 0.5]]]], input_labels=[[[1]]], original_sizes=[size],
                                return_tensors="pt")
        output = self.model(image_embeddings=embeddings, input_points=prompt["input_points"],
                            input_labels=prompt["input_labels"], multimask_output=False)
        return self.processor.post_process_masks(output.pred_masks, [size])

    def measure(self, request):
        size, embeddings = self.embeddings(request["image"])
        seconds = []
        for i in range(CLICKS):
            own = [e.clone() for e in embeddings]  # the model writes into the list
            seconds.append(timed(lambda: self.click(own, size, size[1] * (0.3 + 0.1 * i)))[0])
        return {"seconds": {"next_click": statistics.median(seconds)}}


class Video:
    def __init__(self, folder):
        self.model = load(Sam3TrackerVideoModel, folder)
        side = {"height": self.model.config.image_size, "width": self.model.config.image_size}
        self.processor = Sam3TrackerVideoProcessor(
            Sam3ImageProcessor(size=side), Sam2VideoVideoProcessor(size=side, image_mean=[0.5] * 3, image_std=[0.5] * 3))

    def click_objects(self, session, size, count):
        points = [[[size[1] * (i + 1) / (count + 1), size[0] * 0.5]] for i in range(count)]
        self.processor.add_inputs_to_inference_session(
            session, frame_idx=0, obj_ids=list(range(1, count + 1)), input_points=[points],
            input_labels=[[[1]] * count], original_size=size)

    def follow(self, session, picture, count=0):
        """The next frame as a stream gives it: nothing of it is prepared before."""
        pixels = self.processor(images=picture, return_tensors="pt")["pixel_values"][0]
        size = picture.shape[:2]
        if count:
            self.click_objects(session, size, count)
        output = self.model(inference_session=session, frame=pixels)
        return self.processor.post_process_masks([output.pred_masks], [size])

    def measure(self, request):
        picture = read_picture(request["image"])
        session = self.processor.init_video_session()
        self.follow(session, picture, request["objects"])
        seconds = []
        for i in range(request["frames"]):
            moved = np.roll(picture, PIXELS_PER_FRAME * (i + 1), axis=1)
            seconds.append(timed(lambda: self.follow(session, moved))[0])
        return {"seconds": {"video_frame": statistics.median(seconds)}}


class Sam1:
    def __init__(self, folder):
        self.model = load(SamModel, folder)
        self.processor = SamProcessor(SamImageProcessor.from_pretrained(folder))

    def segment(self, picture):
        height, width = picture.shape[:2]
        inputs = self.processor(images=picture, input_points=[[[[width * 0.5, height * 0.5]]]], input_labels=[[[1]]],
                                return_tensors="pt")
        output = self.model(pixel_values=inputs["pixel_values"], input_points=inputs["input_points"],
                            input_labels=inputs["input_labels"], multimask_output=False)
        return self.processor.post_process_masks(output.pred_masks, inputs["original_sizes"],
                                                 inputs["reshaped_input_sizes"])

    def measure(self, request):
        picture = read_picture(request["image"])
        return {"seconds": {"image_click": timed(lambda: self.segment(picture))[0]}}


JOBS = {"phrase": Phrases, "click": Clicks, "video": Video, "sam1": Sam1}


def forget_peak():
    """Gives freed memory back and lets the system count the peak from here on."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@torch.inference_mode()
def serve(requests, answers, openblas_threads):
    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"torch": torch.__version__, "transformers": transformers.__version__, "threads": torch.get_num_threads(),
            "openblas_threads": openblas_threads})
    loaded, worker = None, None
    for line in requests:
        request = json.loads(line)
        if loaded != (request["job"], request["model"]):
            worker = None  # one model at a time, or its memory would count for the next
            forget_peak()
            worker = JOBS[request["job"]](request["model"])
            loaded = (request["job"], request["model"])
        answer({**worker.measure(request), "peak_bytes": peak_bytes()})


def main():
    # Libraries that print must not write into the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(CORES)
    tuned = TUNED and share_cores()
    serve(sys.stdin, answers, f"{CORES} in large linear layers, else 1" if tuned else os.environ["OPENBLAS_NUM_THREADS"])


if __name__ == "__main__":
    main()
