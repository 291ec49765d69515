"""Clips: the objects of a scene on smooth paths that cross, leave and come back."""
import torch

PER_FRAME = ("n", "cx", "cy", "r", "theta")


def paths(a, B, T, N, rng, speed):
    """Offsets from the placed centres, [B,T,N,2]. Objects meet their placed centres at a moment of their own, so
    that occlusions happen in any frame."""
    t = torch.arange(T, device=rng.device).float().view(1, T, 1)
    start = rng.rand(B, 1, N) * (T - 1)
    since = t - start
    fast = torch.where(rng.bern(0.2, B, 1, N), 0.028, 0.011)
    velocity = rng.randn(B, 1, N, 2) * fast[..., None] * speed
    # some set out to cross another object at a certain moment
    centre = torch.stack([a["cx"], a["cy"]], -1)
    other = centre.gather(1, rng.randint(N, B, N)[..., None].expand(-1, -1, 2))
    seconds = rng.rand(B, N, 1, lo=4, hi=10) * torch.where(rng.bern(0.5, B, N, 1), 1.0, -1.0)
    towards = ((other - centre) / seconds).clamp(-0.06, 0.06)[:, None]
    velocity = torch.where(rng.bern(0.25, B, 1, N)[..., None], towards, velocity)
    moving = (~rng.bern(0.15, B, 1, N)).float()[..., None]
    sway = rng.randn(B, 1, N, 2) * 0.02
    rate, phase = rng.rand(B, 1, N, lo=0.15, hi=0.6), rng.rand(B, 1, N, hi=6.28)
    swing = (torch.sin(rate * t + phase) - torch.sin(rate * start + phase))[..., None]
    path = (velocity * since[..., None] + sway * swing) * moving
    # and some go far out and return
    out = rng.randn(B, 1, N, 2) * 0.45
    period = rng.rand(B, 1, N, lo=10, hi=22)
    there = torch.sin(3.1416 * since / period)[..., None] ** 2
    return torch.where(rng.bern(0.14, B, 1, N)[..., None], out * there, path)


@torch.no_grad()
def clips(world, B, T, rng, max_n=6, speed=1.0):
    """B clips of T frames -> the attributes and what render.draw makes of them, [B,T,...]."""
    N = world.n
    a = world.attributes(B, rng, min_n=2, max_n=max_n)
    a = world.place({**a, "r": a["r"] * 1.1}, rng)
    t = torch.arange(T, device=world.device).float().view(1, T, 1)
    since = t - rng.rand(B, 1, 1) * (T - 1)
    camera = rng.randn(B, 1, 2) * 0.004 * speed * since
    centre = torch.stack([a["cx"], a["cy"]], -1)[:, None] + paths(a, B, T, N, rng, speed) + camera[:, :, None]
    turning = rng.randn(B, 1, N) * 0.06 * rng.bern(0.6, B, 1, N) * speed
    growth = (rng.randn(B, 1, N) * 0.012 * speed).clamp(-0.03, 0.03)

    def per_frame(x):
        return x[:, None].expand(B, T, *x.shape[1:]).reshape(B * T, *x.shape[1:])

    frames = {k: per_frame(v) for k, v in a.items() if k not in PER_FRAME}
    frames["cx"], frames["cy"] = centre.view(B * T, N, 2).unbind(-1)
    frames["theta"] = (a["theta"][:, None] + turning * since).view(B * T, N)
    frames["r"] = (a["r"][:, None] * torch.exp(growth * since)).clamp(0.04, 0.3).view(B * T, N)
    b = world.backdrop(B, rng)
    back = {k: per_frame(v) for k, v in b.items() if k not in ("textures", "lines", "camera")}
    back["textures"] = [per_frame(x) for x in b["textures"]]
    back["lines"] = [{k: per_frame(v) for k, v in line.items()} for line in b["lines"]]
    back["camera"] = camera.reshape(B * T, 2)
    back["light"] = back["light"] * (1 + 0.02 * rng.randn(B * T, 1, 1, 1))
    back["noise"] = rng.randn(B * T, 3, world.size, world.size)
    drawn = world.draw(frames, back, world.atlas, world.size, world.low)
    return {k: v.view(B, T, *v.shape[1:]) for k, v in {**frames, **drawn}.items()}
