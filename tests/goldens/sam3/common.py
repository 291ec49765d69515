"""What every golden script shares: seeded weights, a synthetic picture, hooks that name the reference's
intermediates, and how tensors are stored.

Names and layouts are described in docs/parity.md. Everything is channels last: maps [N, H, W, C], tokens [N, T, C].
"""
import json
import math
import time
import zlib
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

FORMAT = "sam3-golden-1"


# ---- weights -----------------------------------------------------------------------------------------------

# Standard deviation of parameters that are neither a matrix, a convolution, a norm nor a bias. First match wins.
EMBEDDING_STD = [
    ("token_embedding", 0.02), ("position_embedding", 0.02), ("position_embeddings", 0.015), ("query_embed", 1.0),
    ("reference_points", 1.0), ("presence_token", 1.0), ("cls_embed", 1.0), ("label_embed", 0.5),
    ("point_embed", 0.6), ("not_a_point_embed", 0.6), ("no_mask_embed", 0.3), ("mask_tokens", 1.0),
    ("iou_token", 1.0), ("obj_score_token", 1.0), ("positional_embedding", 1.0), ("memory_fuser", 0.3), ("", 0.3),
]

# Factors on top of 1/sqrt(fan-in). The 0.05 ones put a small variance in front of a norm, so that a wrong epsilon
# shows up as an error of a percent instead of one of a millionth.
GAIN = [
    ("q_proj.weight", 1.5), ("k_proj.weight", 1.5),
    ("patch_embeddings.projection.weight", 0.04),
    ("neck.fpn_layers.2.proj2.weight", 0.05), ("neck.fpn_layers.2.proj2.bias", 0.05),
    ("geometry_encoder.final_proj.weight", 0.05), ("geometry_encoder.final_proj.bias", 0.05),
    ("pixel_decoder.conv_layers", 0.05),
    ("upscale_conv1", 0.05), ("conv_s1", 0.05), ("mask_embed.conv", 0.3),
    ("detr_decoder.layers.", 0.7), ("box_head.layer3", 0.6), ("box_rpb_embed", 2.0), ("hypernetworks", 1.6),
]


def lookup(table, name, default):
    return next((value for key, value in table if key in name), default)


def generator_for(name, seed):
    """A parameter's values depend on its name and the seed alone, never on the order of the modules."""
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))


def branch_gain(name, config):
    """Deep stacks get weaker residual branches: the ViT's sum must not grow, the decoder's queries not become alike."""
    if "o_proj" not in name and "fc2" not in name:
        return 1.0
    if "backbone.layers" in name:
        return 2.0 / math.sqrt(config.vision_config.backbone_config.num_hidden_layers)
    if "detr_decoder.layers" in name:
        return min(1.0, (3.0 / config.detr_decoder_config.num_layers) ** 2)
    return 1.0


@torch.no_grad()
def randomize(model, seed, half):
    """Fills every parameter and buffer so that activations stay of order 1. `half` rounds the values to f16."""
    modules = dict(model.named_modules())
    for name, value in model.state_dict().items():
        if not value.is_floating_point():
            continue
        owner, leaf = name.rsplit(".", 1) if "." in name else ("", name)
        module = modules[owner]
        if name.endswith("prompt_encoder.shared_embedding.positional_embedding"):
            continue  # equal to shared_image_embedding's, copied below
        value.normal_(generator=generator_for(name, seed))
        if isinstance(module, (nn.LayerNorm, nn.GroupNorm)):
            value.mul_(0.2).add_(1.0 if leaf == "weight" else 0.0)
        elif leaf == "bias":
            value.mul_(0.2 * lookup(GAIN, name, 1.0))
            if "detr_decoder" in name:
                value.mul_(branch_gain(name, model.config.detector_config))
        elif isinstance(module, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            # kernel == stride in every transposed convolution here: one tap an output pixel
            fan_in = value.shape[0] if isinstance(module, nn.ConvTranspose2d) else value[0].numel()
            value.mul_(lookup(GAIN, name, 1.0) * branch_gain(name, model.config.detector_config) / math.sqrt(fan_in))
        else:
            value.mul_(lookup(EMBEDDING_STD, name, 0.3))
    tracker = model.tracker_model
    tracker.prompt_encoder.shared_embedding.positional_embedding.copy_(
        tracker.shared_image_embedding.positional_embedding)
    if half:
        round_to_half(model)


@torch.no_grad()
def round_to_half(model):
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.copy_(value.half().float())


@torch.no_grad()
def calibrate(detector, probes):
    """Shifts and scales the last layers: scores spread over 0.05..0.95 on the probes, masks have both signs.

    None of the changed layers feeds anything but the outputs themselves. `probes` is a list of model inputs.
    """
    scoring, decoder, masks = detector.dot_product_scoring, detector.detr_decoder, detector.mask_decoder
    seen = {"query": [], "text": []}
    handles = [scoring.query_proj.register_forward_hook(lambda _m, args, _o: seen["query"].append(args[0][-1, 0])),
               scoring.text_proj.register_forward_hook(lambda _m, _a, out: seen["text"].append(out[0]))]
    outputs = [detector(**inputs) for inputs in probes]
    for handle in handles:
        handle.remove()
    # What all queries of a prompt share is taken out of the projection: else a prompt's scores are all high or all low.
    means = torch.stack([q.mean(0) for q in seen["query"]])
    centre = means.mean(0)
    query_proj = scoring.query_proj
    if len(probes) > 1:
        basis = torch.linalg.svd(means - centre, full_matrices=False).Vh[:len(probes) - 1]
        query_proj.weight.sub_(query_proj.weight @ basis.T @ basis)
    query_proj.bias.copy_(-query_proj.weight @ centre)
    logits = torch.cat([query_proj(q) @ t * scoring.scale for q, t in zip(seen["query"], seen["text"])])
    for parameter in query_proj.parameters():
        parameter.mul_(2.0 / logits.std())
    presence = torch.cat([o.presence_logits for o in outputs])
    scale = 0.6 / presence.std() if len(outputs) > 1 else 1.0
    head = decoder.presence_head.layer3
    head.weight.mul_(scale)
    head.bias.copy_(2.6 - scale * (presence.mean() - head.bias))
    masked = torch.cat([o.pred_masks for o in outputs])
    for parameter in masks.mask_embedder.layers[-1].parameters():
        parameter.mul_(3.0 / masked.std())
    semantic = torch.cat([o.semantic_seg for o in outputs])
    masks.semantic_projection.bias.sub_(semantic.mean())


# ---- picture -----------------------------------------------------------------------------------------------

def synthetic_image(height, width, seed):
    """Smooth gradients, discs, bars and noise: RGB u8 [height, width, 3]."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    y, x = (y + 0.5) / height, (x + 0.5) / width
    picture = np.empty((height, width, 3))
    for c in range(3):
        a, b, phase = random.uniform(-1, 1, 3)
        picture[..., c] = 0.5 + 0.25 * (a * (x - 0.5) + b * (y - 0.5)) + 0.1 * np.sin(7 * (x * a + y * b) + 6 * phase)
    for _ in range(5):
        cx, cy, radius = random.uniform(0.1, 0.9), random.uniform(0.1, 0.9), random.uniform(0.06, 0.2)
        picture[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = random.uniform(0, 1, 3)
    for _ in range(2):
        x0, y0 = random.uniform(0, 0.8, 2)
        w, h = random.uniform(0.05, 0.3, 2)
        picture[(x > x0) & (x < x0 + w) & (y > y0) & (y < y0 + h)] = random.uniform(0, 1, 3)
    picture += random.normal(0, 0.02, picture.shape)
    return np.clip(np.rint(picture * 255), 0, 255).astype(np.uint8)


# ---- hooks -------------------------------------------------------------------------------------------------

def channels_last(value):
    return value.permute(0, 2, 3, 1)


def first(value):
    return value[0] if isinstance(value, tuple) else value


class Recorder:
    """Collects named tensors from forward hooks; with `times`, also how long each hooked stage took."""

    def __init__(self):
        self.tensors = {}
        self.times = {}
        self.handles = []
        self.started = {}

    def put(self, name, value):
        value = value.detach().cpu()
        kind = torch.uint8 if value.dtype == torch.bool else value.dtype if value.is_floating_point() else torch.int32
        self.tensors[name] = value.to(kind).contiguous().numpy()

    def hook(self, module, action):
        self.handles.append(module.register_forward_hook(lambda m, args, out: action(out), with_kwargs=False))

    def time(self, module, stage):
        def before(_module, _args, _kwargs):
            self.started[stage] = time.perf_counter()

        def after(_module, _args, _out):
            self.times[stage] = self.times.get(stage, 0.0) + time.perf_counter() - self.started[stage]

        self.handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self.handles.append(module.register_forward_hook(after))

    def close(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []


def record_vision(recorder, encoder):
    """vision.*: of a Sam3VisionModel (the detector's neck)."""
    backbone = encoder.backbone
    grid = {}

    def patches(out):
        side = math.isqrt(out.shape[1])
        grid["side"] = side
        recorder.put("vision.patch_embed", out.unflatten(1, (side, side)))

    recorder.hook(backbone.embeddings, patches)
    recorder.hook(backbone.layer_norm, lambda out: recorder.put("vision.pre_norm", out))
    for i, layer in enumerate(backbone.layers):
        recorder.hook(layer, lambda out, i=i: recorder.put(f"vision.block.{i}", first(out)))
    recorder.hook(backbone, lambda out: recorder.put(
        "vision.backbone", out.last_hidden_state.unflatten(1, (grid["side"], grid["side"]))))
    for i in range(3):  # the fourth level is computed and thrown away
        recorder.hook(encoder.neck.fpn_layers[i], lambda out, i=i: recorder.put(f"vision.fpn.{i}", channels_last(out)))


def record_prompt_and_decoder(recorder, model):
    """text.*, geometry.*, fusion.*, decoder.*, masks.*, semantic.*: of a Sam3Model."""
    put = recorder.put
    recorder.hook(model.text_projection, lambda out: put("text.features", out))

    def geometry(out):
        put("geometry.features", out.last_hidden_state)
        put("geometry.mask", out.attention_mask)

    recorder.hook(model.geometry_encoder, geometry)
    for i, layer in enumerate(model.detr_encoder.layers):
        recorder.hook(layer, lambda out, i=i: put(f"fusion.layer.{i}", first(out)))
    recorder.hook(model.detr_encoder, lambda out: put("fusion.output", out.last_hidden_state))
    for i, layer in enumerate(model.detr_decoder.layers):
        recorder.hook(layer, lambda out, i=i: put(f"decoder.layer.{i}", first(out)))

    def decoder(out):
        put("decoder.queries", out.intermediate_hidden_states[-1])
        for i, boxes in enumerate(out.reference_boxes):
            put(f"decoder.reference.{i}", boxes)

    recorder.hook(model.detr_decoder, decoder)
    recorder.hook(model.mask_decoder.pixel_decoder, lambda out: put("masks.pixels", channels_last(out)))

    def model_out(out):
        put("decoder.boxes", out.pred_boxes)
        x0, y0, x1, y1 = out.pred_boxes.unbind(-1)
        put("decoder.boxes_cxcywh", torch.stack([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0], -1))
        put("decoder.logits", out.pred_logits)
        put("decoder.presence", out.presence_logits)
        put("masks.logits", out.pred_masks)
        put("semantic.logits", channels_last(out.semantic_seg))

    recorder.hook(model, model_out)


@contextmanager
def recording(model, vision=True, decoder=True):
    recorder = Recorder()
    if vision:
        record_vision(recorder, model.vision_encoder)
    if decoder:
        record_prompt_and_decoder(recorder, model)
    try:
        yield recorder
    finally:
        recorder.close()


# ---- storage -----------------------------------------------------------------------------------------------

def sample_stride(shape, limit):
    """Smallest stride, coprime to every dimension, that leaves at most `limit` elements of the flat tensor."""
    count = math.prod(shape)
    stride = 1
    while math.ceil(count / stride) > limit or any(math.gcd(stride, d) != 1 for d in shape if d > 1):
        stride += 1
    return stride


def pack_masks(masks):
    """bool [K, H, W] -> u8 [K, ceil(H*W/8)]: row-major pixels, the first pixel in the highest bit."""
    masks = np.asarray(masks).astype(bool)
    return np.packbits(masks.reshape(masks.shape[0], -1), axis=1) if masks.size else np.zeros((0, 0), np.uint8)


WHOLE = {"text.features", "geometry.features"}  # have padding that a test must leave out
SAFETENSORS_TYPE = {"float32": "F32", "int32": "I32", "uint8": "U8"}


def write_safetensors(path, tensors, metadata):
    """As the safetensors library writes it, but with metadata in a fixed order: the same run, the same bytes."""
    header, blobs, offset = {"__metadata__": dict(sorted(metadata.items()))}, [], 0
    for name in sorted(tensors, key=lambda n: (-tensors[n].itemsize, n)):  # wide types first keeps everything aligned
        value = tensors[name]
        header[name] = dict(dtype=SAFETENSORS_TYPE[value.dtype.name], shape=list(value.shape),
                            data_offsets=[offset, offset + value.nbytes])
        blobs.append(value.tobytes())
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def store(path, tensors, metadata, limit):
    """Writes a golden file. A floating tensor above `limit` elements becomes NAME.sample, with NAME.stats."""
    out, meta = {}, {"format": FORMAT, **{k: str(v) for k, v in metadata.items()}}
    for name, value in tensors.items():
        value = np.ascontiguousarray(value)
        if value.dtype == np.float64:
            value = value.astype(np.float32)
        if value.dtype != np.float32 or value.size <= limit or name in WHOLE:
            out[name] = value
            continue
        stride = sample_stride(value.shape, limit)
        out[f"{name}.sample"] = value.reshape(-1)[::stride].copy()
        wide = value.astype(np.float64)
        out[f"{name}.stats"] = np.array([wide.min(), wide.max(), wide.mean(), wide.std()], np.float32)
        meta[f"shape.{name}"] = ",".join(map(str, value.shape))
        meta[f"stride.{name}"] = str(stride)
    write_safetensors(path, out, meta)
