"""Sums up what bench/gpu_trace.cpp wrote: where a GPU's time went.

    python gpu_trace.py TRACE.tsv [--last MS] [--rows N]

A kernel may start while the one before still runs, and then waits for it. `own` is therefore the time from the end of what came
before to its own end; `whole` is what the GPU had it for. Medians, in microseconds, of the last MS milliseconds.
"""
import argparse
import collections
import statistics

NOISE = ("void ", "sam3::cuda::", "(anonymous namespace)::", "hopper::")


def short(name):
    for text in NOISE:
        name = name.replace(text, "")
    return name[:90]


def read(path, last):
    with open(path, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 4) for line in lines]
    rows = [(int(start), int(length), int(blocks), short(name)) for start, length, _, blocks, name in rows]
    return [row for row in rows if row[0] >= rows[-1][0] - last * 1e6] if rows else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--last", type=float, default=300)
    parser.add_argument("--rows", type=int, default=15)
    options = parser.parse_args()
    rows = read(options.trace, options.last)
    if not rows:
        raise SystemExit(f"{options.trace}: nothing ran on a GPU")
    own, whole = collections.defaultdict(list), collections.defaultdict(list)
    before = rows[0][0]
    for start, length, blocks, name in rows:
        end = start + length
        own[name, blocks].append(max(0, end - max(before, start)))
        whole[name, blocks].append(length)
        before = max(before, end)
    total = sum(map(sum, own.values()))
    print(f"busy for {total / 1e6:.1f} of {(before - rows[0][0]) / 1e6:.1f} ms\n\n  count      own    whole  share  blocks  kernel")
    for key in sorted(own, key=lambda k: -sum(own[k]))[:options.rows]:
        print(f"{len(own[key]):7d} {statistics.median(own[key]) / 1e3:8.1f} {statistics.median(whole[key]) / 1e3:8.1f} "
              f"{100 * sum(own[key]) / total:5.1f}% {key[1]:7d}  {key[0]}")


if __name__ == "__main__":
    main()
