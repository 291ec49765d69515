"""Inference through transformers' own classes, exactly as a user of the saved folder would run it.

Images are float tensors [n,3,S,S] in -1..1, of the model's size, so that nothing is resized on the way in; masks are
boolean numpy arrays [S,S].
"""
import torch
import torch.nn.functional as F
import transformers
from transformers.models.sam3_tracker_video.modeling_sam3_tracker_video import Sam3TrackerVideoInferenceSession
from transformers.models.sam3_video.modeling_sam3_video import Sam3VideoInferenceSession

from tokenizer import MAX_TEXT


def load(name, folder, device):
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32)
    return model.to(device).eval()


def tokens(tokenizer, phrases, device):
    out = tokenizer(phrases, return_tensors="pt", padding="max_length", max_length=MAX_TEXT)
    return out["input_ids"].to(device), out["attention_mask"].to(device)


def enlarge(logits, size):
    """[...,h,w] -> [...,size,size] bool"""
    flat = logits.float().flatten(0, -3)[:, None]
    big = F.interpolate(flat, size=(size, size), mode="bilinear", align_corners=False)[:, 0] > 0
    return big.view(*logits.shape[:-2], size, size)


def session(cls, video, device):
    size = video.shape[-1]
    return cls(video=video, video_height=size, video_width=size, inference_device=device,
               inference_state_device=device, video_storage_device=device, dtype=torch.float32)


@torch.no_grad()
def find(model, tokenizer, images, phrases, threshold, boxes=None):
    """Sam3Model: for each image the masks that its phrase (and positive box, cxcywh in 0..1) finds, best first."""
    ids, attention = tokens(tokenizer, phrases, images.device)
    extra = {}
    if boxes is not None:
        extra = dict(input_boxes=boxes, input_boxes_labels=torch.ones(boxes.shape[:2], dtype=torch.long,
                                                                      device=boxes.device))
    out = model(pixel_values=images, input_ids=ids, attention_mask=attention, **extra)
    scores = out.pred_logits.sigmoid() * out.presence_logits.sigmoid()
    found = []
    for score, masks in zip(scores, out.pred_masks):
        order = score.argsort(descending=True)
        order = order[score[order] > threshold]
        found.append(list(enlarge(masks[order], images.shape[-1]).cpu().numpy()) if len(order) else [])
    return found


@torch.no_grad()
def click(model, images, points, labels, masks=None):
    """Sam3TrackerModel: points [n,k,2] in pixels, labels [n,k], previous low-resolution logits [n,h,w] or None
    -> masks [n,S,S] bool tensor, their low-resolution logits. One point: the best of three, more: the single one."""
    extra = {} if masks is None else dict(input_masks=masks[:, None].clamp(-20, 20))
    many = points.shape[1] > 1
    out = model(pixel_values=images, input_points=points[:, None].float(), input_labels=labels[:, None],
                multimask_output=not many, **extra)
    best = out.iou_scores[:, 0].argmax(-1)
    low = out.pred_masks[torch.arange(len(best), device=best.device), 0, best].float()
    return enlarge(low, images.shape[-1]), low


@torch.no_grad()
def follow_clicks(model, video, clicks):
    """Sam3TrackerVideoModel: one click [x, y] for each object on frame 0 -> {object: [T masks]}"""
    device, size = video.device, video.shape[-1]
    state = session(Sam3TrackerVideoInferenceSession, video, device)
    objects = list(range(len(clicks)))
    for i, place in enumerate(clicks):
        state.add_point_inputs(state.obj_id_to_idx(i), 0, dict(
            point_coords=torch.tensor(place, dtype=torch.float32, device=device).view(1, 1, 1, 2),
            point_labels=torch.ones(1, 1, 1, dtype=torch.int32, device=device)))
    state.obj_with_new_inputs = list(objects)  # the session empties it
    tracks = {i: [] for i in objects}
    for out in model.propagate_in_video_iterator(state, start_frame_idx=0):
        masks = enlarge(out.pred_masks.view(len(objects), *out.pred_masks.shape[-2:]), size).cpu().numpy()
        for i in objects:
            tracks[i].append(masks[i])
    return tracks


@torch.no_grad()
def follow_text(model, tokenizer, video, phrase):
    """Sam3VideoModel: a phrase -> {track: [T masks]}"""
    device, size, T = video.device, video.shape[-1], video.shape[0]
    state = session(Sam3VideoInferenceSession, video, device)
    prompt = state.add_prompt(phrase)
    state.prompt_input_ids[prompt], state.prompt_attention_masks[prompt] = tokens(tokenizer, phrase, device)
    outputs = {o.frame_idx: o for o in model.propagate_in_video_iterator(state, start_frame_idx=0)}
    hidden = set(state.hotstart_removed_obj_ids)
    empty = torch.zeros(size, size, dtype=torch.bool).numpy()
    tracks = {}
    for t, out in outputs.items():
        for i, mask in out.obj_id_to_mask.items():
            if i in hidden or (out.suppressed_obj_ids and i in out.suppressed_obj_ids):
                continue
            tracks.setdefault(i, [empty] * T)[t] = enlarge(mask.view(*mask.shape[-2:])[None], size)[0].cpu().numpy()
    return {i: t for i, t in tracks.items() if any(m.any() for m in t)}
