"""The metrics, in the plainest way: masks are boolean numpy arrays, pairs are found greedily, best first."""
import numpy as np


# ---- run lengths, as COCO has them: column by column, the first run is background ---------------------------
def encode_rle(mask):
    flat = np.asarray(mask, dtype=np.uint8).flatten(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    return dict(size=list(mask.shape), counts=([0] if flat[0] else []) + runs)


def decode_rle(rle):
    runs = np.asarray(rle["counts"])
    flat = np.repeat(np.arange(len(runs)) % 2, runs)
    return flat.astype(bool).reshape(rle["size"], order="F")


# ---- overlaps ------------------------------------------------------------------------------------------------
def iou(a, b):
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 1.0


def pairs(predicted, truth, threshold):
    """-> [(i, j, overlap)]: every mask at most once, best overlaps first, none below the threshold"""
    found = sorted(((iou(p, t), i, j) for i, p in enumerate(predicted) for j, t in enumerate(truth)), reverse=True)
    used_p, used_t, out = set(), set(), []
    for overlap, i, j in found:
        if overlap >= threshold and i not in used_p and j not in used_t:
            used_p.add(i)
            used_t.add(j)
            out.append((i, j, overlap))
    return out


class Finding:
    """Precision, recall and F1 of masks at IoU 0.5 over many prompts, and whether absent concepts stay empty."""

    def __init__(self):
        self.right = self.extra = self.missed = self.prompts = self.absent = self.empty = 0
        self.overlap = 0.0

    def add(self, predicted, truth):
        found = pairs(predicted, truth, 0.5)
        self.right += len(found)
        self.extra += len(predicted) - len(found)
        self.missed += len(truth) - len(found)
        self.overlap += sum(o for _, _, o in found)
        self.prompts += 1
        if not truth:
            self.absent += 1
            self.empty += not predicted

    def result(self):
        precision = self.right / max(self.right + self.extra, 1)
        recall = self.right / max(self.right + self.missed, 1)
        out = dict(f1=2 * precision * recall / max(precision + recall, 1e-9), precision=precision, recall=recall,
                   mean_iou=self.overlap / max(self.right, 1), prompts=self.prompts, objects=self.right + self.missed)
        if self.absent:
            out.update(absent_recognised=self.empty / self.absent, absent_prompts=self.absent)
        return out


# ---- video ---------------------------------------------------------------------------------------------------
def track_j(predicted, truth):
    """Mean IoU over the frames; a frame where both are empty counts 1."""
    return float(np.mean([iou(p, t) for p, t in zip(predicted, truth)]))


def match_tracks(predicted, truth):
    """predicted {id: [T masks]}, truth [[T masks]] -> [J of each true track], extra tracks"""
    found = sorted(((track_j(p, t), i, j) for i, p in predicted.items() for j, t in enumerate(truth)), reverse=True)
    used, out = set(), {}
    for j_value, i, j in found:
        if j_value > 0 and i not in used and j not in out:
            used.add(i)
            out[j] = j_value
    return [out.get(j, 0.0) for j in range(len(truth))], len(predicted) - len(used)


def switches(predicted, truth):
    """For each true track, how often another predicted one takes over: per frame the one with the best IoU counts,
    from 0.5 on."""
    out = []
    for track in truth:
        holders = []
        for t, mask in enumerate(track):
            overlap, i = max(((iou(p[t], mask), i) for i, p in predicted.items()), default=(0.0, None))
            if mask.any() and overlap >= 0.5:
                holders.append(i)
        out.append(sum(a != b for a, b in zip(holders, holders[1:])))
    return out
