"""Some scenes and the first frames of some clips of a held-out set (train/heldout.py) as JPEG files.

    eval_set.py HELDOUT tests/data/eval --scenes 3 5 --clips 1 --frames 6
    eval_set.py HELDOUT tests/data/quality --scenes $(seq 0 39) --clips $(seq 0 4) --frames 16
"""
import argparse
import json
import os

from PIL import Image

QUALITY = 70


def save(heldout, out, name):
    """Copies a picture as JPEG and returns its new name."""
    new = os.path.splitext(name)[0] + ".jpg"
    os.makedirs(os.path.dirname(os.path.join(out, new)), exist_ok=True)
    Image.open(os.path.join(heldout, name)).convert("RGB").save(os.path.join(out, new), quality=QUALITY, optimize=True)
    return new


def load(path):
    with open(path) as file:
        return json.load(file)


def write(data, path):
    with open(path, "w") as file:
        file.write(json.dumps(data, separators=(",", ":")) + "\n")


def cut(data, owner, ids, lists):
    """The file with only what belongs to these images or clips."""
    out = {key: [x for x in data[key] if x[owner] in ids] for key in lists}
    used = {a["category_id"] for a in out["annotations"]}
    out["categories"] = [c for c in data["categories"] if c["id"] in used]
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("heldout")
    ap.add_argument("out")
    ap.add_argument("--scenes", type=int, nargs="+", required=True)
    ap.add_argument("--clips", type=int, nargs="+", required=True)
    ap.add_argument("--frames", type=int, default=6)
    args = ap.parse_args()

    images = load(os.path.join(args.heldout, "images.json"))
    scenes = cut(images, "image_id", args.scenes, ("annotations", "prompts", "exemplars"))
    scenes["images"] = [{**i, "file_name": save(args.heldout, args.out, i["file_name"])}
                        for i in images["images"] if i["id"] in args.scenes]
    write(scenes, os.path.join(args.out, "images.json"))

    films = load(os.path.join(args.heldout, "clips.json"))
    clips = cut(films, "video_id", args.clips, ("annotations", "prompts"))
    clips["videos"] = [{**v, "file_names": [save(args.heldout, args.out, n) for n in v["file_names"][:args.frames]],
                        "length": args.frames} for v in films["videos"] if v["id"] in args.clips]
    for note in clips["annotations"]:
        for key in ("areas", "bboxes", "segmentations"):
            note[key] = note[key][:args.frames]
    write(clips, os.path.join(args.out, "clips.json"))


if __name__ == "__main__":
    main()
