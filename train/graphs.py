"""Training steps as CUDA graphs: thousands of small launches become one."""
from collections import deque

import torch


class Step:
    """A function that renders, predicts and fills the gradients, without arguments; it returns {name: value}.

    On a GPU its second call is captured and all later ones replay it. The values are summed on the device until
    `read` is called, so that nothing waits for the GPU step by step.
    """

    def __init__(self, function, rng, pool=None, capture=True):
        self.function, self.rng, self.pool = function, rng, pool
        self.capture = capture and rng.device.type == "cuda"
        self.calls, self.graph, self.sums, self.count = 0, None, None, 0

    def __call__(self):
        if self.graph is not None:
            self.graph.replay()
        elif self.capture and self.calls == 1:
            self.record()
            self.graph.replay()
        elif self.capture:
            # graphs are captured on a stream of their own: warm up likewise
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.run()
            torch.cuda.current_stream().wait_stream(side)
        else:
            self.run()
        self.calls += 1
        self.count += 1

    def run(self):
        parts = self.function()
        values = torch.stack([v.float() for v in parts.values()])
        if self.sums is None:
            self.names, self.sums = list(parts), torch.zeros_like(values)
        self.sums += values

    def record(self):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # the graph's memory is its own: give back what the first call took
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.rng.generator)
        with torch.cuda.graph(graph, pool=self.pool):
            self.run()
        self.graph = graph

    def read(self):
        """-> {name: mean since the last read}, how many steps that were"""
        if self.count == 0:
            return {}, 0
        out, n = dict(zip(self.names, (self.sums / self.count).tolist())), self.count
        self.sums.zero_()
        self.count = 0
        return out, n


class Pace:
    """Keeps the host at most two steps ahead of the GPU, so that the clock says how far training is."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.events = deque()

    def tick(self):
        if not self.cuda:
            return
        event = torch.cuda.Event()
        event.record()
        self.events.append(event)
        if len(self.events) > 2:
            self.events.popleft().synchronize()
