"""Losses of the detector, and the helpers that make it learn in minutes."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from grammar import COLOURS, FILLS, SHAPES
from masks import box_iou_giou, cxcywh_to_xyxy, hard_iou, mask_losses, mean, near, xyxy_to_cxcywh
from match import hungarian

FOREGROUND, BACKGROUND = 0.35, 0.12  # coverage of a patch from which on, up to which, it counts as such


class DetectorAux(nn.Module):
    """Heads of the training alone: dense supervision of every patch. Not part of the shipped model."""

    def __init__(self, p):
        super().__init__()
        self.sizes = [len(SHAPES) + 1, len(COLOURS) + 1, len(FILLS) + 1, 3 + 1]
        # on the ViT: what lies under a patch, and how far its box reaches from there
        self.attributes = nn.Linear(p["vit_hidden"], sum(self.sizes) + 4)
        # on the DETR encoder: is this patch meant; the box of the object here; where this patch is (absolute places
        # reach the decoder through these features only)
        self.concept = nn.Linear(p["d"], 1 + 4 + 2)
        for layer in (self.attributes, self.concept):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.concept.bias.copy_(torch.tensor([-2.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]))


class DetectorLoss:
    def __init__(self, detector, aux, device):
        self.d, self.aux = detector, aux
        c = (torch.arange(detector.grid, device=device).float() + 0.5) / detector.grid
        y, x = torch.meshgrid(c, c, indexing="ij")
        self.centres = torch.stack([x, y], -1).view(1, -1, 2)

    def __call__(self, scene, pr, aux_weight):
        """scene: World.images, pr: Prompts.sample with boxes, aux_weight: a tensor. -> total, {name: value}"""
        d = self.d
        B, M = scene["shape"].shape[0], pr["ids"].shape[0]
        P = M // B
        tokens, (f0, f1, f2) = d.vision(scene["image"])
        prompt, pmask = d.prompt(pr, f2)
        x, states, boxes, presence, logits = d.detr(f2.repeat(P, 1, 1, 1), prompt, pmask)
        gt = scene["boxes"].repeat(P, 1, 1)
        match = pr["match"]
        with torch.no_grad():
            box_cost, cost = self.costs(boxes, logits, gt, match)
            chosen = hungarian(cost.flatten(0, 1)).view(cost.shape[:3])                       # Ld,M,N
        sets, parts = self.set_loss(boxes, logits, presence, gt, match, chosen, box_cost, ~pr["unsure"])
        # masks on one prompt per image: a box for a third of them, a phrase for the rest
        k = B // 3
        one = lambda t: torch.cat([t[:k], t[B + k:2 * B]])
        index = chosen[-1]
        queries = one(states[-1]).gather(1, one(index)[..., None].expand(-1, -1, states.shape[-1]))
        picture, more = self.picture_loss(one(x), f0, f1, one(prompt), one(pmask), queries, scene["vis"], one(gt),
                                          one(match).float())
        dense, most = self.dense_loss(tokens, x, scene, gt, match)
        total = sets + picture + aux_weight * dense
        parts = {"loss": total, **parts, **more, **most}
        return total, {name: value.detach().float() for name, value in parts.items()}

    # ---- matching ---------------------------------------------------------------------------------------
    @staticmethod
    def costs(boxes, logits, gt, match):
        """-> what a box costs, what a query costs, [Ld,M,N,Q]"""
        p = logits.sigmoid()
        _, giou = box_iou_giou(cxcywh_to_xyxy(boxes)[:, :, None], gt[None, :, :, None])
        l1 = (boxes[:, :, None] - xyxy_to_cxcywh(gt)[None, :, :, None]).abs().sum(-1)
        box = 5 * l1 - 2 * giou
        label = 0.25 * (1 - p) ** 2 * -(p + 1e-6).log() - 0.75 * p ** 2 * -(1 - p + 1e-6).log()
        return box, torch.where(match[None, :, :, None], 2 * label[:, :, None] + box, 0.0)

    # ---- boxes, labels, presence ------------------------------------------------------------------------
    @staticmethod
    def set_loss(boxes, logits, presence, gt, match, chosen, box_cost, sure):
        Ld, M, Q = logits.shape
        gtc, w = xyxy_to_cxcywh(gt)[None], match.float()[None]
        count = w.sum().clamp(min=1) * Ld
        mine = boxes.gather(2, chosen[..., None].expand(-1, -1, -1, 4))
        iou, giou = box_iou_giou(cxcywh_to_xyxy(mine), gt[None])
        l1 = ((mine - gtc).abs().sum(-1) * w).sum() / count
        g = ((1 - giou) * w).sum() / count
        # one to many, boxes only: the nearest queries learn to reach an object, whoever gets the label
        nearest = box_cost.topk(min(5, Q), dim=-1, largest=False).indices                      # Ld,M,N,5
        nb = boxes.gather(2, nearest.flatten(2)[..., None].expand(-1, -1, -1, 4)).view(*nearest.shape, 4)
        _, ng = box_iou_giou(cxcywh_to_xyxy(nb), gt[None, :, :, None])
        many = 5 * (nb - gtc[:, :, :, None]).abs().sum(-1) + 2 * (1 - ng)
        many = (many.mean(-1) * w).sum() / count
        # labels: the target is the quality of the box, the weight of negatives is focal
        present = match.any(1)
        with torch.no_grad():
            target = logits.new_zeros(Ld, M, Q + 1)
            slot = torch.where(match[None], chosen, Q)
            target = target.scatter(2, slot, 0.6 + 0.4 * iou.clamp(0, 1))[..., :Q]
            # where nothing is meant the presence head says so, and the queries need not
            row = torch.where(present, 1.0, 0.3) * sure
            weight = torch.where(target > 0, 1.0, logits.sigmoid() ** 2) * row[None, :, None]
        label = (F.binary_cross_entropy_with_logits(logits, target, reduction="none") * weight).sum() / count
        there = present.float()[None].expand_as(presence)
        known = F.binary_cross_entropy_with_logits(presence, there, reduction="none")
        known = mean(known, sure.float()[None].expand_as(known))
        with torch.no_grad():
            right = mean(((presence[-1] > 0) == present).float(), sure.float())
            absent = mean((presence[-1] <= 0).float(), (sure & ~present).float())
            biou = mean(iou[-1], w[0])
        total = 2 * label + 1.5 * known + 5 * l1 + 2 * g + many
        return total, dict(cls=label, pres=known, l1=l1, giou=g, pacc=right, absent=absent, biou=biou)

    # ---- masks ------------------------------------------------------------------------------------------
    def picture_loss(self, x, f0, f1, prompt, pmask, queries, vis, gt, w):
        embeddings, semantic = self.d.pixels(x, f0, f1, prompt, pmask)
        logits, semantic = self.d.masks(embeddings, queries).float(), semantic.float()
        bce, dice = mask_losses(logits, vis, near(gt, vis.shape[-1]))
        bce, dice = mean(bce, w), mean(dice, w)
        meant = (vis * w[..., None, None]).sum(1).clamp(max=1)
        sbce, sdice = mask_losses(semantic, meant, 1.0 / meant.shape[-1] ** 2)
        sem = 4 * sbce.mean() + mean(sdice, (meant.sum((-1, -2)) > 0).float())
        return 4 * bce + 2 * dice + sem, dict(bce=bce, dice=dice, sem=sem, miou=mean(hard_iou(logits, vis), w))

    # ---- every patch ------------------------------------------------------------------------------------
    def dense_loss(self, tokens, x, scene, gt, match):
        P = x.shape[0] // tokens.shape[0]
        cover = F.avg_pool2d(scene["vis"], 4).flatten(2)                         # B,N,T
        best, who = cover.max(1)
        fore = best > FOREGROUND
        box = scene["boxes"].gather(1, who[..., None].expand(-1, -1, 4))         # B,T,4
        attributes, right = self.attribute_loss(tokens, scene, fore, best > BACKGROUND, who, box)
        meant = (cover.repeat(P, 1, 1) * match.float()[..., None]).sum(1).clamp(max=1)
        out = self.aux.concept(x).float()
        concept = 4 * F.binary_cross_entropy_with_logits(out[..., 0], meant)
        reach = mean((out[..., 1:5] - box.repeat(P, 1, 1)).abs().mean(-1), fore.float().repeat(P, 1))
        where = 5 * reach + 2 * (out[..., 5:] - self.centres).abs().mean()
        return attributes + concept + where, dict(attr=attributes, concept=concept, where=where, aacc=right)

    def attribute_loss(self, tokens, scene, fore, touched, who, box):
        out = self.aux.attributes(tokens).float().split(self.aux.sizes + [4], -1)
        w, back = fore.float(), (~touched).float()
        loss, right = 0.0, 0.0
        for logits, key in zip(out, ("shape", "colour", "fill", "size")):
            label = torch.where(fore, scene[key].gather(1, who) + 1, 0)
            ce = F.cross_entropy(logits.transpose(1, 2), label, reduction="none")
            # patches of objects are few: half of the weight each
            loss = loss + 0.5 * mean(ce, w) + 0.5 * mean(ce, back)
            right = right + mean((logits.argmax(-1) == label).float(), w) / 4
        reach = (out[4] - (box - self.centres.repeat(1, 1, 2)) * 5).abs().mean(-1)
        return loss / 2 + mean(reach, w), right
