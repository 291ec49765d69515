"""The measures of `sam3 eval` in their plainest form, on made-up masks: tests/data/eval/metrics.json.

Run anywhere with NumPy: python eval.py OUTPUT_FILE

Nothing here is shared with the C++ side: masks are boolean arrays, distances are taken between all pairs of pixels, the
best pairs are found by trying all of them.
"""
import itertools
import json
import math
import sys

import numpy as np

THRESHOLDS = np.linspace(0.5, 0.95, 10)
HEIGHT, WIDTH, FRAMES = 18, 25, 6


# ---- masks -----------------------------------------------------------------------------------------------------
def disc(rng):
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    cy, cx, r = rng.uniform(1, HEIGHT - 1), rng.uniform(1, WIDTH - 1), rng.uniform(2.5, 6)
    return (y - cy) ** 2 + ((x - cx) / rng.uniform(0.7, 1.6)) ** 2 <= r * r


def spoiled(mask, rng):
    """The mask as a model would draw it: moved, with noise along its edge."""
    out = np.roll(mask, rng.integers(-1, 2, 2), (0, 1))
    return out ^ ((rng.random(mask.shape) < 0.15) & near(contour(out), 1))


def runs(mask):
    flat = mask.flatten(order="F").astype(int)
    ends = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff([0, *ends, flat.size]).tolist()
    return [0, *lengths] if flat[0] else lengths


# ---- measures --------------------------------------------------------------------------------------------------
def volume_iou(a, b):
    union = np.sum(a | b)
    return np.sum(a & b) / union if union else 0.0


def best_pairs(values):
    """Rows and columns of the pairs with the greatest sum, by trying all."""
    rows, columns = values.shape
    if rows > columns:
        return [(r, c) for c, r in best_pairs(values.T)]
    best = max(itertools.permutations(range(columns), rows), key=lambda p: sum(values[r, c] for r, c in enumerate(p)))
    return list(enumerate(best))


def prompt_outcome(predicted, truth):
    """SAM 3's counts for one phrase: right, extra and missed at each threshold."""
    values = np.array([[volume_iou(p, t) for t in truth] for p in predicted]).reshape(len(predicted), len(truth))
    overlaps = np.array([values[pair] for pair in best_pairs(values)] if values.size else [])
    right = np.array([np.sum(overlaps >= t) for t in THRESHOLDS])
    extra, missed = len(predicted) - right, len(truth) - right
    precision, recall = right / (right + extra + 1e-4), right / (right + missed + 1e-4)
    return dict(right=right, extra=extra, missed=missed, there=len(truth) > 0, found=len(predicted) > 0,
                f1=2 * precision * recall / (precision + recall + 1e-4), overlaps=overlaps)


def favourable(outcomes):
    for o in outcomes:
        if not o["there"] and not o["found"]:
            return o
    return max(outcomes, key=lambda o: o["f1"].mean())


def concept_figures(outcomes):
    total = lambda key, some=outcomes: sum((o[key] for o in some), np.zeros(10))
    positive = [o for o in outcomes if o["there"]]
    right, extra, missed = total("right"), total("extra"), total("missed")
    f = lambda p, r: 2 * p * r / (p + r + 1e-4)
    precision, recall = right / (right + extra + 1e-4), right / (right + missed + 1e-4)
    positive_precision = right / (right + total("extra", positive) + 1e-4)
    tp = sum(o["there"] and o["found"] for o in outcomes)
    fp = sum(not o["there"] and o["found"] for o in outcomes)
    fn = sum(o["there"] and not o["found"] for o in outcomes)
    tn = len(outcomes) - tp - fp - fn
    mcc = (tp * tn - fp * fn) / (math.sqrt(float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) + 1e-6)
    pmf1 = f(positive_precision, recall)
    il_precision, il_recall = tp / (tp + fp + 1e-6), tp / (tp + fn + 1e-6)
    macro = total("f1", [o for o in positive if o["found"]]) / tp if tp else np.zeros(10)
    good = np.concatenate([o["overlaps"] for o in outcomes])
    good = good[good >= 0.5]
    out = dict(il_mcc=mcc, il_precision=il_precision, il_recall=il_recall,
               il_f1=2 * il_precision * il_recall / (il_precision + il_recall + 1e-6), il_fpr=fp / (fp + tn + 1e-6),
               mean_iou=good.mean() if good.size else 0.0, absent_recognised=tn / (tn + fp) if tn + fp else 1.0)
    figures = dict(cgf1=pmf1 * mcc, precision=precision, recall=recall, f1=f(precision, recall),
                   positive_precision=positive_precision, positive_f1=pmf1, positive_macro_f1=macro)
    for name, value in figures.items():
        out[name], out[name + "_50"], out[name + "_75"] = value.mean(), value[0], value[5]
    return out


def contour(mask):
    """Pixels that differ from the pixel to the right, below or right below."""
    out = np.zeros_like(mask)
    for y, x in np.ndindex(mask.shape):
        for dy, dx in ((0, 1), (1, 0), (1, 1)):
            if y + dy < mask.shape[0] and x + dx < mask.shape[1]:
                out[y, x] |= mask[y, x] != mask[y + dy, x + dx]
    return out


def near(mask, radius):
    """Pixels within the radius of one that is set."""
    out = np.zeros_like(mask)
    places = np.argwhere(mask)
    for place in np.ndindex(mask.shape):
        out[place] = bool(len(places)) and np.min(np.sum((places - place) ** 2, 1)) <= radius * radius
    return out


def region(a, b):
    return 1.0 if not (a | b).any() else np.sum(a & b) / np.sum(a | b)


def boundary(a, b):
    a, b = contour(a), contour(b)
    if not a.any() and not b.any():
        return 1.0
    if not a.any() or not b.any():
        return 0.0
    radius = math.ceil(0.008 * math.hypot(*a.shape))
    precision, recall = np.mean(near(b, radius)[a]), np.mean(near(a, radius)[b])
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def switches(predicted, truth):
    count, changed, last = 0, set(), {}
    for frame in range(FRAMES):
        values = np.array([[volume_iou(t[frame], p[frame]) for p in predicted] for t in truth])
        for i, k in best_pairs(values.reshape(len(truth), len(predicted))) if values.size else []:
            if values[i, k] < 0.5:
                continue
            if i in last and last[i] != k:
                count += 1
                changed.add(i)
            last[i] = k
    return count, len(changed)


def circle(mask):
    """The centre of the largest circle inside, the first of equal ones, and its squared radius."""
    padded = np.pad(mask, 1)
    outside = np.argwhere(~padded)
    depth = np.array([[np.min(np.sum((outside - place) ** 2, 1)) for place in zip([y] * padded.shape[1],
                                                                                  range(padded.shape[1]))]
                      for y in range(padded.shape[0])])
    y, x = np.unravel_index(np.argmax(depth), depth.shape)
    return [int(x) - 1, int(y) - 1, int(depth[y, x])] if depth[y, x] else None


# ---- cases -----------------------------------------------------------------------------------------------------
def prompts(rng):
    """Phrases with up to four objects, found, missed, doubled and imagined; some with two annotators."""
    cases = []
    for k in range(24):
        truth = [disc(rng) for _ in range(rng.integers(1, 5))] if k % 3 else []
        predicted = [spoiled(t, rng) for t in truth if rng.random() < 0.8]
        predicted += [disc(rng) for _ in range(rng.choice([0, 0, 1, 2]))]
        other = [spoiled(t, rng) for t in truth][:3] if k % 4 else []
        cases.append(dict(predicted=predicted, truths=[truth, other] if k % 2 else [truth]))
    return cases


def clips(rng):
    """Discs that move, predicted with noise; now and then two predictions change places or one is lost."""
    cases = []
    for k in range(6):
        count = int(rng.integers(2, 4))
        truth = [[np.roll(base, (t * dy, t * dx), (0, 1)) for t in range(FRAMES)]
                 for base, (dy, dx) in ((disc(rng), rng.integers(-1, 2, 2)) for _ in range(count))]
        for track in truth[1:]:
            track[int(rng.integers(FRAMES))] = np.zeros((HEIGHT, WIDTH), bool)
        predicted = [[spoiled(m, rng) for m in track] for track in truth]
        if k % 2 and count > 1:
            for t in range(3, FRAMES):
                predicted[0][t], predicted[1][t] = predicted[1][t], predicted[0][t]
        predicted[0][2] = np.zeros((HEIGHT, WIDTH), bool)
        cases.append(dict(truth=np.array(truth), predicted=np.array(predicted)))
    return cases


def main():
    rng = np.random.default_rng(5)
    listed = lambda masks: [runs(m) for m in masks]
    out = dict(width=WIDTH, height=HEIGHT)
    cases = prompts(rng)
    outcomes = [favourable([prompt_outcome(c["predicted"], t) for t in c["truths"]]) for c in cases]
    out["prompts"] = [dict(predicted=listed(c["predicted"]), truths=[listed(t) for t in c["truths"]]) for c in cases]
    out["figures"] = concept_figures(outcomes)
    out["clips"] = []
    video = []
    for c in clips(rng):
        video.append(prompt_outcome(c["predicted"], c["truth"]))
        pairs = list(zip(c["predicted"], c["truth"]))
        count, changed = switches(c["predicted"], c["truth"])
        out["clips"].append(dict(
            predicted=[listed(t) for t in c["predicted"]], truth=[listed(t) for t in c["truth"]],
            iou=[volume_iou(p, t) for p, t in pairs], j=[[region(*m) for m in zip(p, t)] for p, t in pairs],
            f=[[boundary(*m) for m in zip(p, t)] for p, t in pairs], switches=count, switched_tracks=changed))
    out["clip_figures"] = concept_figures(video)
    masks = [disc(rng) & (rng.random((HEIGHT, WIDTH)) < 0.97) for _ in range(8)] + [np.zeros((HEIGHT, WIDTH), bool),
                                                                                    np.ones((HEIGHT, WIDTH), bool)]
    out["circles"] = [dict(mask=runs(m), circle=circle(m)) for m in masks]
    text = json.dumps(out, default=lambda v: v.item())
    with open(sys.argv[1], "w") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
