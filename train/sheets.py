"""Contact sheets: the truth as white outlines, what the model found as colour."""
import numpy as np
from PIL import Image, ImageDraw

TINTS = np.array([(255, 40, 40), (40, 220, 60), (60, 110, 255), (255, 210, 0), (255, 0, 220), (0, 230, 230),
                  (255, 130, 0), (150, 90, 255)])
BAR = 14


def outline(mask):
    inner = mask.copy()
    inner[1:-1, 1:-1] = mask[1:-1, 1:-1] & mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
    return mask & ~inner


def paint(image, found, truth):
    """image [S,S,3] uint8; found {key: mask}; truth [mask]"""
    out = image.astype(np.float32)
    for i, mask in found.items():
        out[mask] = 0.45 * out[mask] + 0.55 * TINTS[i % len(TINTS)]
    for mask in truth:
        out[outline(mask)] = 255
    return out.astype(np.uint8)


def cell(image, found, truth, text, points=(), box=None):
    picture = Image.fromarray(paint(image, found, truth))
    draw = ImageDraw.Draw(picture)
    for x, y in points:
        draw.ellipse([x - 4, y - 4, x + 4, y + 4], outline=(255, 255, 255), fill=(255, 0, 0))
    if box:
        draw.rectangle([box[0], box[1], box[0] + box[2], box[1] + box[3]], outline=(0, 255, 0))
    return picture, text


def save(cells, path, columns, side=200):
    rows = (len(cells) + columns - 1) // columns
    page = Image.new("RGB", (columns * (side + 4), rows * (side + BAR + 4)), (30, 30, 30))
    draw = ImageDraw.Draw(page)
    for n, (picture, text) in enumerate(cells):
        x, y = (n % columns) * (side + 4), (n // columns) * (side + BAR + 4)
        page.paste(picture.resize((side, side)), (x, y + BAR))
        draw.text((x + 2, y + 1), text, fill=(255, 255, 255))
    page.save(path)
