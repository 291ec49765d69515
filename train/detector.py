"""The detector: ViT, feature pyramid, text, exemplars, DETR, masks.

Computes exactly what transformers' Sam3Model computes (selftest.py compares them), but runs several prompts on one
pass of the vision encoder and makes masks only for the queries that are asked for.
"""
import torch
import torch.nn.functional as F
import torchvision

import blocks as K
from masks import cxcywh_to_xyxy
from prompts import NO_BOX


def inverse_sigmoid(x, eps=1e-3):
    x = x.clamp(0, 1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


def padded(x, length, dim):
    """x with zeros (False) appended along dim up to the length."""
    shape = list(x.shape)
    shape[dim] = length - shape[dim]
    return torch.cat([x, x.new_zeros(shape)], dim)


class Detector:
    def __init__(self, model, p, device):
        self.det = model.detector_model
        self.p, self.grid, self.heads = p, p["image"] // 14, p["heads"]
        self.vit = K.Vit(self.det.vision_encoder.backbone, p, device)
        # sine encoding of the 1x level [1, grid*grid, d], always float32
        self.position = K.sine_2d(p["d"], self.grid, device).flatten(2).transpose(1, 2).contiguous()

    def vision(self, pixels):
        """-> ViT tokens [B,T,C], feature maps at 4x, 2x and 1x"""
        tokens = self.vit(pixels)
        x = tokens.view(tokens.shape[0], self.grid, self.grid, -1).permute(0, 3, 1, 2)
        pyramid = self.det.vision_encoder.neck.fpn_layers
        return tokens, [K.fpn_level(pyramid[i], x) for i in range(3)]

    # ---- prompts ----------------------------------------------------------------------------------------
    def text(self, ids):
        return self.det.text_projection(K.clip_text(self.det.text_encoder, ids, self.p["text_heads"]))

    def exemplars(self, boxes, labels, f2):
        """The geometry encoder on boxes [B,k,4] cxcywh, one set for each image. -> [B,k+1,d], mask [B,k+1]"""
        ge = self.det.geometry_encoder
        B, k = labels.shape
        feats = f2.flatten(2).transpose(1, 2)
        norm = ge.vision_layer_norm(f2.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        with torch.autocast(f2.device.type, enabled=False):
            x = self.box_features(boxes.float(), labels.clamp(min=0), norm.float())
        # the CLS token goes right behind the last box that is used
        count = (labels != NO_BOX).sum(1, keepdim=True)
        slot = torch.arange(k + 1, device=labels.device)[None]
        cls = ge.cls_embed.weight.view(1, 1, -1).to(x.dtype)
        x = torch.where((slot == count)[..., None], cls, padded(x, k + 1, 1))
        mask = slot <= count
        x = ge.prompt_layer_norm(ge.final_proj(x))
        m4 = mask[:, None, None, :].expand(-1, 1, k + 1, -1)
        for layer in ge.layers:
            x = K.geometry_layer(layer, x, feats, feats + self.position, m4, self.heads)
        return ge.output_layer_norm(x), mask

    def box_features(self, boxes, labels, norm):
        ge = self.det.geometry_encoder
        B, k = labels.shape
        corners = cxcywh_to_xyxy(boxes) * self.grid
        image = torch.arange(B, device=boxes.device, dtype=boxes.dtype)[:, None, None].expand(B, k, 1)
        regions = torch.cat([image, corners], -1).view(B * k, 5)
        pooled = torchvision.ops.roi_align(norm.contiguous(), regions, ge.roi_size)
        e = K.sine_of(boxes[..., :2], self.p["d"] // 2)
        place = torch.cat([e[..., 1, :], e[..., 0, :], boxes[..., 3:4], boxes[..., 2:3]], -1)
        return (ge.boxes_direct_project(boxes) + ge.boxes_pool_project(pooled).view(B, k, -1)
                + ge.boxes_pos_enc_project(place) + K.lookup(ge.label_embed, labels))

    def prompt(self, pr, f2):
        """Phrases, and exemplars for the first rows, as one padded prompt. -> [M,L,d], mask [M,L]

        L is a multiple of 8: attention with a mask is slow otherwise.
        """
        text, mask = self.text(pr["ids"]), pr["mask"]
        if pr["boxes"] is None:
            return padded(text, 8, 1), padded(mask, 8, 1)
        boxes, used = self.exemplars(pr["boxes"], pr["labels"], f2)
        M = text.shape[0]
        whole = torch.cat([text, padded(boxes.to(text.dtype), M, 0)], 1)
        return padded(whole, 16, 1), padded(torch.cat([mask, padded(used, M, 0)], 1), 16, 1)

    # ---- DETR -------------------------------------------------------------------------------------------
    def detr(self, f2, prompt, pmask):
        """f2 [M,d,g,g], prompt [M,L,d], pmask [M,L]
        -> encoder states [M,T,d], query states [Ld,M,Q,d], boxes [Ld,M,Q,4], presence [Ld,M], logits [Ld,M,Q]"""
        dec = self.det.detr_decoder
        x = f2.flatten(2).transpose(1, 2)
        m4 = pmask[:, None, None, :]
        for layer in self.det.detr_encoder.layers:
            x = K.encoder_layer(layer, x, prompt, self.position, m4.expand(-1, 1, x.shape[1], -1), self.heads)
        M = f2.shape[0]
        q = torch.cat([dec.presence_token.weight, dec.query_embed.weight], 0).repeat(M, 1, 1)
        ref = dec.reference_points.weight.float().sigmoid().repeat(M, 1, 1)
        tmask, key = m4.expand(-1, 1, q.shape[1], -1), x + self.position
        limit = dec.clamp_presence_logit_max_val
        states, boxes, presence = [], [], []
        for layer in dec.layers:
            q = K.decoder_layer(layer, dec, q, ref.detach(), prompt, tmask, x, key, self.grid, self.heads)
            qn = dec.output_layer_norm(q[:, 1:])
            new = (K.mlp3(dec.box_head, qn).float() + inverse_sigmoid(ref)).sigmoid()
            there = K.mlp3(dec.presence_head, dec.presence_layer_norm(q[:, 0])).float()[:, 0]
            presence.append(there.clamp(-limit, limit))
            states.append(qn)
            boxes.append(new)
            ref = new.detach()
        states = torch.stack(states)
        logits = K.dot_scores(self.det.dot_product_scoring, states, prompt, pmask)
        return x, states, torch.stack(boxes), torch.stack(presence), logits

    # ---- masks ------------------------------------------------------------------------------------------
    def pixels(self, x, f0, f1, prompt, pmask):
        """-> instance embeddings [M,d,L,L], semantic logits [M,L,L]"""
        md = self.det.mask_decoder
        x = x + K.mha(md.prompt_cross_attn, md.prompt_cross_attn_norm(x), prompt, prompt, self.heads,
                      pmask[:, None, None, :].expand(-1, 1, x.shape[1], -1))
        x = x.view(x.shape[0], self.grid, self.grid, -1).permute(0, 3, 1, 2)
        x = K.pixel_decoder(md.pixel_decoder, f0, f1, x)
        return md.instance_projection(x), md.semantic_projection(x)[:, 0]

    def masks(self, embeddings, queries):
        for i, layer in enumerate(self.det.mask_decoder.mask_embedder.layers):
            queries = layer(F.relu(queries) if i else queries)
        return torch.einsum("bqc,bchw->bqhw", queries, embeddings)
