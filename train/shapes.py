"""The shapes as textures of signed distance, and the palette."""
import math

import torch

from grammar import SHAPES

EXTENT = 1.4  # a texture covers [-EXTENT, EXTENT] in units of the object's radius
TEXELS = 256

PALETTE = torch.tensor([
    [0.88, 0.10, 0.12],  # red
    [0.12, 0.62, 0.20],  # green
    [0.12, 0.26, 0.88],  # blue
    [0.96, 0.88, 0.12],  # yellow
    [0.97, 0.50, 0.06],  # orange
    [0.50, 0.14, 0.70],  # purple
    [0.98, 0.52, 0.74],  # pink
    [0.10, 0.80, 0.84],  # cyan
    [0.97, 0.97, 0.97],  # white
    [0.05, 0.05, 0.06],  # black
])


def polygon_distance(corners, points):
    """Signed distance of points [..., 2] to a polygon, negative inside (even-odd rule)."""
    corners = torch.as_tensor(corners, dtype=torch.float64)
    nearest = torch.full(points.shape[:-1], 1e9, dtype=torch.float64)
    sign = torch.ones(points.shape[:-1], dtype=torch.float64)
    for i in range(len(corners)):
        a, b = corners[i], corners[i - 1]
        edge, to = b - a, points - a
        t = ((to * edge).sum(-1) / (edge * edge).sum()).clamp(0, 1)
        off = to - t[..., None] * edge
        nearest = torch.minimum(nearest, (off * off).sum(-1))
        above, below = points[..., 1] >= a[1], points[..., 1] < b[1]
        left = edge[0] * to[..., 1] > edge[1] * to[..., 0]
        crossed = (above & below & left) | (~above & ~below & ~left)
        sign = torch.where(crossed, -sign, sign)
    return sign * nearest.sqrt()


def regular(n, radius):
    turn = [-math.pi / 2 + 2 * math.pi * i / n for i in range(n)]
    return [(radius * math.cos(t), radius * math.sin(t)) for t in turn]


def star():
    turn = [-math.pi / 2 + math.pi * i / 5 for i in range(10)]
    return [((1.1 if i % 2 == 0 else 0.46) * math.cos(t), (1.1 if i % 2 == 0 else 0.46) * math.sin(t))
            for i, t in enumerate(turn)]


def cross(w=0.31, h=1.0):
    return [(-w, -h), (w, -h), (w, -w), (h, -w), (h, w), (w, w), (w, h), (-w, h), (-w, w), (-h, w), (-h, -w), (-w, -w)]


def heart():
    turn = [2 * math.pi * i / 96 for i in range(96)]
    return [(16 * math.sin(t) ** 3 / 16.5,
             -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 16.5) for t in turn]


def make_atlas():
    """[len(SHAPES) * TEXELS, TEXELS] float32: one texture of signed distance under the other, unit = radius."""
    c = (torch.arange(TEXELS, dtype=torch.float64) + 0.5) / TEXELS * 2 * EXTENT - EXTENT
    y, x = torch.meshgrid(c, c, indexing="ij")
    p = torch.stack([x, y], -1)
    radius = (x * x + y * y).sqrt()
    oval = [(1.1 * math.cos(2 * math.pi * i / 96), 0.6 * math.sin(2 * math.pi * i / 96)) for i in range(96)]
    bite = ((x - 0.5) ** 2 + y * y).sqrt() - 0.84
    distance = {
        "circle": radius - 0.92,
        "square": polygon_distance([(-.8, -.8), (.8, -.8), (.8, .8), (-.8, .8)], p),
        "triangle": polygon_distance(regular(3, 1.1), p),
        "star": polygon_distance(star(), p),
        "ring": (radius - 0.72).abs() - 0.24,
        "cross": polygon_distance(cross(), p),
        "heart": polygon_distance(heart(), p),
        "ellipse": polygon_distance(oval, p),
        "hexagon": polygon_distance(regular(6, 1.0), p),
        "crescent": torch.maximum(radius - 1.0, -bite),
    }
    return torch.cat([distance[s] for s in SHAPES]).float()
