"""Losses and overlaps of masks and boxes."""
import torch
import torch.nn.functional as F


def cxcywh_to_xyxy(b):
    c, s = b[..., :2], b[..., 2:]
    return torch.cat([c - s / 2, c + s / 2], -1)


def xyxy_to_cxcywh(b):
    return torch.cat([(b[..., :2] + b[..., 2:]) / 2, b[..., 2:] - b[..., :2]], -1)


def area(size):
    """[..., 2] -> [...]; not prod(): its gradient waits for the GPU to look for zeros"""
    size = size.clamp(min=0)
    return size[..., 0] * size[..., 1]


def box_iou_giou(a, b):
    """Elementwise over broadcast shapes [..., 4] xyxy -> IoU, generalised IoU."""
    inter = area(torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2]))
    union = area(a[..., 2:] - a[..., :2]) + area(b[..., 2:] - b[..., :2]) - inter
    hull = area(torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).clamp(min=1e-7)
    iou = inter / union.clamp(min=1e-7)
    return iou, iou - (hull - union) / hull


def near(boxes, size):
    """Weights [..., size, size] that sum to 1 and lie mostly on a neighbourhood of the boxes [..., 4] xyxy."""
    c = (torch.arange(size, device=boxes.device) + 0.5) / size
    margin = (boxes[..., 2:] - boxes[..., :2]) * 0.3 + 0.02
    lo, hi = (boxes[..., :2] - margin)[..., None], (boxes[..., 2:] + margin)[..., None]
    inside = ((c >= lo) & (c <= hi)).float()                                     # ..., 2, size
    weight = inside[..., 1, :, None] * inside[..., 0, None, :] + 0.03
    return weight / weight.sum((-1, -2), keepdim=True)


def mask_losses(logits, target, weight):
    """logits, target [..., H, W]; weight as from near() -> cross entropy, dice, each [...]"""
    bce = (F.binary_cross_entropy_with_logits(logits, target, reduction="none") * weight).sum((-1, -2))
    p = logits.sigmoid()
    dice = 1 - (2 * (p * target).sum((-1, -2)) + 1) / (p.sum((-1, -2)) + target.sum((-1, -2)) + 1)
    return bce, dice


def mean(x, weight):
    """Mean of x over the items that count; 0 when none does."""
    return (x * weight).sum() / weight.sum().clamp(min=1)


def hard_iou(logits, target):
    a, b = logits > 0, target > 0.5
    inter = (a & b).sum((-1, -2)).float()
    return inter / (a | b).sum((-1, -2)).float().clamp(min=1)
