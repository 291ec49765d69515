"""Checksums of resized and normalised images from torchvision, Pillow and transformers.

Run in the reference environment: python resize.py OUTPUT_FOLDER (tests/data/image). The test makes the same noise images.
"""
import sys
import zlib

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tvf
from transformers import Sam3ImageProcessor, SamImageProcessor

SIZES = [  # in width, in height, out width, out height
    (64, 48, 32, 24), (64, 48, 128, 96), (37, 53, 101, 29), (101, 29, 37, 53), (17, 17, 16, 18), (16, 18, 17, 17),
    (1, 1, 9, 5), (9, 5, 1, 1), (1, 40, 7, 13), (40, 1, 13, 7), (50, 30, 50, 11), (50, 30, 50, 77), (50, 30, 21, 30),
    (50, 30, 93, 30), (33, 33, 33, 33), (300, 200, 7, 5), (5, 3, 200, 100), (255, 127, 254, 128), (500, 3, 100, 3),
    (3, 500, 3, 100), (640, 427, 140, 140), (131, 97, 252, 252), (2, 2, 3, 3), (3, 3, 2, 2), (1000, 700, 336, 336),
    (60, 200, 50, 40), (28, 40, 18, 20), (28, 40, 18, 19), (20, 40, 40, 39),
]


def noise(width, height, channels, seed, contrast):
    """Samples that depend on their index and the seed only; `contrast` makes them black or white."""
    i = np.arange(width * height * channels, dtype=np.uint64)
    v = (i * 2654435761 + seed * 40503) & 0xFFFFFFFF
    v = ((v ^ (v >> 15)) * 2246822519) & 0xFFFFFFFF
    v = ((v ^ (v >> 13)) * 3266489917) & 0xFFFFFFFF
    v = (v >> 24).astype(np.uint8)
    if contrast:
        v = np.where(v < 128, 0, 255).astype(np.uint8)
    return v.reshape(height, width, channels)


def torch_resize(tensor, size, mode):
    try:
        return tvf.resize(tensor, list(size[::-1]), interpolation=mode, antialias=True)
    except RuntimeError:
        # torch 2.14 trips over an assertion of its own where 1-pixel sides make the memory format ambiguous. Above
        # 4 channels it takes the plain code with the same arithmetic.
        channels = tensor.shape[0]
        many = tensor.repeat(6, 1, 1).contiguous()
        return tvf.resize(many, list(size[::-1]), interpolation=mode, antialias=True)[:channels]


def with_torchvision(image, size, name):
    mode = InterpolationMode.BILINEAR if name == "bilinear" else InterpolationMode.BICUBIC
    interleaved = torch.from_numpy(image).permute(2, 0, 1)
    planar = torch_resize(interleaved.contiguous(), size, mode)
    assert torch.equal(planar, torch_resize(interleaved, size, mode))
    return planar.permute(1, 2, 0).contiguous().numpy()


def with_pillow(image, size, name):
    mode = Image.Resampling.BILINEAR if name == "bilinear" else Image.Resampling.BICUBIC
    planes = [np.asarray(Image.fromarray(image[:, :, c].copy()).resize(size, mode)) for c in range(image.shape[2])]
    return np.stack(planes, axis=2)


def with_pillow_12(image, size, name):
    """Up to release 12 the horizontal pass came first, always."""
    return with_pillow(with_pillow(image, (size[0], image.shape[0]), name), size, name)


STYLES = (("torchvision", with_torchvision), ("pillow", with_pillow), ("pillow_12", with_pillow_12))


def resize_lines():
    yield "# style filter channels contrast in_width in_height out_width out_height seed crc32"
    seed = 0
    for size in SIZES:
        for style, function in STYLES:
            for name in ("bilinear", "bicubic"):
                for channels in (1, 3, 4):
                    seed += 1
                    contrast = int(seed % 3 == 0)
                    out = function(noise(size[0], size[1], channels, seed, contrast), size[2:], name)
                    yield f"{style} {name} {channels} {contrast} {' '.join(map(str, size))} {seed} {zlib.crc32(out.tobytes())}"


def processor_lines():
    yield "# processor in_width in_height longest_or_side out_width out_height seed crc32 of float32 HWC"
    for seed, (width, height, side) in enumerate([(61, 47, 70), (90, 133, 56), (200, 150, 112), (70, 70, 70)]):
        image = Image.fromarray(noise(width, height, 3, seed, 0))
        sam3 = Sam3ImageProcessor(size={"height": side, "width": side})
        sam1 = SamImageProcessor(size={"longest_edge": side}, pad_size={"height": side + 8, "width": side + 8})
        for name, processor in (("sam3", sam3), ("sam1", sam1)):
            values = processor(image, return_tensors="pt")["pixel_values"][0].permute(1, 2, 0).contiguous().numpy()
            assert values.dtype == np.float32
            yield f"{name} {width} {height} {side} {values.shape[1]} {values.shape[0]} {seed} {zlib.crc32(values.tobytes())}"


if __name__ == "__main__":
    for file, lines in (("resize.txt", resize_lines()), ("processor.txt", processor_lines())):
        with open(f"{sys.argv[1]}/{file}", "w") as out:
            out.write("\n".join(lines) + "\n")
