"""Synthetic scenes, drawn in whole batches on the training device without ever waiting for it."""
import math

import torch

import render
from grammar import COLOURS, SHAPES
from shapes import PALETTE, make_atlas

RADIUS = {"small": (0.058, 0.085), "medium": (0.088, 0.112), "large": (0.116, 0.21)}
MIN_AREA = 0.0006   # of the image: what shows less than this is not asked for
GONE_AREA = 0.0001  # what shows less than this cannot be noticed
MIN_SHARE = 0.25    # of the object


class World:
    def __init__(self, image, device, max_objects=8):
        self.size, self.low = image, 4 * image // 14
        self.device = torch.device(device)
        self.n = max_objects
        self.atlas = make_atlas().to(self.device)
        self.palette = PALETTE.to(self.device)
        # the smallest object must stay a few pixels wide at reduced test sizes
        self.radius_scale = max(1.0, (336 / image) ** 0.45)
        self.draw = render.draw

    # ---- what there is ----------------------------------------------------------------------------------
    def attributes(self, B, rng, min_n=1, max_n=None):
        """Shape, colour, fill, size, rotation and exact colours of up to max_n objects, each [B,N,...]."""
        N = self.n
        n = min_n + rng.randint((max_n or N) - min_n + 1, B)
        valid = torch.arange(N, device=self.device)[None] < n[:, None]
        shape, colour = rng.randint(len(SHAPES), B, N), rng.randint(len(COLOURS), B, N)
        # themed scenes have two or three shapes and colours, so that instances repeat and near misses abound
        themed = rng.bern(0.55, B, 1)
        some_shapes, some_colours = rng.randint(len(SHAPES), B, 3), rng.randint(len(COLOURS), B, 3)
        shape = torch.where(themed, some_shapes.gather(1, rng.randint(3, B, N)), shape)
        colour = torch.where(themed, some_colours.gather(1, rng.randint(3, B, N)), colour)
        u = rng.rand(B, N)
        fill = (u > 0.5).long() + (u > 0.75).long()
        u = rng.rand(B, N)
        small = torch.where((n > 4)[:, None], 0.55, 0.38)
        size = (u > small).long() + (u > small + 0.18).long()
        v = rng.rand(B, N)
        r = sum((size == i) * (lo + v * (hi - lo)) for i, (lo, hi) in enumerate(RADIUS.values()))
        upright = rng.rand(B, N, lo=-0.5, hi=0.5)
        theta = torch.where(rng.bern(0.4, B, N), rng.rand(B, N, lo=-math.pi, hi=math.pi), upright)
        c1 = self.palette[colour] + 0.035 * rng.randn(B, N, 3)
        # the second colour of stripes and dots goes towards white or black, less far for white and black themselves
        white, black = colour == COLOURS.index("white"), colour == COLOURS.index("black")
        towards = torch.where((rng.bern(0.5, B, N) | white) & ~black, 0.0, 1.0)[..., None]
        amount = rng.rand(B, N, 1, lo=0.5, hi=0.65) * torch.where((white | black)[..., None], 0.7, 1.0)
        c2 = c1 * (1 - amount) + towards * amount
        return dict(n=n, valid=valid, shape=shape, colour=colour, fill=fill, size=size, r=r * self.radius_scale,
                    theta=theta, c1=c1.clamp(0.01, 0.99), c2=c2.clamp(0.01, 0.99), phase=rng.rand(B, N))

    def place(self, a, rng, tries=12, loose=0.25):
        """Centres: the first of some candidates that leaves everything recognisable, else the object is dropped.
        A share `loose` of the scenes lets objects hide each other and reach over the border."""
        B, N = a["r"].shape
        r = a["r"]
        free = rng.bern(loose, B, 1)
        inside = torch.where(rng.bern(0.15, B, N), 0.45, 1.0)
        edge = torch.where(free, torch.where(rng.bern(0.3, B, N), -0.3, 0.5), inside) * r
        room = (1 - 2 * edge[..., None, None]).clamp(min=0.02)
        candidates = rng.rand(B, N, tries, 2) * room + edge[..., None, None]
        centre = torch.full((B, N, 2), -9.0, device=self.device)
        centre[:, 0] = candidates[:, 0, 0]
        valid = a["valid"].clone()
        apart = torch.where(free, 0.45, 1.0)[..., None]
        for i in range(1, N):
            away = (candidates[:, i, :, None] - centre[:, None, :i]).norm(dim=-1)            # B,tries,i
            mine, theirs = r[:, i, None, None], r[:, None, :i]
            need = torch.maximum(0.64 * (mine + theirs), mine + 0.2 * theirs) * apart
            fits = ((away >= need) | ~valid[:, None, :i]).all(-1)
            first = fits.float().argmax(-1)
            centre[:, i] = candidates[:, i].gather(1, first[:, None, None].expand(-1, 1, 2))[:, 0]
            valid[:, i] &= fits.any(-1)
        return {**a, "valid": valid, "cx": centre[..., 0], "cy": centre[..., 1]}

    # ---- behind it --------------------------------------------------------------------------------------
    def backdrop(self, B, rng):
        """Parameters of the background: a gradient, three octaves of noise, waves or checks, up to three lines."""
        one = lambda lo=0.0, hi=1.0: rng.rand(B, 1, 1, 1, lo=lo, hi=hi)
        angle = lambda: one(-math.pi, math.pi)
        calm = torch.where(rng.bern(0.3, B, 1, 1, 1), 0.15, 1.0)
        textures = []
        for cells, strength in ((5, 0.10), (17, 0.07), (61, 0.06)):
            cloud = rng.randn(B, 3, cells, cells) * 0.5 + rng.randn(B, 1, cells, cells)
            textures.append(cloud * one(hi=strength) * calm)
        lines = [dict(turn=angle(), off=one(-0.5, 0.5), width=one(0.6, 1.8), colour=rng.rand(B, 3, 1, 1),
                      strength=torch.where(rng.bern(0.2, B, 1, 1, 1), 0.9, 0.0)) for _ in range(3)]
        return dict(base=one(0.32, 0.68) + 0.09 * rng.randn(B, 3, 1, 1), slope=angle(),
                    gradient=rng.rand(B, 3, 1, 1, lo=-0.16, hi=0.16), textures=textures, turn=angle(),
                    rate=one(3, 22) * 2 * math.pi, checks=rng.bern(0.5, B, 1, 1, 1),
                    wave=torch.where(rng.bern(0.4, B, 1, 1, 1), one(hi=0.09), 0.0), lines=lines,
                    light=1 + one(hi=0.16) * rng.rand(B, 1, 3, 3, lo=-1, hi=1), grain=one(hi=0.045),
                    camera=torch.zeros(B, 2, device=self.device))

    # ---- single images ----------------------------------------------------------------------------------
    @torch.no_grad()
    def images(self, B, rng):
        """B scenes: the attributes, what render.draw makes of them, and which objects may be asked for:
        ok (recognisable) and unsure (something shows, but not enough to hold anyone to it)."""
        a = self.place(self.attributes(B, rng), rng)
        b = self.backdrop(B, rng)
        b["noise"] = rng.randn(B, 3, self.size, self.size)
        scene = {**a, **self.draw(a, b, self.atlas, self.size, self.low)}
        return {**scene, **self.judge(scene)}

    def judge(self, scene):
        pixels = self.size * self.size
        ok = scene["valid"] & (scene["area"] > MIN_AREA * pixels) & (scene["frac"] > MIN_SHARE)
        return dict(ok=ok, unsure=scene["valid"] & ~ok & (scene["area"] > GONE_AREA * pixels))
