"""One stream of random numbers for scenes and prompts."""
import torch


class Rng:
    """Every draw comes from one generator.

    Training draws on its own device. Held-out scenes draw on the CPU (`host=True`), so that a seed names the same
    scene on every machine.
    """

    def __init__(self, device, seed, host=False):
        self.device = torch.device(device)
        self.source = torch.device("cpu") if host else self.device
        self.generator = torch.Generator(device=self.source).manual_seed(seed)

    def rand(self, *shape, lo=0.0, hi=1.0):
        x = torch.rand(shape, generator=self.generator, device=self.source).to(self.device)
        return x if (lo == 0.0 and hi == 1.0) else x * (hi - lo) + lo

    def randn(self, *shape):
        return torch.randn(shape, generator=self.generator, device=self.source).to(self.device)

    def randint(self, n, *shape):
        return torch.randint(n, shape, generator=self.generator, device=self.source).to(self.device)

    def bern(self, p, *shape):
        """True with probability p (a number or a tensor on the device)."""
        return self.rand(*shape) < p

    def pick(self, weight):
        """One index for each row of the weights [M, n]; rows of zeros give any index.

        The Gumbel trick: no synchronisation with the GPU, and zero rows are no error.
        """
        u = self.rand(*weight.shape).clamp_(1e-9, 1 - 1e-7)
        return (torch.log(weight.clamp(min=1e-12)) - torch.log(-torch.log(u))).argmax(-1)
