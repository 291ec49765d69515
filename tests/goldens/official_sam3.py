"""A SAM 3 in transformers' layout under the names of Meta's checkpoint.

    python official_sam3.py MODEL OUT.pt        # MODEL: a folder with model.safetensors
"""

import collections
import re
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

NAMES = Path(__file__).parent.parent / "data/weights/sam3-official-to-hf.txt"
POINTS = "tracker_model.prompt_encoder.point_embed.weight"


def numbers(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def pairs(names):
    """Official name, name of transformers' converter."""
    for line in Path(names).read_text().splitlines():
        found = re.search(r"\{([\d,-]+)\}", line)
        for number in numbers(found.group(1)) if found else [None]:
            one = line if number is None else line.replace(found.group(0), str(number)).replace("{}", str(number))
            yield one.split(" -> ")


def official_state(weights, names=NAMES):
    """The state dict, and for each storage (by address) the parts that it is made of."""
    layers = {int(k.split(".")[4]) for k in weights if k.startswith("detector_model.vision_encoder.backbone.layers.")}
    state, recipes, unused = collections.OrderedDict(), {}, set(weights)

    def add(official, tensor, *recipe):
        state[official] = tensor
        recipes[tensor.untyped_storage().data_ptr()] = recipe
        unused.difference_update(recipe)

    for official, hf in pairs(names):
        if official.endswith("freqs_cis"):
            if int(official.split(".")[5]) in layers:
                add(official, torch.zeros(4, 2, dtype=torch.complex64), "zeros 64")
            continue
        parts = [hf]
        if ".qkv." in hf:
            parts = [hf.replace(".qkv.", f".{x}_proj.") for x in "qkv"]
        elif "in_proj_" in hf:
            parts = [hf.replace("in_proj_", f"{x}_proj.") for x in "qkv"]
        elif "point_embeddings." in official:
            parts = [POINTS]
        if any(part not in weights for part in parts):
            continue
        if "point_embeddings." in official:  # four rows of one storage
            state[official] = weights[POINTS][int(official.split(".")[-2])][None]
            recipes[weights[POINTS].untyped_storage().data_ptr()] = (POINTS,)
            unused.discard(POINTS)
        elif official.endswith("trunk.pos_embed"):
            row = torch.zeros_like(weights[hf][:, :1])
            add(official, torch.cat([row, weights[hf]], 1), f"zeros {row.nbytes}", hf)
        elif official.endswith("encoder.text_projection"):
            add(official, weights[hf].t(), hf)  # a view, out of order
        else:
            add(official, torch.cat([weights[p] for p in parts]) if len(parts) > 1 else weights[hf], *parts)
    unused.discard("tracker_model.shared_image_embedding.positional_embedding")
    assert not unused, sorted(unused)
    return state, recipes


if __name__ == "__main__":
    torch.save({"model": official_state(load_file(Path(sys.argv[1]) / "model.safetensors"))[0]}, sys.argv[2])
