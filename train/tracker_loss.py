"""Training of the tracker on clips: objects prompted on the first frame and followed through the rest."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from clicks import correcting_click, inner_click, loose_box, rough_mask
from masks import hard_iou, mask_losses, mean, near
from tracker import NO_OBJECT

START_AREA, SEEN_AREA = 0.0012, 0.0008  # of the image: to be prompted on, to count as visible
CLICK, BOX, MASK = range(3)


@dataclass
class Plan:
    """What a step does, apart from the random numbers on the device: one CUDA graph for each plan."""
    frames: int
    objects: int
    shares: tuple            # of the objects that start from a click, a box, a mask
    bare: tuple              # click, box: without the no-memory embedding, as Sam3TrackerModel has it on images
    corrections: tuple       # click, box: for each further click, whether the previous mask comes along
    click_frame: int         # a later frame on which a click corrects the track, or -1
    prompted_frame: int      # a later frame that the memory keeps as if prompted, or -1
    pointers: int            # as many frames as object pointers look back

    @staticmethod
    def draw(py, frames, objects, corrections=True):
        def more():
            n = py.choice((0, 0, 1, 2)) if corrections else 0
            return tuple(py.random() < 0.4 for _ in range(n))

        later = lambda p: py.randrange(1, frames) if frames > 2 and py.random() < p else -1
        return Plan(frames, objects, (0.6, 0.25, 0.15) if frames == 1 else (0.45, 0.2, 0.35),
                    (py.random() < 0.35, py.random() < 0.35), (more(), more()),
                    later(0.15) if corrections else -1, later(0.15), py.choice((16, 16, 16, max(frames, 2))))


class TrackerAux(nn.Module):
    """Heads of the training alone: "does this patch belong to the prompted object", read off the image tokens after
    each layer of the SAM head and off the memory-conditioned features. Without them the head first learns
    "everything that is an object" and stays there for a long time."""

    def __init__(self, p, layers=2):
        super().__init__()
        self.head = nn.ModuleList(nn.Linear(p["d"], 1) for _ in range(layers))
        self.memory = nn.Linear(p["d"], 1)
        for m in [*self.head, self.memory]:
            nn.init.normal_(m.weight, std=0.02)
            nn.init.constant_(m.bias, -1.0)


class Sums:
    """Weighted sums of the parts of the loss."""

    def __init__(self):
        self.mask = self.quality = self.object = self.patches = 0.0
        self.weight = 0.0

    def add(self, parts, weight):
        self.mask, self.quality = self.mask + weight * parts[0], self.quality + weight * parts[1]
        self.object, self.patches = self.object + weight * parts[2], self.patches + weight * parts[3]
        self.weight += weight


class TrackerLoss:
    def __init__(self, tracker, aux):
        self.t, self.aux = tracker, aux
        self.encode_memory = tracker.encode_memory  # torch.compile may replace it

    def __call__(self, clip, plan, rng, force, aux_weight):
        """clip: clips.clips; force, aux_weight: tensors (share of memories written from the truth, weight of the
        patch losses). -> total, {name: value}"""
        B, T = clip["image"].shape[:2]
        maps = [x.view(B, T, *x.shape[1:]) for x in self.t.features(clip["image"].flatten(0, 1))]
        o = self.objects(clip, maps, plan, rng)
        sums, stats = Sums(), {}
        bank = {"cond": {0: self.start(o, plan, rng, sums, stats)}, "track": {}}
        right, known = [], []
        for t in range(1, T):
            emb = self.t.attend(o["f2"][:, t], bank, t, plan.pointers)
            sums.patches = sums.patches + self.patch_loss(self.aux.memory, emb.flatten(2).transpose(1, 2),
                                                          o["cover"][:, t], o["seen"][:, t])
            now = [o[k][:, t] for k in ("s0", "s1", "vis", "box", "seen", "sure", "cover")]
            mask, token, score, parts, iou = self.follow(emb, *now)
            sums.add(parts, 1.0)
            seen = o["seen"][:, t]
            right.append(torch.where(seen, iou * (score > 0), (score <= 0).float()))
            known.append((score > 0) == seen)
            corrected = t == plan.click_frame
            if corrected:
                place, label = correcting_click(mask.detach(), o["vis"][:, t], self.t.size, rng)
                out = self.t.decode(emb, now[0], now[1], *self.t.prompt(place[:, None], label[:, None]))
                sums.add(self.head_loss(out, *now[2:], single=False), 0.5)
                mask, token = self.t.pick(*out[:3], True)
                score = out[3]
            if t < T - 1:
                kept = self.remember(o, t, mask, token, score, corrected, force, rng)
                bank["cond" if t == plan.prompted_frame else "track"][t] = kept
        return self.total(sums, stats, right, known, o, aux_weight)

    def objects(self, clip, maps, plan, rng):
        """The objects to follow, n = B * plan.objects of them, with all that belongs to each, [n,T,...]."""
        B, T = clip["image"].shape[:2]
        pixels, K = self.t.size ** 2, plan.objects
        good = clip["valid"][:, 0] & (clip["area"][:, 0] > START_AREA * pixels) & (clip["frac"][:, 0] > 0.3)
        target = torch.stack([rng.pick(good.float()) for _ in range(K)], 1)       # B,K, may repeat
        alive = good.gather(1, target).flatten()

        def of(x):
            index = target.view(B, 1, K, *[1] * (x.ndim - 3)).expand(-1, T, -1, *x.shape[3:])
            return x.gather(2, index).transpose(1, 2).flatten(0, 1)

        area = of(clip["area"])
        vis = of(clip["vis"])
        seen = (area > SEEN_AREA * pixels) & alive[:, None]
        o = dict(vis=vis, box=of(clip["boxes"]), seen=seen, sure=(seen | (area < 1)) & alive[:, None], alive=alive,
                 cover=F.avg_pool2d(vis, 4).flatten(2))
        for name, x in zip(("s0", "s1", "f2"), maps):
            o[name] = x[:, None].expand(-1, K, *[-1] * (x.ndim - 1)).flatten(0, 1)
        return o

    # ---- first frame ------------------------------------------------------------------------------------
    def start(self, o, plan, rng, sums, stats):
        """Prompts every object on frame 0 -> the first record of the memory"""
        n = o["vis"].shape[0]
        ends = [0, int(plan.shares[0] * n), int((plan.shares[0] + plan.shares[1]) * n), n]
        found = []
        for kind in (CLICK, BOX, MASK):
            rows = slice(ends[kind], ends[kind + 1])
            first = {k: o[k][rows, 0] for k in ("s0", "s1", "f2", "vis", "box", "seen", "sure", "cover")}
            if kind == MASK:
                found.append(self.start_mask(first, rng, sums))
            else:
                found.append(self.start_points(first, kind, plan, rng, sums, stats, o["alive"][rows].float()))
        mask, pointer, seen = (torch.cat(x) for x in zip(*found))
        return dict(memory=self.encode_memory(o["f2"][:, 0], mask, seen, torch.ones_like(seen)), pointer=pointer)

    def start_points(self, x, kind, plan, rng, sums, stats, alive):
        t = self.t
        truth = [x[k] for k in ("vis", "box", "seen", "sure", "cover")]
        emb = x["f2"] if plan.bare[kind] else x["f2"] + t.trk.no_memory_embedding.view(1, -1, 1, 1)
        if kind == CLICK:
            points = inner_click(x["vis"], t.size, rng)[:, None]
            labels = torch.ones_like(points[..., 0], dtype=torch.long)
        else:
            points = loose_box(x["box"], t.size, rng)
            labels = t.corners[None].expand(points.shape[0], 2)
        out = t.decode(emb, x["s0"], x["s1"], *t.prompt(points, labels))
        sums.add(self.head_loss(out, *truth, single=kind == BOX), 1.0)
        mask, token = t.pick(*out[:3], kind == CLICK)
        stats["click" if kind == CLICK else "box"] = mean(hard_iou(mask, x["vis"]), alive)
        for with_mask in plan.corrections[kind]:
            place, label = correcting_click(mask.detach(), x["vis"], t.size, rng)
            points, labels = torch.cat([points, place[:, None]], 1), torch.cat([labels, label[:, None]], 1)
            previous = mask.detach()[:, None].clamp(-20, 20) if with_mask else None
            out = t.decode(emb, x["s0"], x["s1"], *t.prompt(points, labels, previous))
            sums.add(self.head_loss(out, *truth, single=True), 0.5)
            mask, token = t.pick(*out[:3], False)
            stats["corrected"] = mean(hard_iou(mask, x["vis"]), alive)
        seen = out[3] > 0
        return torch.where(seen[:, None, None], mask.detach(), NO_OBJECT), t.pointer(token, seen), seen

    def start_mask(self, x, rng, sums):
        """The mask itself is the result; the head only makes the pointer."""
        t = self.t
        rough = rough_mask(x["vis"], rng)
        full = F.interpolate(rough[:, None], size=(t.size, t.size), mode="bilinear", align_corners=False)
        down = F.interpolate(t.trk.mask_downsample(full).float(), size=(t.low, t.low), mode="bilinear",
                             align_corners=False, antialias=True)
        out = t.decode(x["f2"], x["s0"], x["s1"], *t.no_prompt(rough.shape[0], down))
        sums.add(self.head_loss(out, *[x[k] for k in ("vis", "box", "seen", "sure", "cover")], single=False), 0.5)
        _, token = t.pick(*out[:3], True)
        return rough * 20 - 10, t.pointer(token, out[3] > 0), torch.ones_like(x["seen"])

    # ---- later frames -----------------------------------------------------------------------------------
    def follow(self, emb, s0, s1, vis, box, seen, sure, cover):
        """One frame without a prompt -> mask, token, object logit, loss parts, IoU"""
        out = self.t.decode(emb, s0, s1, *self.t.no_prompt(emb.shape[0]))
        parts = self.head_loss(out, vis, box, seen, sure, cover, single=False)
        mask, token = self.t.pick(*out[:3], True)
        return mask, token, out[3], parts, hard_iou(mask, vis)

    def remember(self, o, t, mask, token, score, corrected, force, rng):
        n = mask.shape[0]
        seen = score > 0
        mask = torch.where(seen[:, None, None], mask.detach(), NO_OBJECT)
        # early in training the truth is written into the memory now and then
        forced = rng.bern(force, n) & o["sure"][:, t]
        truth = torch.where(o["seen"][:, t][:, None, None], o["vis"][:, t] * 20 - 10, NO_OBJECT)
        mask = torch.where(forced[:, None, None], truth, mask)
        seen = torch.where(forced, o["seen"][:, t], seen)
        hard = torch.full_like(seen, corrected)
        return dict(memory=self.encode_memory(o["f2"][:, t], mask, seen, hard), pointer=self.t.pointer(token, seen))

    # ---- losses -----------------------------------------------------------------------------------------
    def head_loss(self, out, vis, box, seen, sure, cover, single):
        """-> losses of the masks, of their predicted quality, of the object score, of the patches"""
        masks, quality, _, score, images = out
        w = seen.float()
        target = vis[:, None].expand(-1, masks.shape[1], -1, -1)
        bce, dice = mask_losses(masks, target, near(box, vis.shape[-1])[:, None])
        each = 4 * bce + 2 * dice                                                # n,4
        # of the three only the best learns, and the others a little, lest one never wins
        three = each[:, 1:].amin(1) + 0.1 * each[:, 1:].mean(1)
        mask = mean((1.0 if single else 0.3) * each[:, 0] + (0.3 if single else 1.0) * three, w)
        q = mean((quality - hard_iou(masks, target).detach()).abs().mean(1), w)
        there = mean(F.binary_cross_entropy_with_logits(score, w, reduction="none"), sure.float())
        patches = sum(self.patch_loss(head, x, cover, seen) for head, x in zip(self.aux.head, images))
        return mask, q, there, patches

    @staticmethod
    def patch_loss(head, tokens, cover, seen):
        """tokens [n,HW,d], cover [n,HW] -> cross entropy, half of it on the object"""
        bce = F.binary_cross_entropy_with_logits(head(tokens).float().squeeze(-1), cover, reduction="none")
        half = lambda w: (bce * w).sum(1) / w.sum(1).clamp(min=0.5)
        return mean(half(cover) + half(1 - cover), seen.float())

    @staticmethod
    def total(sums, stats, right, known, o, aux_weight):
        w = sums.weight
        total = (sums.mask + 0.6 * sums.quality + 0.6 * sums.object + aux_weight * sums.patches) / w
        parts = dict(loss=total, mask=sums.mask / w, iou=sums.quality / w, obj=sums.object / w, aux=sums.patches / w,
                     **stats)
        if right:
            alive = o["alive"].float()
            parts["J"] = mean(torch.stack(right, 1), alive[:, None].expand(-1, len(right)))
            parts["Jlast"] = mean(right[-1], alive)
            parts["oacc"] = mean(torch.stack(known, 1).float(), o["sure"][:, 1:].float())
        return total, {name: value.detach().float() for name, value in parts.items()}
