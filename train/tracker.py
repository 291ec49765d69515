"""The tracker: its own feature pyramid on the detector's frozen ViT, the SAM head, and the memory.

The order of memories, temporal encodings and pointers, the gating by the object score and the binarisation of
prompted masks follow Sam3TrackerVideoModel's inference session (selftest.py compares them).
"""
import torch
import torch.nn.functional as F

import blocks as K

NO_OBJECT = -1024.0


class Tracker:
    def __init__(self, model, p, device):
        self.trk, self.neck, self.p = model.tracker_model, model.tracker_neck, p
        self.vit = K.Vit(model.detector_model.vision_encoder.backbone, p, device)
        self.grid, self.heads = p["image"] // 14, p["heads"]
        self.size, self.low = p["image"], 4 * p["image"] // 14
        flat = lambda x: x.flatten(2).transpose(1, 2).contiguous()
        with torch.no_grad():
            self.position = flat(K.sine_2d(p["d"], self.grid, device))           # of the 1x level [1,HW,d]
            self.memory_position = flat(K.sine_2d(64, self.grid, device))
            self.wide = K.wide_encoding(self.trk, self.grid, device)             # of the SAM head [1,HW,d]
        self.rope = K.rope_table(self.grid, p["d"], 10000.0, 1.0, device)
        self.counting = torch.arange(64, device=device).float()
        self.corners = torch.tensor([2, 3], device=device)                       # labels of a box's two points

    def features(self, pixels):
        """-> maps for the SAM head at 4x and 2x, and the 1x level"""
        with torch.no_grad():
            tokens = self.vit(pixels)
        x = tokens.view(tokens.shape[0], self.grid, self.grid, -1).permute(0, 3, 1, 2)
        f = [K.fpn_level(self.neck.fpn_layers[i], x) for i in range(3)]
        md = self.trk.mask_decoder
        return md.conv_s0(f[0]), md.conv_s1(f[1]), f[2]

    # ---- SAM head ---------------------------------------------------------------------------------------
    def prompt(self, points, labels, masks=None):
        """points [n,k,2] in pixels, labels [n,k], masks [n,1,low,low] -> sparse [n,k+1,d], dense"""
        pe = self.trk.prompt_encoder
        sparse = K.point_embedding(pe, self.size, points, labels)
        if masks is not None:
            return sparse, K.mask_embedding(pe.mask_embed, masks)
        return sparse, pe.no_mask_embed.weight.reshape(1, -1, 1, 1)

    def no_prompt(self, n, masks=None):
        points = self.counting.new_zeros(n, 1, 2)
        return self.prompt(points, torch.full_like(points[..., 0], -1, dtype=torch.long), masks)

    def decode(self, emb, s0, s1, sparse, dense):
        """-> masks [n,4,low,low], quality [n,4], tokens [n,4,d], object logit [n], image tokens after each layer"""
        md = self.trk.mask_decoder
        n, k = emb.shape[0], md.mask_tokens.weight.shape[0]
        own = torch.cat([md.obj_score_token.weight, md.iou_token.weight, md.mask_tokens.weight], 0)
        tokens = torch.cat([own[None].expand(n, -1, -1), sparse.to(own.dtype)], 1)
        tokens, images = K.two_way(md.transformer, tokens, (emb + dense).flatten(2).transpose(1, 2), self.wide,
                                   self.heads)
        x = images[-1].view(n, self.grid, self.grid, -1).permute(0, 3, 1, 2)
        x = F.gelu(K.ln2d(md.upscale_layer_norm, md.upscale_conv1(x) + s1))
        x = F.gelu(md.upscale_conv2(x) + s0)
        mine = tokens[:, 2:2 + k]
        hyper = torch.stack([K.ffn(md.output_hypernetworks_mlps[i], mine[:, i]) for i in range(k)], 1)
        masks = torch.einsum("nkc,nchw->nkhw", hyper, x.to(hyper.dtype)).float()
        quality = K.ffn(md.iou_prediction_head, tokens[:, 1]).float().sigmoid()
        return masks, quality, mine, K.ffn(md.pred_obj_score_head, tokens[:, 0]).float()[:, 0], images

    @staticmethod
    def pick(masks, quality, tokens, multi):
        """The mask and the token that inference goes on with: the best of three, or the single one."""
        if not multi:
            return masks[:, 0], tokens[:, 0]
        best = (quality[:, 1:].argmax(1) + 1)[:, None, None]
        mask = masks.gather(1, best[..., None].expand(-1, 1, *masks.shape[2:]))[:, 0]
        return mask, tokens.gather(1, best.expand(-1, 1, tokens.shape[2]))[:, 0]

    def pointer(self, token, seen):
        pointer = K.ffn(self.trk.object_pointer_proj, token)
        s = seen[:, None].to(pointer.dtype)
        return s * pointer + (1 - s) * self.trk.no_object_pointer

    # ---- memory -----------------------------------------------------------------------------------------
    def encode_memory(self, f2, mask, seen, hard):
        """mask [n,h,w] logits, brought to 16x the grid -> [n,HW,64]. hard [n]: binarise, as on prompted frames."""
        t = self.trk
        big = F.interpolate(mask[:, None].float(), size=(16 * self.grid,) * 2, mode="bilinear", align_corners=False)
        m = torch.where(hard[:, None, None, None], (big > 0).float(), torch.sigmoid(big))
        m = m * t.config.sigmoid_scale_for_mem_enc + t.config.sigmoid_bias_for_mem_enc
        x = K.memory_encoder(t.memory_encoder, f2, m)
        if t.occlusion_spatial_embedding_parameter is not None:
            x = x + (1 - seen.float())[:, None, None, None] * t.occlusion_spatial_embedding_parameter[..., None, None]
        return x.flatten(2).transpose(1, 2)

    def attend(self, f2, bank, t, max_pointers):
        """f2 [n,d,g,g]; bank {"cond": {frame: record}, "track": {...}} -> features conditioned on the past"""
        trk, n = self.trk, f2.shape[0]
        times = trk.memory_temporal_positional_encoding                          # frames,1,1,64
        last = times.shape[0] - 1
        memory = [r["memory"] for r in bank["cond"].values()]
        place = [self.memory_position + times[last]] * len(memory)
        for ago in range(last, 0, -1):
            if t - ago in bank["track"]:
                memory.append(bank["track"][t - ago]["memory"])
                place.append(self.memory_position + times[ago - 1])
        pointers = [(t - f, r["pointer"]) for f, r in bank["cond"].items()]
        pointers += [(ago, bank["track"][t - ago]["pointer"]) for ago in range(1, max_pointers)
                     if t - ago in bank["track"]]
        ago = torch.cat([self.counting[a:a + 1] for a, _ in pointers]) / (max_pointers - 1)
        when = trk.temporal_positional_encoding_projection_layer(K.sine_1d(ago, self.p["d"]))
        split = self.p["d"] // 64                                                # a pointer is that many tokens
        pointer = torch.stack([x for _, x in pointers], 1).reshape(n, -1, 64)
        when = when[:, None].expand(-1, split, -1).reshape(1, -1, 64)
        x = f2.flatten(2).transpose(1, 2) + 0.1 * self.position
        out = K.memory_attention(trk.memory_attention, x, memory, place, pointer.to(memory[0].dtype), when, self.rope)
        return out.view(n, self.grid, self.grid, -1).permute(0, 3, 1, 2)
