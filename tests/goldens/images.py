"""Small image files of every kind the decoder must know, with what Pillow makes of them.

Run in the reference environment: python images.py OUTPUT_FOLDER (tests/data/image). Writes files/ and decoded.txt.
"""
import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

ORIENTATION = 0x0112


def picture(width, height):
    """Smooth colours with a few hard edges: unlike noise it survives lossy compression."""
    y, x = np.mgrid[0:height, 0:width]
    red = x * 255 // max(width - 1, 1)
    green = y * 255 // max(height - 1, 1)
    blue = 255 - (x + y) * 255 // max(width + height - 2, 1)
    out = np.stack([red, green, blue], axis=2).astype(np.uint8)
    out[height // 4:height // 2, width // 5:width // 2] = (250, 30, 20)
    out[height // 3:, width * 3 // 4:] //= 2
    return out


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, extra=b"", interlace=0):
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def interlaced_png(pixels):
    """Pillow does not write Adam7, so the seven passes are laid out here."""
    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[y0::dy, x0::dx]
        if part.size:
            rows += b"".join(b"\0" + line.tobytes() for line in part)
    return png(pixels.shape[1], pixels.shape[0], 8, 2, rows, interlace=1)


def saved(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def oriented(value):
    exif = Image.Exif()
    exif[ORIENTATION] = value
    return exif.tobytes()


def make():
    rgb = Image.fromarray(picture(45, 31))
    small = Image.fromarray(picture(13, 7))
    files = {}
    for value in range(1, 9):
        files[f"orientation{value}.jpg"] = saved(small, "JPEG", quality=90, exif=oriented(value))
    files["orientation6.png"] = saved(small, "PNG", exif=oriented(6))
    files["orientation8.webp"] = saved(small, "WEBP", lossless=True, exif=oriented(8))
    files["baseline444.jpg"] = saved(rgb, "JPEG", quality=85, subsampling=0)
    files["baseline422.jpg"] = saved(rgb, "JPEG", quality=85, subsampling=1)
    files["baseline420.jpg"] = saved(rgb, "JPEG", quality=85, subsampling=2)
    files["progressive.jpg"] = saved(rgb, "JPEG", quality=75, progressive=True)
    files["grey.jpg"] = saved(rgb.convert("L"), "JPEG", quality=80)
    files["cmyk.jpg"] = saved(rgb.convert("CMYK"), "JPEG", quality=90)
    files["rgb.png"] = saved(rgb, "PNG")
    files["rgba.png"] = saved(Image.fromarray(np.dstack([picture(45, 31), picture(45, 31)[:, :, 0]])), "PNG")
    files["grey.png"] = saved(rgb.convert("L"), "PNG")
    files["grey_alpha.png"] = saved(rgb.convert("LA"), "PNG")
    files["bilevel.png"] = saved(rgb.convert("1"), "PNG")
    files["palette.png"] = saved(rgb.quantize(60), "PNG")
    files["palette4.png"] = saved(rgb.quantize(11), "PNG", bits=4)
    files["palette_transparent.png"] = saved(rgb.quantize(60), "PNG", transparency=3)
    rng = np.random.default_rng(1)
    deep = rng.integers(0, 65536, (9, 14, 3)).astype(">u2")
    files["rgb16.png"] = png(14, 9, 16, 2, b"".join(b"\0" + row.tobytes() for row in deep))
    grey16 = deep[:, :, 0].copy()
    files["grey16.png"] = png(14, 9, 16, 0, b"".join(b"\0" + row.tobytes() for row in grey16))
    packed = rng.integers(0, 256, (3, 7)).astype(np.uint8)
    for depth in (2, 4):
        rows = b"".join(b"\0" + row.tobytes() for row in packed)
        files[f"grey{depth}bits.png"] = png(7 * 8 // depth, 3, depth, 0, rows)
    files["interlaced.png"] = interlaced_png(picture(21, 18))
    files["lossy.webp"] = saved(rgb, "WEBP", quality=80)
    files["lossless.webp"] = saved(rgb, "WEBP", lossless=True)
    alpha = np.dstack([picture(45, 31), np.full((31, 45), 200, np.uint8)])
    files["alpha.webp"] = saved(Image.fromarray(alpha), "WEBP", lossless=True, exact=True)
    files["one_pixel.jpg"] = saved(Image.new("RGB", (1, 1), (10, 200, 90)), "JPEG")
    return files, grey16


def decoded(name, data, grey16):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if name == "grey16.png":  # Pillow clips 16-bit grey at 255; the upper byte is what a viewer shows
        return np.repeat((grey16 >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    return np.asarray(image.convert("RGB"))


if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(f"{folder}/files", exist_ok=True)
    files, grey16 = make()
    lines = ["# file width height crc32 of the upright RGB pixels"]
    for name, data in sorted(files.items()):
        with open(f"{folder}/files/{name}", "wb") as out:
            out.write(data)
        pixels = decoded(name, data, grey16)
        lines.append(f"{name} {pixels.shape[1]} {pixels.shape[0]} {zlib.crc32(pixels.tobytes())}")
    with open(f"{folder}/decoded.txt", "w") as out:
        out.write("\n".join(lines) + "\n")
