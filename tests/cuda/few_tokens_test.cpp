#include "cuda/both_devices.h"

namespace sam3 {
namespace {

using test::kBf16Tolerance;
using test::random_tensor;

class GpuFewTokens : public test::OnGpu {};

// A layer of a text encoder, with the same weights on every device.
struct TextLayer {
    std::shared_ptr<const PackedLinear> qkv, proj, up, down;
    Tensor gamma, beta;

    TextLayer(Ops& ops, int64_t channels, int64_t hidden, unsigned seed) {
        Device& device = ops.device();
        const auto linear = [&](int64_t in, int64_t out) {
            const float range = std::sqrt(3.0F / static_cast<float>(in));
            const Tensor weight = random_tensor({out, in}, seed++, -range, range);
            return device.pack_linear({{test::rounded(weight, DType::bf16)}, {random_tensor({out}, seed++)}},
                                      device.is_host() ? Precision::f32 : Precision::bf16);
        };
        qkv = linear(channels, 3 * channels);
        proj = linear(channels, channels);
        up = linear(channels, hidden);
        down = linear(hidden, channels);
        gamma = ops.upload(random_tensor({channels}, seed++, 0.5F, 1.5F));
        beta = ops.upload(random_tensor({channels}, seed++));
    }
    Tensor forward(Ops& ops, Tensor x, const Tensor& mask) const {
        const int64_t c = x.dim(-1);
        const AttentionOptions options{.heads = static_cast<int>(c / 64), .causal = true, .key_mask = mask};
        const auto norm = [&] { return ops.layer_norm(x, gamma, beta, 1e-5F, Activation::none, ops.stored_type()); };
        const Tensor all = ops.linear(norm(), *qkv);
        const Tensor seen = ops.attention(all.slice(-1, 0, c), all.slice(-1, c, c), all.slice(-1, 2 * c, c), options);
        x = ops.linear(seen, *proj, Activation::none, x);
        return ops.linear(ops.linear(norm(), *up, Activation::gelu), *down, Activation::none, x);
    }
};

// The first run on the GPU is an ordinary one, the others are replays, in which all layers are one kernel.
void compare_layers(int64_t batch, int64_t tokens, int64_t channels, int64_t hidden, bool masked) {
    SCOPED_TRACE(str(batch, " x ", tokens, " tokens, ", channels, " channels, ", hidden, " hidden"));
    constexpr int kLayers = 3;
    const Tensor x = random_tensor({batch, tokens, channels}, 7);
    Tensor seen = Tensor::host({batch, tokens}, DType::u8);
    for (int64_t i = 0; i < seen.numel(); ++i) seen.data<uint8_t>()[i] = i % tokens < (tokens + 1) / 2 ? 1 : 0;
    const auto body = [&](Ops& ops, const std::vector<TextLayer>& layers) {
        return [&](const std::vector<Tensor>& in) {
            Tensor h = ops.affine(in[0], 1.0F, 0.0F);
            for (const TextLayer& layer : layers) h = layer.forward(ops, h, masked ? in[1] : Tensor());
            return std::vector<Tensor>{h};
        };
    };
    const auto layers_on = [&](Ops& ops) {
        std::vector<TextLayer> layers;
        for (unsigned i = 0; i < kLayers; ++i) layers.emplace_back(ops, channels, hidden, 100 + 50 * i);
        return layers;
    };
    Ops host(test::cpu(), 2);
    const std::vector<TextLayer> of_host = layers_on(host);
    const Tensor expected = host.stage("layers", {x, seen}, body(host, of_host))[0];
    Ops device(*test::gpu().device, 1);
    device.set_precision(Precision::bf16);
    const std::vector<TextLayer> of_device = layers_on(device);
    const std::vector<Tensor> inputs{device.upload(x), device.upload(seen)};
    for (int run = 0; run < 5; ++run) {
        SCOPED_TRACE(run);
        const Tensor actual = device.stage("layers", inputs, body(device, of_device))[0];
        test::expect_near(device.download(actual), expected, kBf16Tolerance);
    }
}

TEST_F(GpuFewTokens, LayersEqualTheCpus) {
    for (int64_t tokens : {32, 31, 17, 16, 5, 1})
        for (const bool masked : {false, true}) compare_layers(1, tokens, 1024, 4096, masked);
}

TEST_F(GpuFewTokens, LayersOfOtherSizesEqualTheCpus) {
    compare_layers(1, 32, 768, 3072, false);
    compare_layers(1, 32, 512, 2048, false);
    compare_layers(1, 9, 1280, 5120, false);
    compare_layers(2, 32, 1024, 4096, true);  // too many tokens for one program
    compare_layers(1, 33, 1024, 4096, true);
}

// One of them is deep and wide, which is more than a block has room for.
TEST_F(GpuFewTokens, LayersThatAreTooLargeForAProgramEqualTheCpus) {
    constexpr int64_t kTokens = 8, kNarrow = 1024, kWide = 4096;
    const Tensor x = random_tensor({1, kTokens, kNarrow}, 7);
    const auto run = [&](Ops& ops, const Tensor& input, int runs) {
        const auto pack = [&](int64_t out, int64_t in, unsigned seed) {
            const float range = std::sqrt(3.0F / static_cast<float>(in));
            const Tensor weight = test::rounded(random_tensor({out, in}, seed, -range, range), DType::bf16);
            return ops.device().pack_linear({{weight}, {}}, ops.device().is_host() ? Precision::f32 : Precision::bf16);
        };
        const auto up = pack(kWide, kNarrow, 11), across = pack(kWide, kWide, 12), down = pack(kNarrow, kWide, 13);
        Tensor result;
        for (int i = 0; i < runs; ++i)
            result = ops.stage("wide layers", {input}, [&](const std::vector<Tensor>& in) {
                Tensor h = ops.cast(in[0], ops.stored_type());
                for (int layer = 0; layer < 2; ++layer) h = ops.linear(ops.linear(ops.linear(h, *up), *across), *down);
                return std::vector<Tensor>{h};
            })[0];
        return ops.download(result);
    };
    Ops host(test::cpu(), 2);
    Ops device(*test::gpu().device, 1);
    device.set_precision(Precision::bf16);
    const Tensor expected = run(host, x, 1);
    test::expect_near(run(device, device.upload(x), 3), expected, kBf16Tolerance);
}

}  // namespace
}  // namespace sam3
