"""What transformers' video model takes from the package `kernels`, in plain Python: mask NMS and components.

Without that package the reference silently leaves both out; install() puts these in its place.
"""
import numpy as np
import torch
from scipy import ndimage
from transformers.models.sam3_video import modeling_sam3_video as video


def generic_nms(ious, scores, threshold, use_iou_matrix=True):
    """Greedy, best first, equal scores in their order; one goes when its overlap with a kept one is greater."""
    assert use_iou_matrix
    ious = ious.cpu()
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    kept, threshold = [], torch.tensor(threshold, dtype=torch.float32)
    for i in order:
        if all(ious[k][i] <= threshold for k in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.long, device=scores.device)


def label(mask):
    """8-connected regions of a bool [H, W]: labels from 1 on, and for each pixel the size of its region."""
    labels, _ = ndimage.label(mask, structure=np.ones((3, 3)))
    counts = np.bincount(labels.ravel())
    counts[0] = 0
    return labels.astype(np.int32), counts[labels].astype(np.int32)


def cc_2d(masks, get_counts=True):
    assert get_counts
    parts = [label(mask[0].cpu().numpy() != 0) for mask in masks]
    return tuple(torch.from_numpy(np.stack([part[i] for part in parts]))[:, None].to(masks.device) for i in range(2))


class Kernels:
    generic_nms = staticmethod(generic_nms)
    cc_2d = staticmethod(cc_2d)


def install():
    video.cv_utils_kernel = Kernels
