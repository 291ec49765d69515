"""Initialisation for training from scratch: transformers' N(0, 0.02) is made for loading checkpoints.

The parts below are drawn in order from one generator, so that a seed names one start.
"""
import math

import torch
import torch.nn as nn

from blocks import encode_boxes


@torch.no_grad()
def init_weights(model, p, seed=0):
    gen = torch.Generator().manual_seed(seed)
    det, trk = model.detector_model, model.tracker_model
    init_layers(model, gen)
    init_vision(det.vision_encoder, gen)
    init_queries(det.detr_decoder, p, gen)
    init_scores(det, p)
    init_embeddings(trk, gen)
    init_prompting(trk)
    init_memory(trk)


def inverse_sigmoid(x):
    return math.log(x / (1 - x))


def init_layers(model, gen):
    for m in model.modules():
        if isinstance(m, nn.Linear):
            a = math.sqrt(6.0 / sum(m.weight.shape))
            m.weight.uniform_(-a, a, generator=gen)
        elif isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
            # transposed convolutions here have their stride as kernel: one tap for each output pixel
            taps = m.weight.shape[0] if isinstance(m, nn.ConvTranspose2d) else m.weight[0].numel()
            m.weight.normal_(0, math.sqrt(1.0 / taps), generator=gen)
        elif isinstance(m, nn.Embedding):
            m.weight.normal_(0, 0.1, generator=gen)
        elif isinstance(m, (nn.LayerNorm, nn.GroupNorm)):
            m.weight.fill_(1.0)
        if getattr(m, "bias", None) is not None and not isinstance(m, nn.Embedding):
            m.bias.zero_()


def init_vision(vision, gen):
    vision.backbone.embeddings.position_embeddings.normal_(0, 0.05, generator=gen)
    for layer in vision.backbone.layers:  # residual branches start small
        layer.attention.o_proj.weight.mul_(0.5)
        layer.mlp.fc2.weight.mul_(0.5)
    # the 1x map starts at the size of the position encoding (norm 8) that is added to it
    vision.neck.fpn_layers[2].proj2.weight.mul_(0.45)


def init_queries(dec, p, gen):
    """Anchors on a grid; every query starts out knowing where its anchor is, and looking at it."""
    n, d = p["queries"], p["d"]
    side = math.ceil(math.sqrt(n))
    rows = math.ceil(n / side)
    for i in range(n):
        anchor = ((i % side + 0.5) / side, (i // side + 0.5) / rows, 0.22, 0.22)
        dec.reference_points.weight[i] = torch.tensor([inverse_sigmoid(x) for x in anchor])
    code = encode_boxes(dec.reference_points.weight.sigmoid()[None], d)[0]               # n, 2d
    mix = torch.randn(2 * d, d, generator=gen) / math.sqrt(2 * d)
    dec.query_embed.weight.copy_(0.7 * code @ mix + 0.1 * torch.randn(n, d, generator=gen))
    # the bias falls off outside the reference box, at a different rate in each head
    for mlp in (dec.box_rpb_embed_x, dec.box_rpb_embed_y):
        mlp.layer2.weight.mul_(0.3)
        mlp.layer1.weight[0] = torch.tensor([-1.0, 0.0])
        mlp.layer1.weight[1] = torch.tensor([0.0, 1.0])
        rate = torch.linspace(8.0, 0.5, p["heads"])
        mlp.layer2.weight[:, 0] = -rate
        mlp.layer2.weight[:, 1] = -rate
    dec.presence_token.weight.normal_(0, 0.3, generator=gen)
    dec.box_head.layer3.weight.mul_(0.02)
    dec.box_head.layer3.bias.zero_()
    dec.presence_head.layer3.weight.mul_(0.1)


def init_scores(det, p):
    """Every query starts unlikely: the product of the biases over sqrt(d) is -2.5."""
    s = det.dot_product_scoring
    c = math.sqrt(2.5 / math.sqrt(p["d"]))
    s.text_proj.bias.fill_(c)
    s.query_proj.bias.fill_(-c)
    s.query_proj.weight.mul_(0.5)
    s.text_proj.weight.mul_(0.5)
    det.mask_decoder.semantic_projection.bias.fill_(-2.0)


def init_embeddings(trk, gen):
    places = torch.randn(trk.shared_image_embedding.positional_embedding.shape, generator=gen)
    places = places.half().float()  # never trained: exact in f16, so that what is saved is what was used
    trk.shared_image_embedding.positional_embedding.copy_(places)
    trk.prompt_encoder.shared_embedding.positional_embedding.copy_(places)
    trk.no_memory_embedding.normal_(0, 0.05, generator=gen)
    trk.no_memory_positional_encoding.normal_(0, 0.02, generator=gen)
    trk.memory_temporal_positional_encoding.normal_(0, 0.1, generator=gen)
    trk.no_object_pointer.normal_(0, 0.1, generator=gen)
    trk.occlusion_spatial_embedding_parameter.normal_(0, 0.1, generator=gen)


def init_prompting(trk):
    """Attention between prompt and image starts as similarity, so that a click looks at its own place and marks it:
    the same projection for queries and keys, and content a little quieter than place."""
    head = trk.mask_decoder.transformer
    pairs = [head.final_attn_token_to_image]
    for layer in head.layers:
        pairs += [layer.cross_attn_token_to_image, layer.cross_attn_image_to_token]
        for norm in (layer.layer_norm1, layer.layer_norm2, layer.layer_norm3, layer.layer_norm4):
            norm.weight.fill_(0.5)
    for m in pairs:
        m.q_proj.weight.mul_(1.55)
        m.k_proj.weight.copy_(m.q_proj.weight)


def init_memory(trk):
    # the mean of 4x4 pixels of a 0/1 mask, turned into logits of about -5 to 5
    trk.mask_downsample.weight.fill_(10.0 / 16.0)
    trk.mask_downsample.bias.fill_(-5.0)
    for layer in trk.memory_encoder.memory_fuser.layers:
        layer.scale.fill_(0.1)
    # attention starts with "about where it was": equal biases under the rotary encoding peak at offset 0
    for layer in trk.memory_attention.layers:
        layer.cross_attn_image.q_proj.bias.fill_(1.2)
        layer.cross_attn_image.k_proj.bias.fill_(1.2)
