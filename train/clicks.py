"""Prompts for the tracker, drawn from the truth: clicks, corrections, boxes and rough masks."""
import torch
import torch.nn.functional as F


def click_in(weight, size, rng):
    """weight [n,low,low], nonnegative -> a place [n,2] in pixels (the image's centre where all is 0)"""
    n, low, _ = weight.shape
    flat = weight.flatten(1)
    i = rng.pick(flat)
    cell = torch.stack([i % low, torch.div(i, low, rounding_mode="floor")], -1).float()
    place = (cell + rng.rand(n, 2, lo=0.2, hi=0.8)) * (size / low) - 0.5
    return torch.where((flat.sum(1) > 0)[:, None], place, size / 2).clamp(0, size - 1)


def inner_click(vis, size, rng):
    """A click well inside the visible part, mostly."""
    v = (vis > 0.5).float()
    core = F.avg_pool2d(v[:, None], 5, 1, 2)[:, 0] * v
    deep = core ** 4
    loose = rng.bern(0.3, v.shape[0], 1, 1)
    return click_in(torch.where(loose, v * (deep > 0.1) + 1e-3 * v, deep), size, rng)


def correcting_click(logits, vis, size, rng):
    """Inside what is missing (label 1) or inside what is too much (label 0), whichever is more."""
    truth, mine = vis > 0.5, logits > 0
    missing, extra = (truth & ~mine).float(), (mine & ~truth).float()
    missing = F.avg_pool2d(missing[:, None], 3, 1, 1)[:, 0] ** 2 * missing
    extra = F.avg_pool2d(extra[:, None], 3, 1, 1)[:, 0] ** 2 * extra
    add = missing.flatten(1).sum(1) >= extra.flatten(1).sum(1)
    weight = torch.where(add[:, None, None], missing, extra)
    nothing = weight.flatten(1).sum(1) <= 0
    weight = torch.where(nothing[:, None, None], truth.float(), weight)
    return click_in(weight, size, rng), (add | nothing).long()


def loose_box(box, size, rng):
    """box [n,4] xyxy in 0..1 -> its two corners [n,2,2] in pixels, as a hand would draw them"""
    b = box * size
    b = b + 0.05 * rng.randn(*b.shape) * (b[:, 2:] - b[:, :2]).repeat(1, 2)
    return b.clamp(0, size).view(-1, 2, 2)


def rough_mask(vis, rng):
    """Binary masks as a detector would hand over: some a little too large, too small or ragged; never empty."""
    n, low, _ = vis.shape
    grown = F.max_pool2d(vis[:, None], 3, 1, 1)[:, 0]
    shrunk = -F.max_pool2d(-vis[:, None], 3, 1, 1)[:, 0]
    waves = F.interpolate(rng.rand(n, 1, low // 3, low // 3), size=(low, low), mode="bilinear", align_corners=False)
    ragged = vis + 0.8 * (waves[:, 0] - 0.5) * (grown > 0.5) * (shrunk < 0.5)
    u = rng.rand(n, 1, 1)
    m = torch.where(u < 0.12, grown, torch.where(u < 0.2, shrunk, torch.where(u < 0.4, ragged, vis)))
    m = (m > 0.5).float()
    return torch.where(m.sum((-1, -2), keepdim=True) > 0, m, (vis > 0.5).float())
