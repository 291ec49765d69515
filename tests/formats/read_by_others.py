#!/usr/bin/env python3
"""Reads result files by other means than this project's; scripts/test-formats runs it.

    read_by_others.py make SCENE          pictures, masks (masks.npz), COCO and YouTube-VIS files
    read_by_others.py check SCENE OUT     OUT/FORMAT as scripts/test-formats wrote them

Pillow and NumPy are needed; OpenCV, pycocotools and labelme are used where they are installed.
"""

import csv
import importlib
import json
import pathlib
import sys

import numpy
from PIL import Image

WIDTH, HEIGHT, FRAMES = 61, 47, 5
LABELS = {"a": ["ring", "two parts"], "b": ["ring"]}


def disc(x, y, radius):
    rows, columns = numpy.mgrid[:HEIGHT, :WIDTH]
    return (columns - x) ** 2 + (rows - y) ** 2 < radius ** 2


def scene_masks():
    ring = disc(20, 20, 15) & ~disc(20, 20, 8)
    parts = disc(45, 10, 6) | disc(50, 38, 7)
    clip = [[disc(10 + 4 * f, 12, 6), disc(40 - 3 * f, 36, 7) if f > 0 else None] for f in range(FRAMES)]
    return {"a": [ring, parts], "b": [disc(30, 22, 18) & ~disc(30, 22, 3)]}, clip


def counts_of(mask):
    """COCO's plain run lengths: columns from the left, background first."""
    flat = mask.T.reshape(-1).astype(int)
    ends = [*(numpy.flatnonzero(numpy.diff(flat)) + 1), flat.size]
    runs = numpy.diff([0, *ends]).tolist()
    return runs if flat[0] == 0 else [0, *runs]


def mask_of_counts(text, height, width):
    """COCO's compressed run lengths, decoded after its description."""
    runs, at = [], 0
    while at < len(text):
        value = shift = 0
        while True:
            bits = ord(text[at]) - 48
            at += 1
            value |= (bits & 31) << shift
            shift += 5
            if not bits & 32:
                break
        if bits & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    flat = numpy.repeat(numpy.arange(len(runs)) % 2, runs)
    return flat.reshape(width, height).T.astype(bool)


def inside(points):
    """Pixels whose centre lies inside of the polygon by the even-odd rule."""
    rows, columns = numpy.mgrid[:HEIGHT, :WIDTH] + 0.5
    out = numpy.zeros((HEIGHT, WIDTH), bool)
    for (x0, y0), (x1, y1) in zip(points, [*points[1:], points[0]]):
        if y0 == y1:
            continue
        crosses = (rows >= min(y0, y1)) & (rows < max(y0, y1))
        out ^= crosses & (columns > x0 + (rows - y0) / (y1 - y0) * (x1 - x0))
    return out


def polygons_mask(polygons):
    mask = numpy.zeros((HEIGHT, WIDTH), bool)
    for polygon in polygons:
        mask |= inside(polygon)
    return mask


def make(scene):
    scene.mkdir()
    stills, clip = scene_masks()
    names = ["ring", "two parts"]
    annotations = []
    for place, (stem, masks) in enumerate(stills.items()):
        pixels = numpy.random.default_rng(place).integers(0, 256, (HEIGHT, WIDTH, 3), numpy.uint8)
        Image.fromarray(pixels).save(scene / f"{stem}.png")
        for label, mask in zip(LABELS[stem], masks):
            annotations.append({"id": len(annotations) + 1, "image_id": place + 1, "category_id": names.index(label) + 1,
                                "score": 0.5, "segmentation": {"size": [HEIGHT, WIDTH], "counts": counts_of(mask)}})
    images = [{"id": i + 1, "file_name": f"{stem}.png", "width": WIDTH, "height": HEIGHT} for i, stem in enumerate(stills)]
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(names)]
    (scene / "coco.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    tracks = [{"id": o + 1, "video_id": 7, "category_id": o + 1, "score": 0.5, "segmentations": [
        None if frame[o] is None else {"size": [HEIGHT, WIDTH], "counts": counts_of(frame[o])} for frame in clip]} for o in range(2)]
    video = {"id": 7, "name": "street", "width": WIDTH, "height": HEIGHT, "file_names": [f"street/{f:05}" for f in range(FRAMES)]}
    (scene / "clip.json").write_text(json.dumps({"videos": [video], "annotations": tracks, "categories": categories}))


class Check:
    def __init__(self, scene, out):
        self.scene, self.out = scene, out
        self.stills, self.clip = scene_masks()

    def same(self, found, expected, what):
        assert found.shape == expected.shape, f"{what}: {found.shape} is not {expected.shape}"
        assert (found == expected).all(), f"{what}: {(found != expected).sum()} pixels differ"

    def objects(self):
        return [(stem, number, mask) for stem, masks in self.stills.items() for number, mask in enumerate(masks)]

    def json(self):
        for stem, masks in self.stills.items():
            record = json.loads((self.out / f"json/{stem}.json").read_text())
            for found, mask in zip(record["detections"], masks, strict=True):
                self.same(mask_of_counts(found["mask"]["counts"], *found["mask"]["size"]), mask, "json")

    def jsonl(self):
        lines = (self.out / "jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [json.loads((self.out / f"json/{stem}.json").read_text()) for stem in self.stills]

    def coco(self):
        self.coco_file("coco", lambda s: mask_of_counts(s["counts"], *s["size"]))

    def polygons(self):
        self.coco_file("polygons", lambda s: polygons_mask([list(zip(p[::2], p[1::2])) for p in s]))

    def coco_file(self, name, decode):
        data = json.loads((self.out / name).read_text())
        names = {image["id"]: image["file_name"] for image in data["images"]}
        for found, (stem, number, mask) in zip(data["annotations"], self.objects(), strict=True):
            assert names[found["image_id"]] == f"{stem}.png"
            self.same(decode(found["segmentation"]), mask, name)
            assert found["area"] == mask.sum()

    def coco_results(self):
        data = json.loads((self.out / "coco-results").read_text())
        for found, (_, _, mask) in zip(data, self.objects(), strict=True):
            self.same(mask_of_counts(found["segmentation"]["counts"], HEIGHT, WIDTH), mask, "coco-results")
            assert found["score"] == 0.5

    def yolo(self):
        assert '0: "ring"' in (self.out / "yolo/data.yaml").read_text()
        for stem, masks in self.stills.items():
            lines = (self.out / f"yolo/labels/{stem}.txt").read_text().splitlines()
            for line, label, mask in zip(lines, LABELS[stem], masks, strict=True):
                number, *values = line.split()
                assert int(number) == ["ring", "two parts"].index(label)
                points = numpy.array(values, float).reshape(-1, 2)
                assert points.min() >= 0 and points.max() <= 1
                self.same(inside((points * (WIDTH, HEIGHT)).tolist()), mask, "yolo")

    def labelme(self):
        for stem, masks in self.stills.items():
            data = json.loads((self.out / f"labelme/{stem}.json").read_text())
            assert data["imagePath"] == f"{stem}.png" and data["imageWidth"] == WIDTH
            for number, mask in enumerate(masks):
                shapes = [s["points"] for s in data["shapes"] if s["group_id"] == number]
                self.same(polygons_mask(shapes), mask, "labelme")

    def png(self):
        for stem, number, mask in self.objects():
            with Image.open(self.out / f"png/{stem}_mask_{number}.png") as image:
                assert image.mode == "L"
                self.same(numpy.asarray(image), mask * numpy.uint8(255), "png")

    def label_image(self, path, masks, mode):
        with Image.open(path) as image:
            assert image.mode in mode, f"{path}: mode {image.mode}"
            labels = numpy.asarray(image).astype(int)
            if "P" in mode:
                assert image.getpalette()[:12] == [0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0], "the palette of DAVIS"
        expected = sum((number + 1) * mask.astype(int) for number, mask in enumerate(masks) if mask is not None)
        self.same(labels, expected, str(path))

    def davis(self):
        for stem, masks in self.stills.items():
            self.label_image(self.out / f"davis/{stem}.png", masks, ["P"])
        for f, masks in enumerate(self.clip):
            self.label_image(self.out / f"clip-davis/street/{f:05}.png", masks, ["P"])

    def ids(self):
        for stem, masks in self.stills.items():
            self.label_image(self.out / f"ids/{stem}_ids.png", masks, ["I", "I;16", "I;16B"])

    def cutout(self):
        for stem, number, mask in self.objects():
            pixels = numpy.asarray(Image.open(self.scene / f"{stem}.png"))
            rows, columns = numpy.flatnonzero(mask.any(1)), numpy.flatnonzero(mask.any(0))
            box = numpy.s_[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
            with Image.open(self.out / f"cutout/{stem}_cutout_{number}.png") as image:
                assert image.mode == "RGBA"
                found = numpy.asarray(image)
            self.same(found[..., 3], mask[box] * numpy.uint8(255), "cutout")
            self.same(found[..., :3][mask[box]], pixels[box][mask[box]], "cutout")

    def matte(self):
        for stem, number, mask in self.objects():
            found = numpy.asarray(Image.open(self.out / f"matte/{stem}_matte_{number}.png"))
            self.same(found >= 128, mask, "matte")
            assert len(numpy.unique(found)) > 4, "a soft edge has more than two values"

    def overlay(self):
        for stem in self.stills:
            for name in (f"overlay/{stem}_overlay.png", f"overlay-jpg/{stem}_overlay.jpg"):
                with Image.open(self.out / name) as image:
                    assert image.size == (WIDTH, HEIGHT) and image.mode == "RGB"
                    assert image.convert("RGB").tobytes() != Image.open(self.scene / f"{stem}.png").tobytes()

    def csv(self):
        with open(self.out / "csv", newline="") as file:
            for row, (stem, number, mask) in zip(csv.DictReader(file), self.objects(), strict=True):
                assert (row["file"], int(row["id"]), int(row["area"])) == (f"{stem}.png", number, mask.sum())

    def mots(self):
        found = {}
        for line in (self.out / "mots/street.txt").read_text().splitlines():
            frame, number, category, height, width, counts = line.split(" ")
            assert int(number) // 1000 == int(category)
            found[int(frame), int(number) % 1000] = mask_of_counts(counts, int(height), int(width))
        expected = {(f, o): mask for f, masks in enumerate(self.clip) for o, mask in enumerate(masks) if mask is not None}
        assert found.keys() == expected.keys()
        for key, mask in expected.items():
            self.same(found[key], mask, "mots")

    def lines(self):
        for f, line in enumerate((self.out / "tracks/street.jsonl").read_text().splitlines()):
            found = {o["id"]: mask_of_counts(o["mask"]["counts"], *o["mask"]["size"]) for o in json.loads(line)["objects"]}
            expected = {o: mask for o, mask in enumerate(self.clip[f]) if mask is not None}
            assert json.loads(line)["frame"] == f and found.keys() == expected.keys()
            for o, mask in expected.items():
                self.same(found[o], mask, "tracks")

    def ytvis(self):
        data = json.loads((self.out / "ytvis").read_text())
        assert data["videos"][0]["length"] == FRAMES
        self.tracks(data["annotations"], "ytvis")

    def veval(self):
        data = json.loads((self.out / "veval").read_text())
        assert all(item["video_id"] == 7 and item["score"] == 0.5 for item in data)
        self.tracks(sorted(data, key=lambda item: item["category_id"]), "veval")

    def tracks(self, items, what):
        for o, item in enumerate(items):
            assert item["category_id"] == o + 1
            for f, masks in enumerate(self.clip):
                found = item["segmentations"][f]
                assert (found is None) == (masks[o] is None), f"{what}: frame {f}"
                if found is not None:
                    self.same(mask_of_counts(found["counts"], *found["size"]), masks[o], what)

    # Where they are installed: the programs that the formats come from.

    def with_pycocotools(self, module):
        coco = module.COCO(str(self.out / "coco"))
        for found, (_, _, mask) in zip(coco.anns.values(), self.objects(), strict=True):
            self.same(coco.annToMask(found) > 0, mask, "pycocotools")
        polygons = module.COCO(str(self.out / "polygons"))
        for found, (_, _, mask) in zip(polygons.anns.values(), self.objects(), strict=True):
            differ = ((polygons.annToMask(found) > 0) != mask).sum()  # it rounds outlines differently
            assert differ <= 0.1 * mask.sum(), f"pycocotools' polygons: {differ} pixels differ"
        assert len(coco.loadRes(str(self.out / "coco-results")).anns) == 3

    def with_opencv(self, module):
        for stem, number, mask in self.objects():
            self.same(module.imread(str(self.out / f"png/{stem}_mask_{number}.png"), 0) > 0, mask, "OpenCV")
            line = (self.out / f"yolo/labels/{stem}.txt").read_text().splitlines()[number]
            points = numpy.array(line.split()[1:], float).reshape(-1, 2) * (WIDTH, HEIGHT)
            drawn = numpy.zeros((HEIGHT, WIDTH), numpy.uint8)
            module.fillPoly(drawn, [points.round().astype(numpy.int32)], 1)  # with a pen: edges and slits are filled
            assert (drawn[mask] > 0).all() and drawn.sum() < 1.6 * mask.sum(), "OpenCV's polygons"
        ids = module.imread(str(self.out / "ids/a_ids.png"), module.IMREAD_UNCHANGED)
        assert ids.dtype == numpy.uint16 and ids.max() == 2
        video, frames = module.VideoCapture(str(self.out / "video/clip_overlay.mp4")), 0
        while True:
            more, frame = video.read()
            if not more:
                break
            assert frame.shape == (336, 336, 3)
            frames += 1
        assert frames == 4, f"OpenCV reads {frames} frames of the overlay"

    def with_labelme(self, module):
        file = module.LabelFile(str(self.out / "labelme/a.json"))
        label_image, _ = importlib.import_module("labelme.utils").shapes_to_label(
            (HEIGHT, WIDTH), file.shapes, {"ring": 1, "two parts": 2})
        for number, mask in enumerate(self.stills["a"]):
            assert (label_image[mask] == number + 1).mean() > 0.95, "labelme"

    def run(self):
        for name in ("json jsonl coco polygons coco_results yolo labelme png davis ids cutout matte overlay csv lines mots ytvis veval").split():
            getattr(self, name)()
            print(f"{name}: read by NumPy and Pillow")
        for name, package in (("pycocotools", "pycocotools.coco"), ("opencv", "cv2"), ("labelme", "labelme.label_file")):
            try:
                module = importlib.import_module(package)
            except ImportError:
                print(f"{name}: not installed, left out")
                continue
            if name == "labelme":  # the file names its picture beside itself
                for stem in self.stills:
                    (self.out / f"labelme/{stem}.png").write_bytes((self.scene / f"{stem}.png").read_bytes())
            getattr(self, f"with_{name}")(module)
            print(f"{name}: reads them")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(pathlib.Path(sys.argv[2]))
    else:
        Check(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])).run()
