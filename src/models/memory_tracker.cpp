#include "models/memory_tracker.h"

#include "models/memory_layout.h"
#include "nn/position.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>

namespace sam3 {

namespace {

constexpr float kAbsentLogit = -1024.0F;                       // a mask's logits where its object is not seen
constexpr float kHuge = 3e38F;                                 // makes every positive number at least 1
constexpr float kAdoptedScale = 20.0F, kAdoptedBias = -10.0F;  // logits that stand for an adopted mask
constexpr float kPointerTemperature = 10000.0F;

// A distance in time as sines, then cosines, of falling frequency.
void encode_distance(float distance, int64_t channels, float* out) {
    const int64_t half = channels / 2;
    for (int64_t i = 0; i < half; ++i) {
        const float divisor = std::pow(kPointerTemperature, static_cast<float>(i - i % 2) / static_cast<float>(half));
        out[i] = std::sin(distance / divisor);
        out[half + i] = std::cos(distance / divisor);
    }
}

Tensor as_maps(const Tensor& masks) { return masks.reshape({masks.dim(0), masks.dim(1), masks.dim(2), 1}); }

}  // namespace

MemoryTracker::MemoryTracker(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                             const MemoryConfig& config, const InteractiveHead& head, const StabilityRule& stability)
    : config_(config),
      channels_(channels),
      head_(head),
      stability_(stability),
      attention_(context, scope / "memory_attention", channels, config),
      encoder_(context, scope / "memory_encoder", channels, config) {
    const int64_t m = config.channels;
    no_memory_ = nn::to_device(context, scope.tensor("no_memory_embedding", {1, 1, channels})).reshape({channels});
    no_pointer_ = nn::to_device(context, scope.tensor("no_object_pointer", {1, channels}));
    if (config.occlusion_embedding)
        occlusion_ = nn::to_device(context, scope.tensor("occlusion_spatial_embedding_parameter", {1, m}));
    temporal_ = scope.tensor("memory_temporal_positional_encoding", {config.frames, 1, 1, m});
    mask_downsample_ = nn::Conv2d(context, scope / "mask_downsample", 1, 1, {.kernel = 4, .stride = 4});
    pointer_head_ = nn::MlpHead(context, scope / "object_pointer_proj", {"proj_in", "layers.0", "proj_out"}, channels,
                                channels, channels);
    if (config.pointer_positions)
        pointer_position_ = nn::Linear(context, scope / "temporal_positional_encoding_projection_layer", channels, m);
}

Tensor MemoryTracker::without_memory(Ops& ops, const Tensor& map) const { return ops.add(map, no_memory_); }

// [frames, H*W, M]: where a memory token lies and how old it is; the last row is that of conditioning frames.
std::shared_ptr<const Tensor> MemoryTracker::positions_for(Ops& ops, int64_t height, int64_t width) const {
    return positions_.get(height, width, [&] {
        const Tensor place = nn::sine_position_table(height, width, config_.channels);
        Tensor table = Tensor::host({config_.frames, height * width, config_.channels});
        float* out = table.data<float>();
        for (int64_t age = 0; age < config_.frames; ++age) {
            const float* time = temporal_.data<float>() + age * config_.channels;
            for (int64_t i = 0; i < place.numel(); ++i) *out++ = place.data<float>()[i] + time[i % config_.channels];
        }
        return ops.upload(table);
    });
}

// The pointers of all objects, one after the other, as tokens [P * C / M, M]; undefined when there are none.
Tensor MemoryTracker::pointer_tokens(Ops& ops, const std::vector<ObjectMemory>& objects) const {
    std::vector<Tensor> rows;
    for (const ObjectMemory& object : objects)
        for (const ObjectMemory::Pointer& pointer : object.pointers)
            rows.push_back(pointer.vector.reshape({1, channels_}));
    return rows.empty() ? Tensor() : ops.stored(ops.concat(rows, 0)).reshape({-1, config_.channels});
}

// Their positions likewise; undefined when pointers carry none.
Tensor MemoryTracker::pointer_positions(Ops& ops, std::span<const ObjectMemory> objects) const {
    int64_t count = 0;
    for (const ObjectMemory& object : objects) count += static_cast<int64_t>(object.pointers.size());
    if (count == 0 || !config_.pointer_positions) return {};
    Tensor distances = Tensor::host({count, channels_});
    float* out = distances.data<float>();
    for (const ObjectMemory& object : objects)
        for (const ObjectMemory::Pointer& pointer : object.pointers) {
            encode_distance(pointer.distance, channels_, out);
            out += channels_;
        }
    const Tensor positions = ops.cast(pointer_position_.forward(ops, ops.upload(distances)), DType::f32);
    return ops.contiguous(positions.unsqueeze(1).expand(1, tokens_a_pointer())).reshape({-1, config_.channels});
}

// Few large steps, because there may be many objects and a device's steps have a cost of their own: everything that is
// remembered is put one behind the other, and positions are added to all of it at once.
MemoryTokens MemoryTracker::gather(Ops& ops, const std::vector<ObjectMemory>& objects, int64_t height,
                                   int64_t width) const {
    const MemoryLayout layout(objects, height * width, tokens_a_pointer());
    MemoryTokens memory;
    memory.in_maps = layout.in_maps;

    MemoryRows values(ops, layout, config_.channels, ops.stored_type());
    const Tensor pointers = pointer_tokens(ops, objects);
    for (const ObjectMemory& object : objects) {
        for (const ObjectMemory::Spatial& map : object.spatial) values.add_map(ops.stored(map.tokens));
        values.add_pointers(pointers, object.pointers.size());
    }
    memory.values = values.joined();

    const std::span<const ObjectMemory> distinct(objects.data(), layout.same_times ? 1 : objects.size());
    MemoryRows positions(ops, layout, config_.channels, DType::f32);
    const std::shared_ptr<const Tensor> of_maps = positions_for(ops, height, width);
    const Tensor of_pointers = pointer_positions(ops, distinct);
    for (const ObjectMemory& object : distinct) {
        for (const ObjectMemory::Spatial& map : object.spatial)
            positions.add_map(of_maps->select(0, (map.age == 0 ? config_.frames : map.age) - 1));
        positions.add_pointers(of_pointers, object.pointers.size());
    }
    memory.positions = positions.joined();

    if (layout.padded) memory.mask = ops.upload(layout.mask(objects));
    return memory;
}

Tensor MemoryTracker::with_memory(Ops& ops, const Tensor& map, const std::vector<ObjectMemory>& objects) const {
    const MemoryTokens memory = gather(ops, objects, map.dim(1), map.dim(2));
    const Tensor conditioned = attention_.forward(ops, map, memory);
    ops.trace("memory.conditioned", conditioned);
    return conditioned;
}

bool MemoryTracker::competes(bool first_frame, int points) const {
    return config_.multimask && (first_frame || config_.multimask_when_tracking) &&
           points >= config_.multimask_min_points && points <= config_.multimask_max_points;
}

// rows [B, ...], those of `keep` as they are, the others replaced by `other` [1, ...].
Tensor MemoryTracker::replace_rows(Ops& ops, const Tensor& rows, const std::vector<bool>& keep,
                                   const Tensor& other) const {
    if (std::all_of(keep.begin(), keep.end(), [](bool kept) { return kept; })) return rows;
    std::vector<Tensor> parts;
    for (size_t i = 0; i < keep.size(); ++i)
        parts.push_back(keep[i] ? rows.slice(0, static_cast<int64_t>(i), 1) : other);
    return ops.concat(parts, 0);
}

// Chosen where they are, so that nobody waits for the device.
MemoryTracker::Choice MemoryTracker::best_candidates(Ops& ops, const SamMaskDecoder::Output& output) {
    const int64_t batch = output.masks.dim(0);
    const int64_t candidates = output.masks.dim(1) - 1;
    const Tensor masks = output.masks.reshape({batch, candidates + 1, output.masks.dim(2) * output.masks.dim(3)});
    const auto [iou, best] = ops.topk(output.iou.slice(1, 1, candidates), 1);
    return {ops.gather_rows(masks.slice(1, 1, candidates), best),
            ops.gather_rows(output.mask_tokens.slice(1, 1, candidates), best), iou};
}

MemoryTracker::Choice MemoryTracker::single_or_best(Ops& ops, const SamMaskDecoder::Output& output,
                                                    const std::vector<bool>& compete) const {
    const int64_t batch = output.masks.dim(0);
    const int64_t count = output.masks.dim(1);
    const Tensor iou = ops.download(output.iou);
    Tensor masks = Tensor::host({batch, 1}, DType::i32);   // which candidate's mask
    Tensor tokens = Tensor::host({batch, 1}, DType::i32);  // which candidate's token
    Tensor chosen = Tensor::host({batch, 1});
    for (int64_t b = 0; b < batch; ++b) {
        const float* quality = iou.data<float>() + b * count;
        const auto best = static_cast<int32_t>(std::max_element(quality + 1, quality + count) - quality);
        const bool competing = compete[static_cast<size_t>(b)];
        // An unstable single mask gives way to the best candidate, but its token stays.
        const bool single = !competing && (!stability_.active ||
                                           stability_.holds(ops.download(output.masks.select(0, b).select(0, 0))));
        masks.data<int32_t>()[b] = single ? 0 : best;
        tokens.data<int32_t>()[b] = competing ? best : 0;
        chosen.data<float>()[b] = quality[masks.data<int32_t>()[b]];
    }
    const Tensor flat = output.masks.reshape({batch, count, output.masks.dim(2) * output.masks.dim(3)});
    return {ops.gather_rows(flat, ops.upload(masks)), ops.gather_rows(output.mask_tokens, ops.upload(tokens)),
            ops.upload(chosen)};
}

MemoryTracker::Answer MemoryTracker::finish(Ops& ops, const SamMaskDecoder::Output& output,
                                            const std::vector<bool>& compete) const {
    const int64_t batch = output.masks.dim(0);
    const bool all = std::all_of(compete.begin(), compete.end(), [](bool competes) { return competes; });
    const Choice choice = all ? best_candidates(ops, output) : single_or_best(ops, output, compete);
    // 1 where the object is seen, else 0, so that products and sums put other values in place of the rest exactly.
    const Tensor seen = ops.clamp(ops.affine(output.object_score, kHuge, 0.0F), 0.0F, 1.0F);
    const Tensor absent = ops.affine(seen, -1.0F, 1.0F);

    Answer answer;
    const Tensor masks =
        ops.mul(choice.masks.reshape({batch, output.masks.dim(2), output.masks.dim(3)}), seen.reshape({batch, 1, 1}));
    ops.add_(masks, ops.affine(absent, kAbsentLogit, 0.0F).reshape({batch, 1, 1}));
    answer.masks = masks;
    const Tensor pointers = pointer_head_.forward(ops, choice.tokens.reshape({batch, channels_}));
    answer.pointers = ops.add(ops.mul(pointers, seen), ops.mul(no_pointer_, absent));
    answer.scores = ops.concat({output.object_score, choice.iou}, 1);
    ops.trace("memory.pointer", answer.pointers);
    return answer;
}

MemoryTracker::Answer MemoryTracker::decode(Ops& ops, const Tensor& image, const std::vector<Tensor>& fine,
                                            const std::vector<InteractivePrompt>& prompts,
                                            const std::vector<bool>& compete, int64_t image_size) const {
    return finish(ops, head_.decode(ops, {image, {}, fine}, prompts, image_size), compete);
}

MemoryTracker::Answer MemoryTracker::adopt(Ops& ops, const Tensor& map, const std::vector<Tensor>& fine,
                                           const Tensor& masks) const {
    const int64_t batch = masks.dim(0);
    const int64_t image_size = masks.dim(1);
    const int64_t height = 4 * map.dim(1);
    const int64_t width = 4 * map.dim(2);
    const Tensor full = as_maps(ops.upload(masks));
    const Tensor prompt = ops.download(
        ops.resize(mask_downsample_.forward(ops, full), height, width, Interpolation::bilinear, /*antialias=*/true));
    std::vector<InteractivePrompt> prompts(static_cast<size_t>(batch));
    std::vector<bool> seen;
    for (int64_t b = 0; b < batch; ++b) {
        prompts[static_cast<size_t>(b)].mask_logits = prompt.select(0, b).reshape({height, width});
        const float* mask = masks.data<float>() + b * image_size * image_size;
        seen.push_back(std::any_of(mask, mask + image_size * image_size, [](float value) { return value > 0; }));
    }
    Answer answer = decode(ops, map, fine, prompts, std::vector<bool>(prompts.size(), true), image_size);
    const Tensor adopted = ops.affine(full, kAdoptedScale, kAdoptedBias);
    answer.adopted = adopted.reshape({batch, image_size, image_size});
    answer.masks =
        ops.resize(adopted, height, width, Interpolation::bilinear, /*antialias=*/true).reshape({batch, height, width});
    answer.pointers = replace_rows(ops, answer.pointers, seen, no_pointer_);
    Tensor scores = Tensor::host({batch, 2});
    for (int64_t b = 0; b < batch; ++b) {
        scores.data<float>()[2 * b] = (seen[static_cast<size_t>(b)] ? kAdoptedScale : 0.0F) + kAdoptedBias;
        scores.data<float>()[2 * b + 1] = 1.0F;
    }
    answer.scores = ops.upload(scores);
    return answer;
}

Tensor MemoryTracker::encode_memory(Ops& ops, const Tensor& map, const Tensor& masks, bool binary,
                                    const std::vector<bool>& seen) const {
    const int64_t height = config_.downsampler_total_stride * map.dim(1);
    const int64_t width = config_.downsampler_total_stride * map.dim(2);
    Tensor x = as_maps(masks);
    if (x.dim(1) != height || x.dim(2) != width)
        x = ops.resize(x, height, width, Interpolation::bilinear, /*antialias=*/true);
    // A factor this large makes every positive logit 1.
    x = binary ? ops.clamp(ops.affine(x, 1e30F, 0.0F), 0.0F, 1.0F) : ops.unary(x, Unary::sigmoid);
    Tensor tokens = encoder_.forward(ops, map, ops.affine(x, config_.mask_scale, config_.mask_bias));
    if (occlusion_)
        for (size_t i = 0; i < seen.size(); ++i) {
            if (!seen[i]) ops.add_(tokens.slice(0, static_cast<int64_t>(i), 1), occlusion_);
        }
    tokens = ops.cast(tokens, DType::bf16);
    ops.trace("memory.tokens", tokens);
    return tokens;
}

}  // namespace sam3
