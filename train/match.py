"""Exact assignment (Hungarian method, shortest augmenting paths) of whole batches, in plain torch."""
import torch

FAR = 1e6


@torch.no_grad()
def hungarian(cost):
    """cost [M, n, m] with n <= m -> [M, n]: the column given to each row, at minimal total cost.

    Every problem of the batch does the same number of steps, so nothing waits for the GPU. Rows that must not matter
    get a constant cost: they then never change what the others get.
    """
    M, n, m = cost.shape
    device = cost.device
    cost = torch.nan_to_num(cost.float(), nan=1e4, posinf=1e4, neginf=-1e4).clamp(-1e4, 1e4)
    c = torch.cat([cost, torch.full((M, n, 1), FAR, device=device)], 2)   # column m: where a path starts
    c = torch.cat([c, torch.zeros(M, 1, m + 1, device=device)], 1)        # row n: no row
    row_price = torch.zeros(M, n + 1, device=device)
    column_price = torch.zeros(M, m + 1, device=device)
    row_of = torch.full((M, m + 1), n, dtype=torch.long, device=device)
    columns = torch.arange(m + 1, device=device)[None]
    for i in range(n):
        row_of[:, m] = i
        here = torch.full((M, 1), m, dtype=torch.long, device=device)
        reach = torch.full((M, m + 1), FAR, device=device)
        came_from = torch.full((M, m + 1), m, dtype=torch.long, device=device)
        used = torch.zeros(M, m + 1, dtype=torch.bool, device=device)
        active = torch.ones(M, 1, dtype=torch.bool, device=device)
        for _ in range(i + 1):
            used |= (columns == here) & active
            row = row_of.gather(1, here)
            step = c.gather(1, row[:, :, None].expand(M, 1, m + 1))[:, 0] - row_price.gather(1, row) - column_price
            better = (step < reach) & ~used & active
            reach = torch.where(better, step, reach)
            came_from = torch.where(better, here, came_from)
            delta, nearest = reach.masked_fill(used, 2 * FAR).min(1, keepdim=True)
            delta = torch.where(active, delta, 0.0)
            paid = torch.where(used, delta, 0.0)
            row_price.scatter_add_(1, row_of, paid)
            column_price -= paid
            reach -= torch.where(used, 0.0, delta)
            here = torch.where(active, nearest, here)
            active = active & (row_of.gather(1, here) != n)
        for _ in range(i + 1):
            back = came_from.gather(1, here)
            row_of.scatter_(1, here, row_of.gather(1, back))
            here = back
    out = torch.zeros(M, n + 1, dtype=torch.long, device=device)
    out.scatter_(1, row_of[:, :m], columns[:, :m].expand(M, m))
    return out[:, :n]
