"""The network's arithmetic, written on the leaf modules (Linear, Conv, LayerNorm) only.

Leaf names are the checkpoint's keys, so this does not depend on how a version of transformers writes its forward
methods; selftest.py checks it against them. No call here waits for the GPU or copies from the host, so that a whole
training step can be captured in a CUDA graph.
"""
import math

import torch
import torch.nn.functional as F


def lookup(embedding, ids):
    """Rows of an embedding as a product with one-hot rows: its gradient needs no sort, unlike F.embedding's."""
    rows = torch.arange(embedding.weight.shape[0], device=ids.device)
    return (ids[..., None] == rows).to(embedding.weight.dtype) @ embedding.weight


# ---- attention -------------------------------------------------------------------------------------------
def heads_of(x, h):
    return x.view(*x.shape[:-1], h, -1).transpose(-2, -3)


def mha(m, q, k, v, h, mask=None):
    """q [B,Lq,C], k/v [B,Lk,C]; mask: bool (True = attend) or additive, broadcastable to [B,h,Lq,Lk]"""
    q, k, v = heads_of(m.q_proj(q), h), heads_of(m.k_proj(k), h), heads_of(m.v_proj(v), h)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(q.dtype)
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return m.o_proj(o.transpose(-2, -3).flatten(-2))


def rope_table(end, dim, theta, scale, device):
    """[2, end*end, dim/2]: cosine and sine of the 2D axial rotary encoding, x first."""
    f = 1.0 / (theta ** (torch.arange(0, dim, 4)[: dim // 4].float() / dim))
    i = torch.arange(end * end)
    x = (i % end).float() * scale
    y = torch.div(i, end, rounding_mode="floor").float() * scale
    angle = torch.cat([torch.outer(x, f), torch.outer(y, f)], -1)
    return torch.stack([angle.cos(), angle.sin()]).to(device)


def rope(x, table):
    """x [..., L, dim], pairs (even, odd) turned by table [2, L, dim/2]"""
    cos, sin = table
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(x.dtype)


def sine_2d(d, g, device):
    """[1, d, g, g]: the normalised sine encoding of transformers' Sam3SinePositionEmbedding."""
    n = d // 2
    y = torch.arange(1, g + 1, dtype=torch.float32, device=device)
    y = y / (g + 1e-6) * (2 * math.pi)
    t = torch.arange(n, dtype=torch.float32, device=device)
    t = 10000 ** (2 * torch.div(t, 2, rounding_mode="floor") / n)
    p = y[:, None] / t
    p = torch.stack([p[:, 0::2].sin(), p[:, 1::2].cos()], 2).flatten(1)          # g, n
    py = p[:, None].expand(g, g, n)
    px = p[None].expand(g, g, n)
    return torch.cat([py, px], -1).permute(2, 0, 1)[None].contiguous()


def sine_of(x, n):
    """[...]-> [..., n], interleaved sin/cos of 2*pi*x"""
    t = torch.arange(n, dtype=torch.float32, device=x.device)
    t = 10000 ** (2 * torch.div(t, 2, rounding_mode="floor") / n)
    p = x[..., None] * (2 * math.pi) / t
    return torch.stack([p[..., 0::2].sin(), p[..., 1::2].cos()], -1).flatten(-2)


def sine_1d(pos, dim):
    half = dim // 2
    t = torch.arange(half, dtype=torch.float32, device=pos.device)
    t = 10000 ** (2 * torch.div(t, 2, rounding_mode="floor") / half)
    x = pos[..., None] / t
    return torch.cat([x.sin(), x.cos()], -1)


def mlp3(m, x):
    """Sam3DecoderMLP"""
    x = F.relu(m.layer1(x))
    if getattr(m, "layer3", None) is not None:
        return m.layer3(F.relu(m.layer2(x)))
    return m.layer2(x)


def ffn(m, x):
    """Sam3TrackerVideoFeedForward (relu)"""
    x = F.relu(m.proj_in(x))
    for layer in m.layers:
        x = F.relu(layer(x))
    return m.proj_out(x)


def ln2d(m, x):
    """LayerNorm over the channels of [n,C,H,W], written out: torch's kernels crawl where C is 4 or 16."""
    x = x.float()
    x = x - x.mean(1, keepdim=True)
    x = x * torch.rsqrt(x.square().mean(1, keepdim=True) + m.eps)
    return x * m.weight[:, None, None] + m.bias[:, None, None]


# ---- ViT -------------------------------------------------------------------------------------------------
def vit_layer(m, x, table, windows, h):
    """x [B,L,C], attention inside each of the windows"""
    y = m.layer_norm1(x)
    a = m.attention
    q, k, v = (heads_of(f(y).view(x.shape[0] * windows, -1, x.shape[2]), h) for f in (a.q_proj, a.k_proj, a.v_proj))
    o = F.scaled_dot_product_attention(rope(q, table), rope(k, table), v)
    x = x + a.o_proj(o.transpose(1, 2).reshape(x.shape))
    return x + m.mlp.fc2(F.gelu(m.mlp.fc1(m.layer_norm2(x))))


class Vit:
    """Tokens stay in window order through all layers; global layers use a permuted rotary table instead."""

    def __init__(self, vit, p, device):
        self.vit, self.heads = vit, p["vit_heads"]
        self.grid, self.window = p["image"] // 14, p["window"]
        g, w = self.grid, self.window
        head = p["vit_hidden"] // self.heads
        self.local = rope_table(w, head, 10000.0, 1.0, device)
        self.wide = self.windowed(rope_table(g, head, 10000.0, w / g, device))

    def windowed(self, x):
        """[B, g*g, C] from raster order to window after window"""
        n, w = self.grid // self.window, self.window
        return x.view(-1, n, w, n, w, x.shape[-1]).transpose(2, 3).reshape(-1, self.grid ** 2, x.shape[-1])

    def raster(self, x):
        n, w = self.grid // self.window, self.window
        return x.view(-1, n, n, w, w, x.shape[-1]).transpose(2, 3).reshape(-1, self.grid ** 2, x.shape[-1])

    def __call__(self, pixels):
        """[B,3,S,S] -> [B, g*g, C], raster order"""
        v, g, w, h = self.vit, self.grid, self.window, self.heads
        x = v.embeddings.patch_embeddings.projection(pixels).flatten(2).transpose(1, 2)
        pe = v.embeddings.position_embeddings
        k = int(math.isqrt(pe.shape[1]))
        pe = pe.view(k, k, -1).repeat(g // k + 1, g // k + 1, 1)[:g, :g].reshape(1, g * g, -1)
        x = v.layer_norm(self.windowed(x + pe))
        for i, layer in enumerate(v.layers):
            x = vit_layer(layer, x, *((self.wide, 1) if i % 2 else (self.local, (g // w) ** 2)), h)
        return self.raster(x)


def fpn_level(m, x):
    for layer in m.scale_layers:
        x = layer(x)
    return m.proj2(m.proj1(x))


# ---- text ------------------------------------------------------------------------------------------------
def clip_text(te, ids, h):
    """CLIPTextModelWithProjection's last hidden state; causal, so right padding cannot matter."""
    t = te.text_model
    x = lookup(t.embeddings.token_embedding, ids) + t.embeddings.position_embedding.weight[: ids.shape[1]]
    for layer in t.encoder.layers:
        y = layer.layer_norm1(x)
        a = layer.self_attn
        q, k, v = (heads_of(f(y), h) for f in (a.q_proj, a.k_proj, a.v_proj))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + a.out_proj(o.transpose(1, 2).flatten(-2))
        x = x + layer.mlp.fc2(F.gelu(layer.mlp.fc1(layer.layer_norm2(x))))
    return t.final_layer_norm(x)


# ---- DETR ------------------------------------------------------------------------------------------------
def mlp_relu(m, x):
    return m.fc2(F.relu(m.fc1(x)))


def encoder_layer(m, x, prompt, pos, mask, h):
    y = m.layer_norm1(x)
    yp = y + pos
    x = x + mha(m.self_attn, yp, yp, y, h)
    x = x + mha(m.cross_attn, m.layer_norm2(x), prompt, prompt, h, mask)
    return x + mlp_relu(m.mlp, m.layer_norm3(x))


def geometry_layer(m, x, feats, key, mask, h):
    y = m.layer_norm1(x)
    x = x + mha(m.self_attn, y, y, y, h, mask)
    x = x + mha(m.cross_attn, m.layer_norm2(x), key, feats, h)
    return x + mlp_relu(m.mlp, m.layer_norm3(x))


def decoder_layer(m, dec, x, ref, prompt, tmask, feats, key, g, h):
    """Presence token and queries x [M,Q+1,d] with reference boxes ref [M,Q,4]"""
    qpos = F.pad(mlp3(dec.ref_point_head, encode_boxes(ref, x.shape[2])), (0, 0, 1, 0))
    y = x + qpos
    x = m.self_attn_layer_norm(x + mha(m.self_attn, y, y, x, h))
    x = m.text_cross_attn_layer_norm(x + mha(m.text_cross_attn, x + qpos, prompt, prompt, h, tmask))
    bias = box_bias(dec, ref, g)
    x = m.vision_cross_attn_layer_norm(x + mha(m.vision_cross_attn, x + qpos, key, feats, h, bias))
    return m.mlp_layer_norm(x + mlp_relu(m.mlp, x))


def box_bias(dec, ref, g):
    """Relative position bias [M, heads, Q+1, g*g] of reference boxes [M,Q,4] (row 0: the presence token)."""
    c, s = ref[..., :2], ref[..., 2:]
    lo, hi = c - s / 2, c + s / 2
    grid = torch.arange(g, device=ref.device, dtype=torch.float32) / g

    def enc(a, b):
        d = torch.stack([grid - a[..., None], grid - b[..., None]], -1) * 8
        return torch.sign(d) * torch.log2(d.abs() + 1.0) / math.log2(8)

    bx = mlp3(dec.box_rpb_embed_x, enc(lo[..., 0], hi[..., 0]))                  # M,Q,g,heads
    by = mlp3(dec.box_rpb_embed_y, enc(lo[..., 1], hi[..., 1]))
    b = by.permute(0, 3, 1, 2)[..., :, None] + bx.permute(0, 3, 1, 2)[..., None, :]
    return F.pad(b.flatten(3), (0, 0, 1, 0))


def encode_boxes(ref, d):
    """[M,Q,4] cxcywh -> [M,Q,2d]: y, x, w, h"""
    e = sine_of(ref, d // 2)
    return torch.cat([e[..., 1, :], e[..., 0, :], e[..., 2, :], e[..., 3, :]], -1)


def dot_scores(s, states, prompt, pmask):
    """states [Ld,M,Q,d] -> [Ld,M,Q]"""
    t = s.text_mlp_out_norm(mlp3(s.text_mlp, prompt) + prompt)
    w = pmask.to(t.dtype)[..., None]
    t = (t * w).sum(1) / w.sum(1).clamp(min=1)
    t = s.text_proj(t)
    q = s.query_proj(states)
    x = (q.float() * t.float()[None, :, None]).sum(-1) / math.sqrt(q.shape[-1])
    return x.clamp(-s.clamp_max_val, s.clamp_max_val)


def pixel_decoder(m, fpn0, fpn1, enc):
    x = enc
    for i, skip in enumerate((fpn1, fpn0)):
        x = F.interpolate(x, size=skip.shape[-2:], mode="nearest") + skip
        x = F.relu(m.norms[i](m.conv_layers[i](x)))
    return x


# ---- SAM head --------------------------------------------------------------------------------------------
def two_way(m, tokens, image, wide, h):
    """tokens [n,k,d], image [n,HW,d], wide [1,HW,d] -> tokens, image after each layer"""
    q, k = tokens, image
    images = []
    for i, layer in enumerate(m.layers):
        if i == 0:
            q = mha(layer.self_attn, q, q, q, h)
        else:
            y = q + tokens
            q = q + mha(layer.self_attn, y, y, q, h)
        q = layer.layer_norm1(q)
        q = layer.layer_norm2(q + mha(layer.cross_attn_token_to_image, q + tokens, k + wide, k, h))
        q = layer.layer_norm3(q + ffn(layer.mlp, q))
        k = layer.layer_norm4(k + mha(layer.cross_attn_image_to_token, k + wide, q + tokens, q, h))
        images.append(k)
    q = q + mha(m.final_attn_token_to_image, q + tokens, k + wide, k, h)
    return m.layer_norm_final_attn(q), images


def point_embedding(pe, size, points, labels):
    """Prompt points [n,k,2] in pixels (a 'not a point' is appended) -> [n,k+1,d]"""
    points = F.pad(points.float() + 0.5, (0, 0, 0, 1))
    labels = F.pad(labels, (0, 1), value=-1)
    c = 2 * (points / size) - 1
    g = pe.shared_embedding.positional_embedding.float()
    c = 2 * math.pi * (c[..., :1] * g[0] + c[..., 1:] * g[1])
    e = torch.cat([c.sin(), c.cos()], -1)
    lab = labels[..., None]
    e = torch.where(lab == -1, pe.not_a_point_embed.weight, e)
    return e + lookup(pe.point_embed, labels.clamp(min=0)) * (lab >= 0)


def mask_embedding(m, masks):
    x = F.gelu(ln2d(m.layer_norm1, m.conv1(masks)))
    x = F.gelu(ln2d(m.layer_norm2, m.conv2(x)))
    return m.conv3(x)


def wide_encoding(trk, g, device):
    """[1, g*g, d] random-Fourier encoding of the image grid"""
    c = (torch.arange(g, device=device).float() + 0.5) / g
    y, x = torch.meshgrid(c, c, indexing="ij")
    c = 2 * torch.stack([x, y], -1) - 1
    e = trk.shared_image_embedding.positional_embedding.float()
    c = 2 * math.pi * (c[..., :1] * e[0] + c[..., 1:] * e[1])
    return torch.cat([c.sin(), c.cos()], -1).view(1, g * g, -1)


# ---- memory ----------------------------------------------------------------------------------------------
def memory_key(a, memory, place, table):
    return rope(a.k_proj(memory + place), table)


def memory_attention(m, x, memories, places, pointers, when, table):
    """x [n,HW,d]; memories, each [n,HW,64], at places [1,HW,64]; pointers [n,P,64], which are not rotated, at when"""
    values = torch.cat([*memories, pointers], 1)
    for layer in m.layers:
        a = layer.self_attn
        y = layer.layer_norm1(x)
        o = F.scaled_dot_product_attention(rope(a.q_proj(y), table)[:, None], rope(a.k_proj(y), table)[:, None],
                                           a.v_proj(y)[:, None])
        x = x + a.o_proj(o[:, 0])
        a = layer.cross_attn_image
        q = rope(a.q_proj(layer.layer_norm2(x)), table)
        k = torch.cat([memory_key(a, f, p, table) for f, p in zip(memories, places)] + [a.k_proj(pointers + when)], 1)
        o = F.scaled_dot_product_attention(q[:, None], k[:, None], a.v_proj(values)[:, None])
        x = x + a.o_proj(o[:, 0])
        x = x + layer.linear2(F.relu(layer.linear1(layer.layer_norm3(x))))
    return m.layer_norm(x)


def memory_encoder(m, feats, mask):
    """feats [n,d,g,g], mask [n,1,16g,16g] already scaled -> [n,64,g,g]"""
    y = mask
    for layer in m.mask_downsampler.layers:
        y = F.gelu(ln2d(layer.layer_norm, layer.conv(y)))
    x = m.feature_projection(feats) + m.mask_downsampler.final_conv(y)
    for layer in m.memory_fuser.layers:
        z = layer.layer_norm
        y = layer.depthwise_conv(x).permute(0, 2, 3, 1)
        y = F.layer_norm(y, z.normalized_shape, z.weight, z.bias, z.eps)
        y = layer.scale * layer.pointwise_conv2(F.gelu(layer.pointwise_conv1(y)))
        x = x + y.permute(0, 3, 1, 2)
    return m.projection(x)
