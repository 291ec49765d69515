"""What transformers' video model takes from the package `kernels`, in plain Python: mask NMS and components.

Without that package the reference silently leaves both out; install() puts these in its place.
"""
import numpy as np
import torch
from transformers.models.sam3_video import modeling_sam3_video as video


def generic_nms(ious, scores, threshold, use_iou_matrix=True):
    """Greedy, best first, equal scores in their order; one goes when its overlap with a kept one is greater."""
    assert use_iou_matrix
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    kept, threshold = [], torch.tensor(threshold, dtype=torch.float32)
    for i in order:
        if all(ious[k, i] <= threshold for k in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.long)


def label(mask):
    """8-connected regions of a bool [H, W]: labels from 1 on, and for each pixel the size of its region."""
    height, width = mask.shape
    labels, counts = np.zeros((height, width), np.int32), np.zeros((height, width), np.int32)
    for start in zip(*np.nonzero(mask)):
        if labels[start]:
            continue
        value, region, stack = labels.max() + 1, [], [start]
        labels[start] = value
        while stack:
            y, x = stack.pop()
            region.append((y, x))
            for v in range(max(0, y - 1), min(height, y + 2)):
                for u in range(max(0, x - 1), min(width, x + 2)):
                    if mask[v, u] and not labels[v, u]:
                        labels[v, u] = value
                        stack.append((v, u))
        for place in region:
            counts[place] = len(region)
    return labels, counts


def cc_2d(masks, get_counts=True):
    assert get_counts
    parts = [label(mask[0].numpy() != 0) for mask in masks]
    return tuple(torch.from_numpy(np.stack([part[i] for part in parts]))[:, None] for i in range(2))


class Kernels:
    generic_nms = staticmethod(generic_nms)
    cc_2d = staticmethod(cc_2d)


def install():
    video.cv_utils_kernel = Kernels
