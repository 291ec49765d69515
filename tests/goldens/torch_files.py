"""Makes the files of tests/data/weights that torch.save writes, for the tests of the PyTorch reader.

    python tests/goldens/torch_files.py tests/data

- torch-2.pt, torch-4.pt, torch-5.pt: every feature that the reader promises, in three pickle protocols, and
  torch.safetensors: the same tensors in plain order.
- sam1-b.pth: the model sam1-b under Meta's names.
- sam3-a-official.pkl: the pickle of sam3-a under Meta's names, laid out as in sam3.pt. The numbers are sam3-a's own, so
  sam3-a-official.txt only says of what each storage is made; the test puts the archive together.
"""

import collections
import json
import sys
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from official_sam3 import official_state

DATA = Path(sys.argv[1])
OUT = DATA / "weights"


def features():
    ramp = torch.arange(24, dtype=torch.float32)
    shared = ramp.reshape(4, 6) - 7.5
    state = collections.OrderedDict()
    for name in ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"):
        offset = 0 if name in ("uint8", "bool") else 2
        state["type." + name] = (ramp[:6].reshape(2, 3) - offset).to(getattr(torch, name))
    state["parameter"] = torch.nn.Parameter(ramp[:4] + 0.25)
    tagged = torch.nn.Parameter(ramp[:3] + 0.5)
    tagged.tag = "has a state"
    state["parameter.tagged"] = tagged
    state["shared"] = shared
    state["shared.again"] = shared
    state["view.rows"] = shared[1:3]
    state["view.value"] = shared[2, 3]
    state["view.reshaped"] = shared.reshape(2, 2, 6)
    state["turned"] = shared.t()
    state["steps"] = shared[::2, 1::2]
    state["columns"] = shared[:, 2:4]
    state["permuted"] = ramp.reshape(2, 3, 2, 2).permute(3, 1, 0, 2)
    state["channels_last"] = ramp.reshape(1, 4, 2, 3).contiguous(memory_format=torch.channels_last)
    state["repeated"] = ramp[:3].half().expand(4, 3)
    state["odd_stride"] = torch.as_strided(ramp.clone(), (1, 3), (17, 1), 2)  # the stride of a single row says nothing
    state["empty"] = torch.zeros(0, 4)
    state["empty.view"] = shared[4:]
    state["scalar"] = torch.tensor(4.25)
    complex_ramp = torch.view_as_complex(ramp.clone().reshape(12, 2))
    listed = {"complex": complex_ramp.clone().reshape(3, 4), "float8": ramp[:4].to(torch.float8_e4m3fn),
              "unsigned": ramp[:4].to(torch.uint16), "negated": complex_ramp.conj().imag}
    assert listed["negated"].is_neg()
    state.update(listed)
    state["not.a.tensor"] = 3
    state[7] = torch.zeros(2)  # no name
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    plain = {k: v.detach().clone().contiguous() for k, v in state.items()
             if isinstance(k, str) and isinstance(v, torch.Tensor) and k not in listed}
    save_file(plain, OUT / "torch.safetensors")
    around = {"epoch": 3, "step": 70000, "rate": 1.5, "seed": 2**63, "huge": 2**2100, "negative": -2**40, "none": None,
              "note": "a" * 300, "list": [1, [2.5, None], ()], "tuple": (1, 2, 3, 4), "set": {1, 2},
              "bytes": b"x" * 300, "frozen": frozenset([1]), "array": bytearray(b"ab"), "rng": torch.zeros(4, dtype=torch.uint8),
              "size": torch.Size([2, 3]), "device": torch.device("cpu"), "dtype": torch.bfloat16, "flag": True,
              "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 0.1}]}}
    # What an older protocol has no instruction for it writes as a call of a Python function.
    missing = {2: ("frozen", "array"), 4: ("array",), 5: ()}
    for protocol, names in missing.items():
        file = {k: v for k, v in around.items() if k not in names}
        file.update({"state_dict": {"model": state}} if protocol == 2 else {"model": state})
        torch.save(file, OUT / f"torch-{protocol}.pt", pickle_protocol=protocol)


def sam1():
    names = {hf: official for hf, official, _ in json.loads((DATA / "models/sam1-names.json").read_text())}
    weights = load_file(DATA / "models/sam1-b/model.safetensors")
    torch.save(collections.OrderedDict((names[k], v) for k, v in weights.items() if names[k]), OUT / "sam1-b.pth")


def sam3():
    weights = load_file(DATA / "models/sam3-a/model.safetensors")
    state, recipes = official_state(weights, OUT / "sam3-official-to-hf.txt")

    path = OUT / "sam3-a-official.pt"
    torch.save({"model": state}, path)
    archive = zipfile.ZipFile(path)
    (OUT / "sam3-a-official.pkl").write_bytes(archive.read("sam3-a-official/data.pkl"))
    order = []  # storages are numbered as they are met
    for tensor in state.values():
        pointer = tensor.untyped_storage().data_ptr()
        if pointer not in order:
            order.append(pointer)
    lines = []
    for i, pointer in enumerate(order):
        data = b"".join(bytes(int(part.split()[1])) if part.startswith("zeros ") else
                        weights[part].view(torch.uint8).numpy().tobytes() for part in recipes[pointer])
        assert data == archive.read(f"sam3-a-official/data/{i}"), i
        lines.append(";".join(recipes[pointer]))
    (OUT / "sam3-a-official.txt").write_text("\n".join(lines) + "\n")
    path.unlink()


if __name__ == "__main__":
    features()
    sam1()
    sam3()
