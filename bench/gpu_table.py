"""Prints what scripts/test-on-gpu found, as Markdown: the steps, then the times beside transformers.

    python gpu_table.py FOLDER
"""
import json
import sys
from pathlib import Path


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # a step that failed or was left out


def milliseconds(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:.2f}"


def pick(report, *keys):
    for key in keys:
        report = None if report is None else report.get(key)
    return report


def print_steps(folder):
    print("| step | result | s |\n|---|---|---|")
    for line in (folder / "steps.tsv").read_text().splitlines():
        print("| " + " | ".join(line.split("\t")) + " |")


# what; our file; the place of our seconds; the reference's name; pictures at a time
ROWS = (
    ("image and phrase, to masks", "phrase", ("waits", "image_phrase"), "image_phrase", 1),
    ("second phrase", "phrase", ("waits", "second_phrase"), "second_phrase", 1),
    ("on the GPU: image and phrase, to 100 masks", "phrase", ("waits", "on_device"), None, 1),
    ("on the GPU: second phrase, to 100 masks", "phrase", ("waits", "second_on_device"), None, 1),
    ("image encoder alone", "encoder", ("seconds", "image_encoder"), "encoder", 1),
    ("with 0.1 s between runs: on the GPU, image and phrase, to 100 masks", "phrase-rested", ("waits", "on_device"), None, 1),
    ("with 0.1 s between runs: on the GPU, second phrase, to 100 masks", "phrase-rested", ("waits", "second_on_device"), None, 1),
    ("with 0.1 s between runs: image encoder alone", "encoder-rested", ("seconds", "image_encoder"), None, 1),
    ("image encoder, {batch} at a time, each", "batch", ("seconds", "image_encoder"), "encoder_batch", 0),
    ("image and phrase, {batch} at a time, each", "batch", ("waits", "image_phrase"), None, 0),
    ("in fp8: on the GPU, image and phrase, to 100 masks", "fp8", ("waits", "on_device"), None, 1),
    ("in fp8: image encoder within it", "fp8", ("seconds", "image_encoder"), None, 1),
    ("click on an encoded image", "click", ("waits", "next_click"), None, 1),
    ("video frame, 1 object", "video-1", ("waits", "video_frame"), None, 1),
    ("video frame, 5 objects", "video-5", ("waits", "video_frame"), None, 1),
    ("video frame, 16 objects", "video-16", ("waits", "video_frame"), None, 1),
    ("video frame by phrase, 1 object", "concepts-1", ("waits", "concept_frame"), None, 1),
    ("video frame by phrase, 5 objects", "concepts-5", ("waits", "concept_frame"), None, 1),
    ("video frame by phrase, 16 objects", "concepts-16", ("waits", "concept_frame"), None, 1),
    ("video frame by phrase, decoded from a file, 1 object", "file-1", ("waits", "concept_frame"), None, 1),
    ("video frame by phrase, decoded from a file, 5 objects", "file-5", ("waits", "concept_frame"), None, 1),
    ("video frame by phrase, decoded from a file, 16 objects", "file-16", ("waits", "concept_frame"), None, 1),
)


def print_times(folder, reference):
    print("\n| median ms | sam3.cpp | transformers, compiled | transformers, eager | compiled / ours |\n|---|---|---|---|---|")
    for title, name, place, theirs, each in ROWS:
        report = load(folder / f"bench-{name}.json")
        if report is None:
            continue
        count = each or report["batch"]
        ours = pick(report, *place, "median")
        compiled, eager = (pick(reference, mode, theirs, "median") for mode in ("compiled", "eager"))
        ours, compiled, eager = (None if value is None else value / count for value in (ours, compiled, eager))
        ratio = f"{compiled / ours:.2f}" if ours and compiled else "-"
        print(f"| {title.format(batch=count)} | {milliseconds(ours)} | {milliseconds(compiled)} | {milliseconds(eager)} | {ratio} |")


def print_peaks(folder, reference):
    for name in ("phrase", "encoder"):
        report = load(folder / f"bench-{name}.json")
        if report and "peak_gflops" in report:
            print(f"\n{name} on {report['device']} in {report['precision']}: {report['gflops'] / 1e3:.0f} TFLOP/s, "
                  f"{report['percent_of_peak']:.0f} % of the {report['peak_gflops'] / 1e3:.0f} that one large product reaches; "
                  f"tensors and weights at most {report['peak_tensor_bytes'] / 1e9:.2f} GB")
    if reference:
        print(f"\nPyTorch {reference['torch']}, transformers {reference['transformers']}, {reference['precision']}, "
              f"torch.compile mode {reference['mode']}; most memory {reference.get('peak_bytes', 0) / 1e9:.2f} GB")


def main():
    folder = Path(sys.argv[1])
    reference = load(folder / "reference.json")
    print_steps(folder)
    print_times(folder, reference)
    print_peaks(folder, reference)


if __name__ == "__main__":
    main()
