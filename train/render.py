"""From attributes to pixels and masks: pure functions of tensors, so that they can be compiled.

Coordinates are in [0, 1] of the image side, x right, y down. Later objects lie on top of earlier ones.
"""
import math

import torch
import torch.nn.functional as F

from grammar import SHAPES
from shapes import EXTENT, TEXELS

EMPTY_BOX = (0.45, 0.55)  # corners of the box of an object that cannot be seen


def axis(size, device):
    return (torch.arange(size, device=device) + 0.5) / size


def layers(a, atlas, size):
    """Coverage of every object alone, and the object's own coordinates (unit = radius), all [F,N,size,size]."""
    c = axis(size, atlas.device)
    cos, sin = torch.cos(a["theta"]) / a["r"], torch.sin(a["theta"]) / a["r"]
    dx, dy = c - a["cx"][..., None], c - a["cy"][..., None]
    u = (dx * cos[..., None])[:, :, None, :] + (dy * sin[..., None])[:, :, :, None]
    v = (-dx * sin[..., None])[:, :, None, :] + (dy * cos[..., None])[:, :, :, None]
    # the textures lie under each other: stay half a texel inside one's own
    edge = 1 - 1 / TEXELS
    row = (v / EXTENT).clamp(-edge, edge) + 1 + 2 * a["shape"][..., None, None]
    grid = torch.stack([(u / EXTENT).clamp(-edge, edge), row / len(SHAPES) - 1], -1)
    frames, n = a["r"].shape
    distance = F.grid_sample(atlas[None, None], grid.view(1, frames * n * size, size, 2), mode="bilinear",
                             padding_mode="border", align_corners=False).view(frames, n, size, size)
    pixels = distance * (a["r"] * size)[..., None, None]
    return (0.5 - pixels).clamp(0, 1) * a["valid"].float()[..., None, None], u, v


def visible(alpha):
    """Coverage that is left when nearer objects hide farther ones, [F,N,...], and of the background, [F,...]."""
    clear = torch.ones_like(alpha[:, 0])
    seen = []
    for i in reversed(range(alpha.shape[1])):
        seen.append(alpha[:, i] * clear)
        clear = clear * (1 - alpha[:, i])
    return torch.stack(seen[::-1], 1), clear


def second_colour(a, u, v, size):
    """How much of the second colour: stripes (fill 1) or dots (fill 2), in the object's own coordinates."""
    radius = a["r"] * size
    # fewer pixels per period would be unreadable; about four periods across an object
    period = (radius * 0.5).clamp(min=7.0 if size >= 300 else 4.0)
    rate, phase, period = ((x[..., None, None]) for x in (radius / period, a["phase"], period))
    s, t = u * rate + phase, v * rate + phase
    stripe = (0.5 + torch.sin(2 * math.pi * s) * period / 4).clamp(0, 1)
    ds, dt = s - torch.floor(s) - 0.5, t - torch.floor(t) - 0.5
    dot = (0.5 + (0.33 - (ds * ds + dt * dt).sqrt()) * period).clamp(0, 1)
    fill = a["fill"][..., None, None]
    return stripe * (fill == 1) + dot * (fill == 2)


def backdrop(b, size):
    """The background [F,3,size,size] as the camera, moved by b["camera"] [F,2], sees it."""
    c = axis(size, b["camera"].device)
    x = (c - b["camera"][:, :1]).view(-1, 1, 1, size)
    y = (c - b["camera"][:, 1:]).view(-1, 1, size, 1)
    along = (x - 0.5) * torch.cos(b["slope"]) + (y - 0.5) * torch.sin(b["slope"])
    picture = b["base"] + b["gradient"] * along * 1.4
    wide = torch.stack([x.expand(-1, 1, size, size)[:, 0], y.expand(-1, 1, size, size)[:, 0]], -1) * 2 - 1
    for texture in b["textures"]:
        picture = picture + F.grid_sample(texture, wide, mode="bilinear", padding_mode="reflection",
                                          align_corners=False)
    u = (x * torch.cos(b["turn"]) + y * torch.sin(b["turn"])) * b["rate"]
    v = (y * torch.cos(b["turn"]) - x * torch.sin(b["turn"])) * b["rate"]
    wave = torch.sin(u) * torch.where(b["checks"], torch.sin(v), 1.0)
    picture = (picture + b["wave"] * wave.clamp(-0.6, 0.6)).clamp(0.16, 0.84)
    for line in b["lines"]:
        off = ((x - 0.5) * torch.cos(line["turn"]) + (y - 0.5) * torch.sin(line["turn"]) - line["off"]).abs() * size
        a = (line["width"] - off + 0.5).clamp(0, 1) * line["strength"]
        picture = picture * (1 - a) + a * line["colour"]
    return picture


def extent(flag):
    """First and one past the last True along the last axis, in pixels."""
    size = flag.shape[-1]
    i = torch.arange(size, device=flag.device)
    return torch.where(flag, i, size).amin(-1), torch.where(flag, i, -1).amax(-1) + 1


def draw(a, b, atlas, size, low):
    """Attributes a [F,N] on the background b [F].

    -> image [F,3,size,size] in -1..1, vis [F,N,low,low] coverage on the mask grid, full [F,N,size,size] bool,
       boxes [F,N,4] xyxy of the visible part, area [F,N] in pixels, frac [F,N] the visible share
    """
    alpha, u, v = layers(a, atlas, size)
    second = second_colour(a, u, v, size)
    seen, clear = visible(alpha)
    image = backdrop(b, size) * clear[:, None]
    for i in range(alpha.shape[1]):
        c1, c2 = a["c1"][:, i, :, None, None], a["c2"][:, i, :, None, None]
        image = image + seen[:, i, None] * (c1 + second[:, i, None] * (c2 - c1))
    light = F.interpolate(b["light"], size=(size, size), mode="bilinear", align_corners=True)
    image = image * light + b["grain"] * b["noise"]
    image = (image.clamp(0, 1) * 255).round() / 255

    full = seen > 0.5
    x0, x1 = extent(full.any(-2))
    y0, y1 = extent(full.any(-1))
    area = full.sum((-1, -2)).float()
    some = area > 0
    lo, hi = EMPTY_BOX
    boxes = torch.stack([torch.where(some, x0 / size, lo), torch.where(some, y0 / size, lo),
                         torch.where(some, x1 / size, hi), torch.where(some, y1 / size, hi)], -1)
    frac = seen.sum((-1, -2)) / alpha.sum((-1, -2)).clamp(min=1)
    vis, _ = visible(layers(a, atlas, low)[0])
    return dict(image=image * 2 - 1, vis=vis, full=full, boxes=boxes, area=area, frac=frac)
