"""Results of PyTorch's and torchvision's operators, for the tests of the runtime's operators.

    python tests/goldens/operators.py tests/data/runtime/operators.bin

The file is a list of records, little endian: 16 bytes name (zero padded), i32 number of parameters, f32 parameters,
i32 number of results, f32 results. Inputs are not stored: tests/support/operator_goldens.h makes the same numbers.
Of a large result only every n-th element is stored. Maps are [N, H, W, C], as in the runtime.
"""

import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

MASK = 0xFFFFFFFF


def numbers(count, seed, low=-1.0, high=1.0):
    """The hash of the position as a multiple of 2^-24 in [0, 1), stretched in float to [low, high)."""
    x = (np.arange(count, dtype=np.uint64) + 1 + seed * 7919) * 2654435761 & MASK
    x = (x ^ (x >> 15)) * 2246822519 & MASK
    x = x ^ (x >> 13)
    unit = (x >> 8).astype(np.float32) * np.float32(2.0**-24)
    return torch.from_numpy(unit * np.float32(high - low) + np.float32(low))


def tensor(*shape, seed, low=-1.0, high=1.0):
    return numbers(int(np.prod(shape)), seed, low, high).reshape(shape)


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


class Writer:
    def __init__(self, path):
        self.file = open(path, "wb")

    def add(self, name, parameters, result):
        values = result.to(torch.float32).contiguous().flatten().numpy()
        self.file.write(struct.pack("<16si", name.encode(), len(parameters)))
        self.file.write(np.asarray(parameters, dtype="<f4").tobytes())
        self.file.write(struct.pack("<i", len(values)))
        self.file.write(values.astype("<f4").tobytes())


# No taller map of width 1: there PyTorch 2.14 with antialias repeats the first row.
SIZES = [  # height, width -> height, width, channels
    (1, 1, 1, 1, 3), (1, 1, 5, 4, 2), (5, 4, 1, 1, 2), (2, 1, 1, 7, 2), (1, 9, 3, 2, 1), (3, 3, 7, 7, 1),
    (7, 7, 3, 3, 1), (5, 8, 13, 21, 2), (13, 21, 5, 8, 3), (8, 8, 16, 16, 2), (16, 16, 8, 8, 2), (9, 9, 18, 9, 1),
    (9, 9, 9, 18, 1), (10, 12, 11, 13, 3), (11, 13, 10, 12, 3), (16, 15, 16, 15, 2), (6, 40, 7, 3, 1),
    (40, 6, 3, 7, 5), (33, 17, 2, 19, 2), (24, 24, 21, 21, 1), (14, 14, 24, 24, 2), (64, 64, 27, 31, 1),
]  # fmt: skip
LARGE_SIZES = [(288, 288, 1008, 1008, 1), (256, 256, 719, 1281, 1), (72, 72, 144, 144, 4), (300, 217, 100, 37, 2)]


def write_resize(out):
    for n, (h, w, ho, wo, c) in enumerate(SIZES + LARGE_SIZES):
        every = 1 if n < len(SIZES) else 997
        x = channels_first(tensor(2, h, w, c, seed=n))
        for name, options in [
            ("nearest", {"mode": "nearest"}),
            ("bilinear", {"mode": "bilinear", "align_corners": False}),
            ("antialias", {"mode": "bilinear", "align_corners": False, "antialias": True}),
        ]:
            y = channels_last(F.interpolate(x, size=(ho, wo), **options)).flatten()[::every]
            out.add(name, [n, 2, h, w, c, ho, wo, every], y)
    # Which pixel `nearest` takes: an axis of every length.
    for size_in, size_out in [(72, 144), (288, 1000), (37, 101), (101, 37), (1008, 288), (3, 1000), (49, 47)]:
        ramp = torch.arange(size_in, dtype=torch.float32)
        y = F.interpolate(ramp.reshape(1, 1, 1, -1), size=(1, size_out), mode="nearest")
        out.add("nearest_axis", [size_in, size_out], y)


BOXES = [  # image, x0, y0, x1, y1 in pixels of the map
    (0, 2.25, 3.5, 11.75, 9.0), (1, 0, 0, 24, 20), (0, -6.5, -4, 5.5, 3.25), (1, 18.5, 15, 31, 27), (0, 40, 40, 50, 60),
    (1, -20, -20, -5, -3), (0, 7.3, 8.1, 7.3, 8.1), (1, 12, 5, 12.4, 5.3), (0, 9, 9, 4, 3), (1, -100, -100, 200, 150),
    (0, 23.5, 19.5, 24.5, 20.5),
]  # fmt: skip


def write_roi_align(out):
    x = channels_first(tensor(2, 20, 24, 3, seed=100))
    for height, width, scale, ratio, aligned in [
        (7, 7, 1.0, -1, False),
        (7, 7, 1.0, -1, True),
        (3, 5, 0.5, 2, True),
        (2, 2, 1.0, 3, False),
        (1, 1, 0.25, 0, True),
    ]:
        boxes = torch.tensor(BOXES) / torch.tensor([1.0, scale, scale, scale, scale])
        y = torchvision.ops.roi_align(x, boxes, (height, width), scale, ratio, aligned)
        out.add("roi_align", [height, width, scale, ratio, aligned, *boxes.flatten().tolist()], channels_last(y))


def write_grid_sample(out):
    for n, (h, w, c) in enumerate([(9, 13, 4), (1, 1, 3), (16, 5, 1)]):
        x = channels_first(tensor(2, h, w, c, seed=200 + n))
        grid = tensor(2, 40, 2, seed=300 + n, low=-1.25, high=1.25)
        y = F.grid_sample(x, grid.unsqueeze(2), mode="bilinear", padding_mode="zeros", align_corners=False)
        out.add("grid_sample", [n, h, w, c], y.squeeze(3).permute(0, 2, 1))


def write_max_pool(out):
    cases = [(8, 8, 3, 2, 2), (9, 11, 5, 3, 2), (7, 5, 1, 3, 1), (6, 9, 4, 1, 2)]
    for n, (h, w, c, kernel, stride) in enumerate(cases):
        x = channels_first(tensor(2, h, w, c, seed=400 + n))
        out.add("max_pool", [n, h, w, c, kernel, stride], channels_last(F.max_pool2d(x, kernel, stride)))


def inverse_sigmoid(x, eps=1e-3):
    x = x.clamp(min=0, max=1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


def write_unary(out):
    """In the order of the runtime's enum Unary."""
    functions = [
        (F.relu, -3, 3), (F.gelu, -8, 8), (torch.sigmoid, -20, 20), (torch.tanh, -6, 6), (F.silu, -12, 12),
        (torch.exp, -20, 20), (torch.log, 2**-10, 50), (torch.sqrt, 0, 50), (torch.sin, -30, 30), (torch.cos, -30, 30),
        (torch.abs, -3, 3), (torch.neg, -3, 3), (inverse_sigmoid, -0.25, 1.25),
        (lambda x: torch.sign(x) * torch.log2(torch.abs(x) + 1.0), -20, 20),
    ]  # fmt: skip
    for n, (function, low, high) in enumerate(functions):
        out.add("unary", [n, 500 + n, low, high], function(numbers(300, 500 + n, low, high)))


def write_sine_embed(out):
    for n, (dim, temperature, scale) in enumerate([(128, 10000, 2 * np.pi), (6, 20, 1.0), (2, 10000, 3.5)]):
        x = numbers(12, 600 + n, -0.5, 1.5)
        index = torch.arange(dim, dtype=torch.float32)
        period = temperature ** (2 * torch.div(index, 2, rounding_mode="floor") / dim)
        angle = (x * scale)[:, None] / period
        y = torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=2).flatten(1)
        out.add("sine_embed", [n, dim, temperature, scale], y)


def main():
    out = Writer(sys.argv[1])
    write_resize(out)
    write_roi_align(out)
    write_grid_sample(out)
    write_max_pool(out)
    write_unary(out)
    write_sine_embed(out)


if __name__ == "__main__":
    main()
