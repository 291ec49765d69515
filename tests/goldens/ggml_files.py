"""Makes the .ggml files of tests/data/weights, in the format of PABannier/sam3.cpp, from the weights of sam3-a.

    python tests/goldens/ggml_files.py tests/data [--names KEYS.txt --visual KEYS.txt]

- ggml-1.ggml, ggml-2.ggml, ggml-3.ggml: a few tensors in every type, in the versions 1 to 3, and ggml.safetensors: the
  values that they stand for.
- sam3-a-ggml.bin: the whole model as version 3 with the tokenizer, without the numbers, which are sam3-a's own;
  sam3-a-ggml.txt says what belongs where: a place in the .bin and the tensors to put there.
- sam3-ggml-names.txt and sam3-visual-ggml-names.txt: all names and shapes of the published files, and
  sam3-ggml-to-official.txt: which of Meta's tensors each is. KEYS.txt lists a file, "name<TAB>[ne0, ne1, ...]" a line.

Nothing but numpy is needed.
"""

import argparse
import json
import re
import struct
from pathlib import Path

import numpy as np

MAGIC, TOKENIZER = 0x73616D33, 0x746F6B00
F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30

# The converter's renaming of Meta's keys: replacements of text, in this order.
RENAMES = """
detector.backbone.vision_backbone.trunk. > vit.
.mlp.fc1. > .mlp.lin1.
.mlp.fc2. > .mlp.lin2.
detector.backbone.vision_backbone.convs. > neck.det.
detector.backbone.vision_backbone.sam2_convs. > neck.trk.
detector.backbone.language_backbone.encoder.transformer.resblocks. > text.blocks.
detector.backbone.language_backbone.encoder.token_embedding. > text.token_embed.
detector.backbone.language_backbone.encoder.positional_embedding > text.pos_embed
detector.backbone.language_backbone.encoder.ln_final. > text.ln_final.
detector.backbone.language_backbone.resizer. > text.resizer.
.attn.in_proj_weight > .attn.in_proj.weight
.attn.in_proj_bias > .attn.in_proj.bias
.mlp.c_fc. > .mlp.fc1.
.mlp.c_proj. > .mlp.fc2.
detector.transformer.encoder.layers. > fenc.layers.
.cross_attn_image. > .ca.
detector.transformer.decoder.layers. > ddec.layers.
detector.transformer.decoder. > ddec.
.cross_attn. > .ca.
.self_attn. > .sa.
.catext_norm. > .norm_ca_text.
detector.geometry_encoder. > geom.
geom.encode. > geom.layers.
detector.segmentation_head. > seg.
detector.dot_prod_scoring. > scoring.
tracker.transformer.encoder.layers. > mem_attn.layers.
tracker.transformer.encoder.norm. > mem_attn.norm.
tracker.maskmem_backbone. > mem_enc.
mem_enc.fuser.layers. > mem_enc.fuser.
mem_enc.mask_downsampler.encoder. > mem_enc.ds.
tracker.sam_prompt_encoder. > sam_pe.
pe_layer.positional_encoding_gaussian_matrix > pe_gaussian
mask_downscaling. > mask_ds.
tracker.sam_mask_decoder. > sam_dec.
transformer.layers. > twoway.
transformer.final_attn_token_to_image. > final_attn.
transformer.norm_final_attn. > final_norm.
output_upscaling. > upscale.
output_hypernetworks_mlps. > hyper.
tracker.obj_ptr_proj. > obj_ptr_proj.
tracker.obj_ptr_tpos_proj. > obj_ptr_tpos_proj.
tracker.no_obj_ptr > no_obj_ptr
tracker.no_mem_embed > no_mem_embed
tracker.no_mem_pos_enc > no_mem_pos_enc
tracker.no_obj_embed_spatial > no_obj_embed_spatial
tracker.maskmem_tpos_enc > mem_enc.tpos_enc
tracker.mask_downsample. > trk_mask_ds.
"""


def ggml_name(official):
    for line in RENAMES.strip().splitlines():
        old, new = line.split(" > ")
        official = official.replace(old, new)
    return official


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    types = {"F16": np.float16, "F32": np.float32}
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            out[name] = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return out


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        blob = np.ascontiguousarray(value, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


# ---- the format ---------------------------------------------------------------------------------------------------

def halves(values):
    return np.asarray(values, np.float32).astype(np.float16)


def encode(values, kind):
    """Bytes of a tensor, and the values that they stand for."""
    values = np.ascontiguousarray(values, np.float32)
    if kind == F32:
        return values.tobytes(), values
    if kind == F16:
        return halves(values).tobytes(), halves(values).astype(np.float32)
    if kind == BF16:
        high = (values.view(np.uint32) >> 16).astype(np.uint16)  # cut off: good enough for a test
        return high.tobytes(), (high.astype(np.uint32) << 16).view(np.float32)
    data, out = b"", np.empty_like(values)
    for block, target in zip(values.reshape(-1, 32), out.reshape(-1, 32)):
        if kind == Q8_0:
            scale = halves(np.abs(block).max() / 127)
            q = np.clip(np.round(block / np.float32(scale)), -127, 127).astype(np.int8)
            data += scale.tobytes() + q.tobytes()
            target[:] = q.astype(np.float32) * np.float32(scale)
            continue
        minimum = halves(block.min()) if kind == Q4_1 else None
        scale = halves((block.max() - block.min()) / 15 if kind == Q4_1 else np.abs(block).max() / -8)
        shifted = block - np.float32(minimum) if kind == Q4_1 else block + 8 * np.float32(scale)
        q = np.clip(np.round(shifted / np.float32(scale)), 0, 15).astype(np.uint8)
        data += scale.tobytes() + (minimum.tobytes() if kind == Q4_1 else b"")
        data += (q[:16] | q[16:] << 4).tobytes()  # the low half of a byte is a value of the first 16
        if kind == Q4_1:
            target[:] = q.astype(np.float32) * np.float32(scale) + np.float32(minimum)
        else:
            target[:] = (q.astype(np.float32) - 8) * np.float32(scale)
    return data, out


def header(version, count, config, visual_only=0):
    detector, tracker = config["detector_config"], config["tracker_config"]
    vit, text = detector["vision_config"]["backbone_config"], detector["text_config"]
    encoder, decoder = detector["detr_encoder_config"], detector["detr_decoder_config"]
    mask = tracker["mask_decoder_config"]
    layers = vit["global_attn_indexes"]
    fields = [vit["image_size"], vit["patch_size"], vit["hidden_size"], vit["num_hidden_layers"],
              vit["num_attention_heads"], -(-vit["intermediate_size"] * 1000 // vit["hidden_size"]),
              vit["window_size"], len(layers), *layers[:4],
              text["hidden_size"], text["num_attention_heads"], text["num_hidden_layers"],
              text["max_position_embeddings"], text["vocab_size"], detector["vision_config"]["fpn_hidden_size"],
              detector["vision_config"]["fpn_hidden_size"], encoder["num_layers"], encoder["num_attention_heads"],
              encoder["intermediate_size"], decoder["num_layers"], decoder["num_attention_heads"],
              decoder["intermediate_size"], decoder["num_queries"],
              detector["geometry_encoder_config"]["num_layers"], 1, 4,
              mask["hidden_size"], mask["num_hidden_layers"], mask["num_multimask_outputs"], mask["iou_head_depth"],
              tracker["memory_encoder_output_channels"], tracker["memory_attention_num_layers"],
              tracker["num_maskmem"], tracker["max_object_pointers_in_encoder"], 2]
    if version >= 2:
        fields.append(visual_only)
    if version >= 4:
        fields.append(0)
    return struct.pack("<Iiii", MAGIC, version, F16, count) + struct.pack(f"<{len(fields)}i", *fields)


def record(file, name, shape, kind):
    """What stands before the data, with the padding that takes the data to a multiple of 32 bytes."""
    name = name.encode()
    file += struct.pack("<iii", len(shape), len(name), kind)
    file += struct.pack(f"<{len(shape)}i", *reversed(shape)) + name
    return file + bytes(-len(file) % 32)


def tokenizer(vocabulary, merges):
    def text(value):
        return struct.pack("<i", len(value.encode())) + value.encode()
    data = struct.pack("<Ii", TOKENIZER, len(vocabulary))
    for token, number in sorted(vocabulary.items(), key=lambda item: item[1]):
        data += text(token) + struct.pack("<i", number)
    data += struct.pack("<i", len(merges))
    return data + b"".join(text(a) + text(b) for a, b in merges)


# ---- files --------------------------------------------------------------------------------------------------------

def few_tensors(out, config, weights):
    source = weights["detector_model.dot_product_scoring.text_proj.weight"].astype(np.float32)
    ramp = np.arange(30, dtype=np.float32).reshape(2, 3, 5) - 7.5
    chosen = [("f32", ramp, F32), ("f16", ramp[0], F16), ("bf16", ramp[1], BF16), ("vector", ramp.reshape(-1), F32),
              ("q8_0", source, Q8_0), ("q4_0", source, Q4_0), ("q4_1", source, Q4_1),
              ("four", np.arange(24, dtype=np.float32).reshape(2, 3, 4, 1), F32)]
    assert source.shape[1] % 32 == 0
    values = {}
    for version in (1, 2, 3):
        file = header(version, len(chosen), config)
        for name, tensor, kind in chosen:
            data, values[name] = encode(tensor, kind)
            file = record(file, name, tensor.shape, kind) + data
        if version == 3:
            file += tokenizer({"a": 0, "b</w>": 1, "ab</w>": 2, "\u00e9": 3}, [("a", "b</w>"), ("\u00e9", "a")])
        (out / f"ggml-{version}.ggml").write_bytes(file)
    write_safetensors(out / "ggml.safetensors", values)


def whole_model(data, config, weights):
    out, folder = data / "weights", data / "models/sam3-a"
    records = []  # name, shape, tensors that make it up
    point_rows = "tracker_model.prompt_encoder.point_embed.weight"
    for line in expand(out / "sam3-official-to-hf.txt"):
        official, hf = line.split(" -> ")
        if "text_projection" in hf and "encoder.text_projection" in official:
            continue
        parts = [hf]
        if ".qkv." in hf:
            parts = [hf.replace(".qkv.", f".{x}_proj.") for x in "qkv"]
        elif "in_proj_" in hf:
            parts = [hf.replace("in_proj_", f"{x}_proj.") for x in "qkv"]
        if "point_embeddings." in official:
            row = int(official.split(".")[-2])
            records.append((ggml_name(official), (1, weights[point_rows].shape[1]), [f"{point_rows}#{row}"]))
        elif all(part in weights for part in parts):
            shape = list(weights[parts[0]].shape)
            shape[0] *= len(parts)
            if official.endswith("trunk.pos_embed"):
                side = round(shape[1] ** 0.5)
                shape = [side, side, shape[2]]
            records.append((ggml_name(official), shape, parts))
    lines = (folder / "merges.txt").read_text().splitlines()
    merges = [tuple(line.split()) for line in lines if line and not line.startswith("#version")]
    vocabulary = json.loads((folder / "vocab.json").read_text())

    def part_bytes(part):
        name, _, row = part.partition("#")
        return (weights[name][int(row)] if row else weights[name]).tobytes()

    file, bare, lines = header(3, len(records), config), b"", []
    taken = 0  # bytes of `file` that are in `bare` or were left out of it
    for name, shape, parts in records:
        assert weights[parts[0].split("#")[0]].dtype == np.float16
        file = record(file, name, shape, F16)
        bare += file[taken:]
        lines.append(f"{len(bare)};" + ";".join(parts))
        file += b"".join(part_bytes(part) for part in parts)
        taken = len(file)
    bare += tokenizer(vocabulary, merges)
    (out / "sam3-a-ggml.bin").write_bytes(bare)
    (out / "sam3-a-ggml.txt").write_text("\n".join(lines) + "\n")


# ---- name lists ---------------------------------------------------------------------------------------------------

def expand(path):
    for line in path.read_text().splitlines():
        found = re.search(r"\{([\d,-]+)\}", line)
        if not found:
            yield line
            continue
        for run in found.group(1).split(","):
            first, _, last = run.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield line.replace(found.group(0), str(number)).replace("{}", str(number))


def collapse(lines):
    """Lines that differ only in their first layer number become one, with {0-31} in its place; see weights.py."""
    groups = {}
    for line in lines:
        found = re.search(r"\.(\d+)\.", line)
        if not found:
            groups.setdefault(line, None)
            continue
        first = line[:found.start()] + ".{#}." + line[found.end():]
        if " -> " in first:
            left, right = first.split(" -> ")
            first = left + " -> " + re.sub(rf"\.{found.group(1)}\.", ".{}.", right, count=1)
        groups.setdefault(first, []).append(int(found.group(1)))
    out = []
    for line, numbers in groups.items():
        runs = []
        for number in sorted(numbers or []):
            if runs and runs[-1][1] == number - 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
        out.append(line.replace("{#}", "{" + text + "}"))
    return out


def name_lists(out, full, visual):
    listed = set()
    for path, target in ((full, "sam3-ggml-names.txt"), (visual, "sam3-visual-ggml-names.txt")):
        lines = []
        for line in path.read_text().splitlines():
            name, dims = line.split("\t")
            shape = list(reversed(json.loads(dims)))
            if name == "sam_pe.pe_gaussian":  # the lists come from the program, which has these two the wrong way round
                shape.reverse()
            lines.append(f"{name} {shape}")
            listed.add(name)
        (out / target).write_text("\n".join(collapse(lines)) + "\n")
    official = [line.split(" ")[0] for line in expand(out / "sam3-official-names.txt")]
    pairs = [f"{ggml_name(name)} -> {name}" for name in official if not name.endswith("encoder.text_projection")]
    assert listed == {pair.split(" ")[0] for pair in pairs}
    (out / "sam3-ggml-to-official.txt").write_text("\n".join(collapse(pairs)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--names", type=Path)
    parser.add_argument("--visual", type=Path)
    options = parser.parse_args()
    config = json.loads((options.data / "models/sam3-a/config.json").read_text())
    weights = read_safetensors(options.data / "models/sam3-a/model.safetensors")
    few_tensors(options.data / "weights", config, weights)
    whole_model(options.data, config, weights)
    if options.names:
        name_lists(options.data / "weights", options.names, options.visual)


if __name__ == "__main__":
    main()
