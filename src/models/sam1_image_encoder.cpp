#include "models/sam1_image_encoder.h"

#include "nn/position.h"
#include "util/error.h"

namespace sam3 {

namespace {

constexpr float kNeckNormEps = 1e-6F;

// q [B, H*W, heads*D], unscaled, times the table of its row or column [L, L, D]: [B, heads, H*W, L].
// The rows (or columns) are the batch of the product, so that every query meets its own table only.
Tensor relative_scores(Ops& ops, const Tensor& q, const Tensor& table, int64_t heads, int64_t height, int64_t width,
                       bool by_row) {
    const int64_t batch = q.dim(0);
    const int64_t length = by_row ? height : width;
    const int64_t other = by_row ? width : height;
    const Tensor split = q.reshape({batch, height, width, heads, table.dim(2)});
    const Tensor grouped =
        ops.permute(split, by_row ? std::vector<int>{1, 0, 2, 3, 4} : std::vector<int>{2, 0, 1, 3, 4});
    const Tensor scores = ops.matmul(grouped.reshape({length, batch * other * heads, table.dim(2)}), table,
                                     /*transpose_b=*/true);
    return ops
        .permute(scores.reshape({length, batch, other, heads, length}),
                 by_row ? std::vector<int>{1, 3, 0, 2, 4} : std::vector<int>{1, 3, 2, 0, 4})
        .reshape({batch, heads, height * width, length});
}

// [N, H, W, C], H and W multiples of the window -> [N*windows, window, window, C]
Tensor partition(Ops& ops, const Tensor& x, int64_t window) {
    const int64_t rows = x.dim(1) / window;
    const int64_t cols = x.dim(2) / window;
    return ops.permute(x.reshape({x.dim(0), rows, window, cols, window, x.dim(3)}), {0, 1, 3, 2, 4, 5})
        .reshape({x.dim(0) * rows * cols, window, window, x.dim(3)});
}

Tensor unpartition(Ops& ops, const Tensor& windows, int64_t batch, int64_t height, int64_t width) {
    const int64_t window = windows.dim(1);
    const int64_t c = windows.dim(3);
    return ops.permute(windows.reshape({batch, height / window, width / window, window, window, c}), {0, 1, 3, 2, 4, 5})
        .reshape({batch, height, width, c});
}

}  // namespace

Sam1ImageEncoder::Sam1ImageEncoder(const nn::LoadContext& context, const Scope& scope, const Sam1VisionConfig& config)
    : config_(config),
      patch_embed_(context, scope / "patch_embed" / "projection", 3, config.hidden_size,
                   {.kernel = static_cast<int>(config.patch_size), .stride = static_cast<int>(config.patch_size)}),
      position_embedding_(scope.tensor("pos_embed", {1, config.grid(), config.grid(), config.hidden_size})) {
    const int64_t c = config.hidden_size;
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        const Scope attention = layer / "attn";
        Block block;
        block.norm1 = nn::LayerNorm(context, layer / "layer_norm1", c, config.norm_eps);
        block.qkv = nn::Linear(context, attention / "qkv", c, 3 * c);
        block.proj = nn::Linear(context, attention / "proj", c, c);
        block.norm2 = nn::LayerNorm(context, layer / "layer_norm2", c, config.norm_eps);
        block.mlp = nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation);
        block.window = config.is_global(i) ? 0 : config.window;
        const int64_t side = block.window == 0 ? config.grid() : block.window;
        block.relative_rows = attention.tensor("rel_pos_h", {2 * side - 1, config.head_size()});
        block.relative_cols = attention.tensor("rel_pos_w", {2 * side - 1, config.head_size()});
        blocks_.push_back(std::move(block));
    }
    const Scope neck = scope / "neck";
    const int64_t out = config.output_channels;
    neck1_ = nn::Conv2d(context, neck / "conv1", c, out, {.kernel = 1, .bias = false});
    neck2_ = nn::Conv2d(context, neck / "conv2", out, out, {.kernel = 3, .padding = 1, .bias = false});
    neck_norm1_ = nn::LayerNorm(context, neck / "layer_norm1", out, kNeckNormEps);
    neck_norm2_ = nn::LayerNorm(context, neck / "layer_norm2", out, kNeckNormEps);
}

std::shared_ptr<const Sam1ImageEncoder::Tables> Sam1ImageEncoder::tables_for(Ops& ops, int64_t height,
                                                                             int64_t width) const {
    return tables_.get(height, width, [&] {
        Tables tables;
        tables.positions = ops.upload(position_embedding_);
        if (height != config_.grid() || width != config_.grid())
            tables.positions = ops.resize(tables.positions, height, width, Interpolation::bilinear);
        tables.positions = tables.positions.reshape({height, width, config_.hidden_size});
        for (const Block& block : blocks_) {
            const int64_t rows = block.window == 0 ? height : block.window;
            const int64_t cols = block.window == 0 ? width : block.window;
            tables.relative.push_back({ops.upload(nn::relative_position_table(block.relative_rows, rows)),
                                       ops.upload(nn::relative_position_table(block.relative_cols, cols))});
        }
        return tables;
    });
}

Tensor Sam1ImageEncoder::forward(Ops& ops, const Tensor& pixels) const {
    const int64_t patch = config_.patch_size;
    if (pixels.rank() != 4 || pixels.dim(1) % patch != 0 || pixels.dim(2) % patch != 0)
        fail("the image ", to_string(pixels.shape()), " is not a multiple of the patch size ", patch);
    const auto tables = tables_for(ops, pixels.dim(1) / patch, pixels.dim(2) / patch);
    const Tensor positions = tables->positions.unsqueeze(0).expand(0, pixels.dim(0));
    Tensor x = patch_embed_.forward(ops, pixels, Activation::none, positions);
    ops.trace("vision.patch_embed", x);
    for (size_t i = 0; i < blocks_.size(); ++i) {
        x = block_forward(ops, blocks_[i], x, tables->relative[i]);
        ops.trace("vision.block." + std::to_string(i), x);
    }
    x = neck_norm1_.forward(ops, neck1_.forward(ops, x));
    x = neck_norm2_.forward(ops, neck2_.forward(ops, x));
    ops.trace("vision.neck", x);
    return x;
}

// x [N, H, W, C] -> [N, H, W, C]
Tensor Sam1ImageEncoder::block_forward(Ops& ops, const Block& block, const Tensor& input,
                                       const RelativePositions& relative) const {
    const Tensor normed = block.norm1.forward(ops, input);
    const Tensor attended =
        block.window == 0 ? attend(ops, block, normed, relative) : attend_in_windows(ops, block, normed, relative);
    const Tensor x = block.proj.forward(ops, attended, Activation::none, input);
    return block.mlp.forward(ops, block.norm2.forward(ops, x), x);
}

// Windows that reach over the edge see zeros before the projection, as in the reference: their keys are the biases.
Tensor Sam1ImageEncoder::attend_in_windows(Ops& ops, const Block& block, const Tensor& x,
                                           const RelativePositions& relative) const {
    const int64_t w = block.window;
    const int64_t height = (x.dim(1) + w - 1) / w * w;
    const int64_t width = (x.dim(2) + w - 1) / w * w;
    const Tensor windows = partition(ops, ops.pad_bottom_right(x, height, width), w);
    const Tensor attended = attend(ops, block, windows, relative);
    return unpartition(ops, attended, x.dim(0), height, width).slice(1, 0, x.dim(1)).slice(2, 0, x.dim(2));
}

// x [N, H, W, C], all H*W tokens of an image or window see each other
Tensor Sam1ImageEncoder::attend(Ops& ops, const Block& block, const Tensor& x,
                                const RelativePositions& relative) const {
    const int64_t c = config_.hidden_size;
    const int64_t height = x.dim(1);
    const int64_t width = x.dim(2);
    const Tensor qkv = block.qkv.forward(ops, x).reshape({x.dim(0), height * width, 3 * c});
    const Tensor q = qkv.slice(-1, 0, c);
    const AttentionOptions options{
        .heads = config_.heads,
        .bias_rows = relative_scores(ops, q, relative.rows, config_.heads, height, width, /*by_row=*/true),
        .bias_cols = relative_scores(ops, q, relative.cols, config_.heads, height, width, /*by_row=*/false)};
    return ops.attention(q, qkv.slice(-1, c, c), qkv.slice(-1, 2 * c, c), options).reshape(x.shape());
}

}  // namespace sam3
