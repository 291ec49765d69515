"""Makes tests/data/weights: golden files for the weight readers and the SAM 3 name lists.

Run it in the reference environment, with ggml's library installed there (Debian: libggml-dev):

    python3 tests/goldens/weights.py tests/data/weights --official NAMES.txt [--converter CHECKOUT]

NAMES.txt lists Meta's SAM 3 checkpoint, one "name [shape]" a line; --official31 takes the same of SAM 3.1. CHECKOUT is a
source tree of transformers; with it the pairs of official and Hugging Face names come from its own conversion script,
otherwise that file is left alone.
"""

import argparse
import ctypes
import itertools
import re
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13,
              "q6_k": 14}
BLOCKS = {"q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34),
          "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210)}
# Where the f16 scales lie in a block; random bytes there would give infinities.
SCALES = {"q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q4_k": [0, 2], "q5_k": [0, 2],
          "q6_k": [208]}


# ---- an independent dequantiser: bits are taken out one value at a time ------------------------------------------

def half(block, at):
    return np.float32(np.frombuffer(bytes(block[at:at + 2]), np.float16)[0])


def packed_sixes(scales):
    """Eight (scale, minimum) pairs of 6 bits from 12 bytes."""
    pairs = []
    for j in range(8):
        if j < 4:
            pairs.append((scales[j] % 64, scales[j + 4] % 64))
        else:
            pairs.append((scales[j + 4] % 16 + scales[j - 4] // 64 * 16, scales[j + 4] // 16 + scales[j] // 64 * 16))
    return pairs


def dequantize_block(kind, block):
    block = [int(b) for b in block]
    d, out = None, []
    if kind == "q6_k":
        d = half(block, 208)
        for i in range(256):
            part, run, j = i // 128, i % 128 // 32, i % 32
            nibble = block[64 * part + 32 * (run % 2) + j]
            low = nibble % 16 if run < 2 else nibble // 16
            high = block[128 + 32 * part + j] // 4**run % 4
            scale = np.int8(np.uint8(block[192 + i // 16]))
            out.append(d * np.float32(scale) * np.float32(low + 16 * high - 32))
    elif kind in ("q4_k", "q5_k"):
        d, dmin, pairs = half(block, 0), half(block, 2), packed_sixes(block[4:16])
        nibbles = 16 if kind == "q4_k" else 48
        for i in range(256):
            group, j = i // 32, i % 32
            byte = block[nibbles + 32 * (group // 2) + j]
            q = byte % 16 if group % 2 == 0 else byte // 16
            if kind == "q5_k":
                q += 16 * (block[16 + j] // 2**group % 2)
            scale, minimum = pairs[group]
            out.append(d * np.float32(scale) * np.float32(q) - dmin * np.float32(minimum))
    else:
        d = half(block, 0)
        m = half(block, 2) if kind in ("q4_1", "q5_1") else None
        at = 2 if m is None else 4
        for i in range(32):
            if kind == "q8_0":
                out.append(np.float32(np.int8(np.uint8(block[2 + i]))) * d)
                continue
            five = kind.startswith("q5")
            byte = block[at + (4 if five else 0) + i % 16]
            q = byte % 16 if i < 16 else byte // 16
            if five:
                q += 16 * (block[at + i // 8] // 2 ** (i % 8) % 2)
            out.append(np.float32(q) * d + m if m is not None else np.float32(q - (16 if five else 8)) * d)
    return np.array(out, np.float32)


def dequantize(kind, data):
    size = BLOCKS[kind][1]
    return np.concatenate([dequantize_block(kind, data[i:i + size]) for i in range(0, len(data), size)])


# ---- ggml's own library ------------------------------------------------------------------------------------------

class Ggml:
    def __init__(self):
        self.base = ctypes.CDLL("libggml-base.so.0")
        self.base.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.base.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                                  ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]

    def quantize(self, kind, values):
        values = np.ascontiguousarray(values, np.float32)
        block, size = BLOCKS[kind]
        out = np.zeros(len(values) // block * size, np.uint8)
        written = self.base.ggml_quantize_chunk(GGML_TYPES[kind], values.ctypes.data, out.ctypes.data, 0, 1,
                                                len(values), None)
        assert written == len(out)
        return out

    def dequantize(self, kind, data):
        function = getattr(self.base, "dequantize_row_" + kind.replace("_k", "_K"))
        out = np.zeros(len(data) // BLOCKS[kind][1] * BLOCKS[kind][0], np.float32)
        function(ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(len(out)))
        return out

    def write_gguf(self, path):
        """A file with a metadata value of every type and a few tensors, written by ggml."""
        b = self.base
        for name in ("gguf_init_empty", "ggml_init", "ggml_new_tensor_2d", "ggml_get_data"):
            getattr(b, name).restype = ctypes.c_void_p
        p = ctypes.c_void_p
        file = p(b.gguf_init_empty())

        def put(kind, key, value, ctype):
            getattr(b, "gguf_set_val_" + kind)(file, key.encode(), ctype(value))

        put("u8", "number.u8", 200, ctypes.c_uint8)
        put("i8", "number.i8", -100, ctypes.c_int8)
        put("u16", "number.u16", 60000, ctypes.c_uint16)
        put("i16", "number.i16", -30000, ctypes.c_int16)
        put("u32", "number.u32", 4000000000, ctypes.c_uint32)
        put("i32", "number.i32", -2000000000, ctypes.c_int32)
        put("u64", "number.u64", 2**63 + 5, ctypes.c_uint64)
        put("i64", "number.i64", -2**62, ctypes.c_int64)
        put("f32", "number.f32", 1.5, ctypes.c_float)
        put("f64", "number.f64", 1e300, ctypes.c_double)
        put("bool", "flag", True, ctypes.c_bool)
        put("str", "general.architecture", "sam3-test".encode(), ctypes.c_char_p)
        ints = (ctypes.c_int32 * 4)(7, 15, 23, 31)
        b.gguf_set_arr_data(file, b"list.i32", ctypes.c_int(5), ctypes.cast(ints, p), ctypes.c_size_t(4))
        doubles = (ctypes.c_float * 3)(0.5, 0.25, -1.0)
        b.gguf_set_arr_data(file, b"list.f32", ctypes.c_int(6), ctypes.cast(doubles, p), ctypes.c_size_t(3))
        words = (ctypes.c_char_p * 3)(b"a</w>", b"", "\u00e9".encode())
        b.gguf_set_arr_str(file, b"list.words", words, ctypes.c_size_t(3))

        class InitParams(ctypes.Structure):
            _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", p), ("no_alloc", ctypes.c_bool)]

        b.ggml_init.argtypes = [InitParams]
        context = p(b.ggml_init(InitParams(1 << 20, None, False)))
        for kind in ("f32", "f16", "q8_0", "q4_k"):
            values = (np.arange(512, dtype=np.float32) - 200) / 64
            tensor = p(b.ggml_new_tensor_2d(context, ctypes.c_int(GGML_TYPES[kind]), ctypes.c_int64(256),
                                            ctypes.c_int64(2)))
            b.ggml_set_name(tensor, ("layer." + kind).encode())
            data = {"f32": lambda: values, "f16": lambda: values.astype(np.float16)}.get(
                kind, lambda: self.quantize(kind, values))()
            ctypes.memmove(b.ggml_get_data(tensor), data.ctypes.data, data.nbytes)
            b.gguf_add_tensor(file, tensor)
        assert b.gguf_write_to_file(file, str(path).encode(), ctypes.c_bool(False))


def quantizer_inputs(random):
    """Blocks of 256 values that take the quantisers through all their branches."""
    halves = np.zeros(256)
    halves[:4] = [127.0, 0.5, -0.5, 1.5]  # q8_0 rounds halves away from zero
    return np.stack([
        random.normal(0, 0.05, 256), random.normal(0, 1, 256), random.uniform(0, 1, 256), -random.uniform(0, 1, 256),
        random.uniform(3, 4, 256), random.standard_t(2, 256), np.zeros(256), np.full(256, 0.3), np.full(256, -0.3),
        np.arange(256) / 255 - 0.5, np.where(np.arange(256) % 32 == 0, 1, 0), random.normal(0, 1e-7, 256),
        random.normal(0, 100, 256), np.round(random.normal(0, 8, 256)) / 8, halves,
        random.normal(0, 1, 256) * np.repeat(10.0 ** np.arange(-8, 0), 32),
    ]).astype(np.float32).reshape(-1)


def write_blocks(ggml, path):
    random = np.random.default_rng(3)
    tensors = {}
    for kind, (block, size) in BLOCKS.items():
        made = ggml.quantize(kind, random.normal(0, 0.05, 2 * block).astype(np.float32))
        wild = random.integers(0, 256, 2 * size, dtype=np.uint8)  # every bit pattern that a hostile file may hold
        for start, at in itertools.product((0, size), SCALES[kind]):
            scale = np.float16(random.normal(0, 0.1))
            wild[start + at:start + at + 2] = np.frombuffer(scale.tobytes(), np.uint8)
        data = np.concatenate([made, wild])
        values = ggml.dequantize(kind, data)
        assert np.array_equal(values, dequantize(kind, data)), kind
        tensors[f"{kind}.bytes"] = torch.from_numpy(data)
        tensors[f"{kind}.values"] = torch.from_numpy(values)
    source = quantizer_inputs(random)
    tensors["source"] = torch.from_numpy(source)
    for kind in BLOCKS:
        tensors[f"{kind}.encoded"] = torch.from_numpy(ggml.quantize(kind, source))
    save_file(tensors, path)


def write_types(path):
    """Every type that safetensors' own library writes, in shapes that the readers must get right."""
    ramp = torch.arange(6).reshape(2, 3)
    save_file({
        "f32": ramp.float() - 2.5, "f16": ramp.half() - 2.5, "bf16": ramp.bfloat16() - 2.5, "f64": ramp.double() - 2.5,
        "i8": ramp.to(torch.int8) - 3, "u8": ramp.to(torch.uint8), "i16": ramp.to(torch.int16) - 3,
        "i32": ramp.to(torch.int32) - 3, "i64": ramp - 3, "bool": ramp % 2 == 1,
        "f8": ramp.float().to(torch.float8_e4m3fn), "scalar": torch.tensor(4.25), "empty": torch.zeros(0, 4),
    }, path, metadata={"format": "pt"})  # one key: their order is not fixed


# ---- name lists --------------------------------------------------------------------------------------------------

def ranges(numbers):
    """[0, 1, 2, 5] -> "0-2,5"."""
    text = []
    for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in run]
        text.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(text)


def collapse(lines):
    """Lines that differ only in their first layer number become one, with {0-31} in its place. The same number in
    other places of the line (a pair of names) becomes {}."""
    groups = {}
    for line in lines:
        found = re.search(r"\.(\d+)\.", line)
        if not found:
            groups.setdefault(line, None)
            continue
        number = found.group(1)
        first = line[:found.start()] + ".{#}." + line[found.end():]
        if " -> " in first:
            left, right = first.split(" -> ")
            first = left + " -> " + re.sub(rf"\.{number}\.", ".{}.", right, count=1)
        groups.setdefault(first, []).append(int(number))
    return [line if numbers is None else line.replace("{#}", "{" + ranges(numbers) + "}")
            for line, numbers in groups.items()]


def hugging_face_names():
    from transformers import Sam3VideoConfig, Sam3VideoModel
    with torch.device("meta"):
        model = Sam3VideoModel(Sam3VideoConfig())
    return {name: list(tensor.shape) for name, tensor in model.state_dict().items()}


def converted_names(checkout, official):
    """Official name -> Hugging Face name, by the conversion script of a transformers checkout. It expects the older
    prefixes of the two models."""
    sys.modules.setdefault("regex", types.ModuleType("regex")).sub = re.sub
    sys.modules["regex"].match = re.match
    for module in ("transformers.models.sam2_video.video_processing_sam2_video",):
        try:
            __import__(module)
        except Exception:
            sys.modules[module] = types.ModuleType(module)
            sys.modules[module].Sam2VideoVideoProcessor = None
    path = Path(checkout) / "src/transformers/models/sam3_video/convert_sam3_video_to_hf.py"
    script = runpy.run_path(str(path), run_name="script")
    old = [re.sub("^tracker.", "sam2_predictor.model.", re.sub("^detector.", "sam3_model.", name)) for name in official]
    renamed = script["convert_old_keys_to_new_keys"](old)
    return {name: renamed[key] for name, key in zip(official, old)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--official", type=Path)
    parser.add_argument("--official31", type=Path)
    parser.add_argument("--converter", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    ggml = Ggml()
    write_blocks(ggml, options.folder / "blocks.safetensors")
    write_types(options.folder / "types.safetensors")
    ggml.write_gguf(options.folder / "ggml.gguf")
    names = hugging_face_names()
    (options.folder / "sam3-hf-names.txt").write_text("\n".join(collapse(f"{k} {v}" for k, v in names.items())) + "\n")
    if options.official31:
        lines = [line for line in options.official31.read_text().splitlines() if line.endswith("]")]
        (options.folder / "sam3.1-official-names.txt").write_text("\n".join(collapse(lines)) + "\n")
    if options.official:
        official = [line for line in options.official.read_text().splitlines() if line]
        (options.folder / "sam3-official-names.txt").write_text("\n".join(collapse(official)) + "\n")
        if options.converter:
            pairs = converted_names(options.converter, [line.split(" ")[0] for line in official])
            lines = collapse(f"{old} -> {new}" for old, new in pairs.items())
            (options.folder / "sam3-official-to-hf.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
