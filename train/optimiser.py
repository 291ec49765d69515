"""AdamW with a schedule driven by the clock, gradient clipping, and a running average of the weights."""
import math

import torch

NO_DECAY = ("embed", "reference_points", "token", "no_object_pointer", "no_memory_embedding")


class Optimiser:
    def __init__(self, named, lr, decay=0.02, average=0.998, clip=1.0, slow=None):
        """named: [(name, parameter)]; slow: (start of a name, factor) for weights that learn at a lower rate"""
        self.named = [(n, x) for n, x in named if x.requires_grad]
        self.params = [x for _, x in self.named]
        groups = {}
        for name, x in self.named:
            decays = x.ndim >= 2 and not any(word in name for word in NO_DECAY)
            factor = slow[1] if slow and name.startswith(slow[0]) else 1.0
            groups.setdefault((decays, factor), []).append(x)
        self.fused = self.params[0].is_cuda
        self.adam = torch.optim.AdamW(
            [dict(params=xs, weight_decay=decay if decays else 0.0, factor=factor)
             for (decays, factor), xs in groups.items()], lr=lr, betas=(0.9, 0.98), eps=1e-8, fused=self.fused)
        self.lr, self.clip, self.average, self.steps = lr, clip, average, 0
        # gradients keep their place in memory, because a CUDA graph writes them
        for x in self.params:
            x.grad = torch.zeros_like(x)
        self.grads = [x.grad for x in self.params]
        self.smooth = [x.detach().clone() for x in self.params]

    def zero_grad(self):
        torch._foreach_zero_(self.grads)

    def set_rate(self, progress, slow_on=True):
        """Linear warm-up over 3 % of the time (20 steps at least), then half a cosine down to 2 %."""
        warm = min(1.0, (self.steps + 1) / 20, max(progress / 0.03, 0.01))
        lr = self.lr * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0))))
        for group in self.adam.param_groups:
            group["lr"] = lr * group["factor"] if slow_on or group["factor"] == 1.0 else 0.0
        return lr

    def step(self):
        norm = torch.nn.utils.clip_grad_norm_(self.params, self.clip, foreach=True)
        if self.fused:
            # the fused kernel skips the update where found_inf is 1: nothing waits for the GPU
            self.adam.found_inf = (~torch.isfinite(norm)).float().reshape(())
            self.adam.grad_scale = None
            self.adam.step()
        elif torch.isfinite(norm):
            self.adam.step()
        self.steps += 1
        keep = min(self.average, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.smooth, [x.detach() for x in self.params], 1 - keep)

    def averaged(self, model):
        """model.state_dict() with the averaged values of what was trained."""
        state = {k: v.detach().clone() for k, v in model.state_dict().items()}
        state.update({n: s.clone() for (n, _), s in zip(self.named, self.smooth) if n in state})
        return state

    def settle(self):
        """Puts the averaged values in place."""
        with torch.no_grad():
            torch._foreach_copy_(self.params, self.smooth)

    def recover(self):
        """True, after going back to the average, if a weight is not finite."""
        if all(bool(torch.isfinite(x).all()) for x in self.params):
            return False
        self.settle()
        self.adam.state.clear()
        return True
