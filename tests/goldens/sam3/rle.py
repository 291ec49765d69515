"""COCO's compressed run-length masks: column-major runs, first of zeros, as a string of 6-bit characters."""
import numpy as np


def mask_to_counts(mask):
    """bool [H, W] -> run lengths over the columns, starting with zeros."""
    flat = np.asarray(mask, bool).ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    bounds = np.concatenate([[0], edges, [flat.size]])
    counts = np.diff(bounds).tolist()
    return [0, *counts] if flat.size and flat[0] else counts


def encode_counts(counts):
    """Each count from the fourth on is a difference to the one two before; 5 bits a character, sixth bit: more."""
    text = []
    for i, count in enumerate(counts):
        value = count - counts[i - 2] if i > 2 else count
        more = True
        while more:
            piece = value & 0x1F
            value >>= 5
            more = value != (-1 if piece & 0x10 else 0)
            text.append(chr((piece | (0x20 if more else 0)) + 48))
    return "".join(text)


def decode_counts(text):
    counts, position = [], 0
    while position < len(text):
        value, shift, more = 0, 0, True
        while more:
            piece = ord(text[position]) - 48
            value |= (piece & 0x1F) << shift
            more = bool(piece & 0x20)
            position += 1
            shift += 5
        if piece & 0x10:
            value |= -1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts


def encode_mask(mask):
    return encode_counts(mask_to_counts(mask))


def decode_mask(size, counts):
    """size [h, w] and the string, or a list of run lengths -> bool [h, w]."""
    runs = decode_counts(counts) if isinstance(counts, str) else counts
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(size, order="F")
