"""A SAM 3 in a GGUF file of this program as a Hugging Face folder, so that the reference runs exactly the weights that the program runs.

    python gguf_to_hf.py MODEL.gguf FOLDER

Reads the file by the rules of docs/gguf.md alone, without the program: f32, f16, bf16 and q8_0 tensors.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
BEGINNINGS = [("vision.", "detector_model.vision_encoder.backbone."), ("neck.", "detector_model.vision_encoder.neck."),
              ("text.", "detector_model.text_encoder.text_model."), ("det.", "detector_model."),
              ("trk_neck.", "tracker_neck."), ("trk.twoway.", "tracker_model.mask_decoder.transformer."),
              ("trk.", "tracker_model.")]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def text(self):
        length = self.number("Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at]).decode()

    def value(self, kind):
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == 7:
            return bool(self.number("B"))
        if kind == 8:
            return self.text()
        assert kind == 9, kind
        inner, count = self.number("I"), self.number("Q")
        return [self.value(inner) for _ in range(count)]


def dequantize(kind, data, count):
    if kind == 0:
        return np.frombuffer(data, np.float32, count)
    if kind == 1:
        return np.frombuffer(data, np.float16, count).astype(np.float32)
    if kind == 30:
        return (np.frombuffer(data, np.uint16, count).astype(np.uint32) << 16).view(np.float32)
    assert kind == 8, f"ggml type {kind}"
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("levels", "i1", 32)]), count // 32)
    return (blocks["scale"].astype(np.float32)[:, None] * blocks["levels"].astype(np.float32)).reshape(-1)


def read_gguf(path):
    """Metadata, and tensors under their names in the file."""
    data = np.memmap(path, np.uint8, "r")
    reader = Reader(memoryview(data))
    assert reader.number("I") == 0x46554747 and reader.number("I") == 3
    tensors, keys = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(keys):
        key = reader.text()
        metadata[key] = reader.value(reader.number("I"))
    infos = []
    for _ in range(tensors):
        name, rank = reader.text(), reader.number("I")
        shape = [reader.number("Q") for _ in range(rank)][::-1]
        infos.append((name, shape, reader.number("I"), reader.number("Q")))
    start = (reader.at + 31) // 32 * 32
    weights = {}
    for name, shape, kind, offset in infos:
        values = dequantize(kind, data[start + offset:].data, int(np.prod(shape)))
        weights[name] = torch.from_numpy(values.reshape(shape).copy())
    return metadata, weights


def configuration(metadata):
    root = {"model_type": "sam3_video"}
    for key, value in metadata.items():
        if not key.startswith("sam3."):
            continue
        *sections, last = key.split(".")[1:]
        section = root
        for name in sections:
            section = section.setdefault(name, {})
        section[last] = int(value) if last == "memory_attention_rope_theta" else value  # as transformers declares it
    return root


def add_derived(config):
    """Fields that transformers asks for and that follow from others."""
    detector, tracker = config["detector_config"], config["tracker_config"]
    vision = detector["vision_config"]
    backbone = vision["backbone_config"]
    side, width = backbone["image_size"], vision["fpn_hidden_size"]
    grid = side // backbone["patch_size"]
    vision["backbone_feature_sizes"] = [[grid * scale] * 2 for scale in (4, 2, 1)]
    detector["image_size"] = tracker["image_size"] = tracker["prompt_encoder_config"]["image_size"] = side
    detector["mask_decoder_config"]["hidden_size"] = width
    detector["text_config"]["projection_dim"] = detector["text_config"]["hidden_size"]
    for name in ("mask_downsampler_embed_dim", "memory_attention_hidden_size", "memory_encoder_hidden_size",
                 "memory_fuser_embed_dim"):
        tracker[name] = width
    tracker["memory_attention_rope_feat_sizes"] = [grid, grid]
    tracker["memory_attention_dropout"] = tracker["memory_attention_rope_dropout"] = 0.0
    tracker["vision_config"] = vision
    config["low_res_mask_size"] = grid * 4


def tokenizer_files(metadata, folder):
    sys.path.insert(0, str(Path(__file__).parent / "sam3"))
    from clip_tokenizer import build_tokenizer, byte_symbols, END, START
    merges = [tuple(line.split(" ")) for line in metadata["tokenizer.ggml.merges"]]
    tokens = metadata.get("tokenizer.ggml.tokens")
    if tokens is None:
        symbols = byte_symbols()
        tokens = symbols + [s + "</w>" for s in symbols] + ["".join(m) for m in merges] + [START, END]
    build_tokenizer({token: i for i, token in enumerate(tokens)}, merges, folder)


def full_shapes(weights, config):
    """Kernels that were flattened for their blocks, in the shapes that transformers expects."""
    from transformers import Sam3VideoConfig, Sam3VideoModel
    with torch.device("meta"):
        model = Sam3VideoModel(Sam3VideoConfig.from_dict(config))
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    return {name: value.reshape(shapes[name]) if name in shapes else value for name, value in weights.items()}


def main(path, folder):
    folder.mkdir(parents=True, exist_ok=True)
    metadata, stored = read_gguf(path)
    assert metadata["general.architecture"] == "sam3", metadata["general.architecture"]
    weights = {}
    for name, value in stored.items():
        beginning = next(((short, long) for short, long in BEGINNINGS if name.startswith(short)), ("", ""))
        weights[beginning[1] + name[len(beginning[0]):]] = value
    tied = ["tracker_model.shared_image_embedding.positional_embedding",
            "tracker_model.prompt_encoder.shared_embedding.positional_embedding"]
    positions = next(weights[name] for name in tied if name in weights)
    weights.update({name: positions.clone() for name in tied})
    config = configuration(metadata)
    mean, std = config.pop("image_mean"), config.pop("image_std")
    add_derived(config)
    size = config["tracker_config"]["image_size"]
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": {
        "image_processor_type": "Sam3ImageProcessor", "image_mean": mean, "image_std": std,
        "size": {"height": size, "width": size}}}, indent=1))
    save_file(full_shapes(weights, config), folder / "model.safetensors", metadata={"format": "pt"})
    if "tokenizer.ggml.merges" in metadata:
        tokenizer_files(metadata, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
