#include "runtime/ops.h"

#include "support/tensors.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::cpu;
using test::random_tensor;

// Runs something that must throw Error and returns its sentence.
template <typename Function>
std::string message_of(const Function& function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    }
    ADD_FAILURE() << "no Error was thrown";
    return "";
}

void expect_mentions(const std::string& message, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
        EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" lacks \"" << part << "\"";
}

TEST(Ops, NamesBothShapesWhenAProductDoesNotFit) {
    Ops ops(cpu(), 1);
    const auto packed = cpu().pack_linear({{random_tensor({4, 8}, 1)}, {}}, Precision::f32);
    const Tensor x = random_tensor({3, 8}, 2);
    expect_mentions(message_of([&] { ops.linear(random_tensor({3, 7}, 2), *packed); }), {"linear", "[3, 7]", "8"});
    expect_mentions(message_of([&] {
                        ops.linear(x, *packed, Activation::none, random_tensor({3, 5}, 2));
                    }),
                    {"linear", "[3, 5]", "[3, 4]"});
    const Tensor a = random_tensor({2, 3, 4}, 1);
    expect_mentions(message_of([&] {
                        ops.matmul(a, random_tensor({2, 5, 4}, 1));
                    }),
                    {"matmul", "[2, 3, 4]", "[2, 5, 4]"});
    expect_mentions(message_of([&] {
                        ops.matmul(a, random_tensor({1, 4, 4}, 1));
                    }),
                    {"matmul", "[2, 3, 4]", "[1, 4, 4]"});
}

TEST(Ops, NamesBothShapesWhenAConvolutionDoesNotFit) {
    Ops ops(cpu(), 1);
    const auto packed = cpu().pack_conv2d({random_tensor({4, 8, 3, 3}, 1), {}}, Precision::f32);
    const auto up = cpu().pack_linear({{random_tensor({8, 6}, 1)}, {}}, Precision::f32);
    const Tensor x = random_tensor({1, 5, 5, 8}, 1);
    expect_mentions(message_of([&] {
                        ops.conv2d(random_tensor({1, 5, 5, 7}, 1), *packed);
                    }),
                    {"conv2d", "[1, 5, 5, 7]", "8"});
    expect_mentions(message_of([&] {
                        ops.conv2d(random_tensor({1, 2, 5, 8}, 1), *packed);
                    }),
                    {"[1, 2, 5, 8]", "kernel"});
    expect_mentions(message_of([&] { ops.conv2d(x, *packed, Activation::none, x); }), {"[1, 5, 5, 8]", "[1, 3, 3, 4]"});
    expect_mentions(message_of([&] { ops.conv_transpose_2x2(x, *up); }), {"conv_transpose_2x2", "[1, 5, 5, 8]", "6"});
}

TEST(Ops, NamesBothShapesWhenAttentionDoesNotFit) {
    Ops ops(cpu(), 1);
    const Tensor q = random_tensor({1, 6, 8}, 1);
    AttentionOptions options;
    options.heads = 3;
    expect_mentions(message_of([&] { ops.attention(q, q, q, options); }), {"attention", "[1, 6, 8]", "3 heads"});
    options.heads = 2;
    expect_mentions(message_of([&] {
                        ops.attention(q, q, random_tensor({1, 5, 8}, 1), options);
                    }),
                    {"[1, 6, 8]", "[1, 5, 8]"});
    options.bias = random_tensor({1, 2, 6, 5}, 1);
    expect_mentions(message_of([&] { ops.attention(q, q, q, options); }), {"bias", "[1, 2, 6, 5]"});
    options.bias = Tensor();
    options.window = 4;
    const Tensor map = random_tensor({1, 6, 8, 8}, 1);
    expect_mentions(message_of([&] { ops.attention(map, map, map, options); }), {"[1, 6, 8, 8]", "window 4"});
}

TEST(Ops, NamesBothShapesWhenElementwiseOperandsDoNotBroadcast) {
    Ops ops(cpu(), 1);
    const Tensor a = random_tensor({2, 3}, 1);
    expect_mentions(message_of([&] { ops.add(a, random_tensor({2, 4}, 1)); }), {"[2, 3]", "[2, 4]", "broadcast"});
    expect_mentions(message_of([&] { ops.layer_norm(a, random_tensor({4}, 1), random_tensor({4}, 1), 1e-5F); }),
                    {"layer_norm", "[2, 3]", "[4]"});
}

TEST(Ops, TreatsEmptyTensorsAsNothingToDo) {
    Ops ops(cpu(), 2);
    const auto packed = cpu().pack_linear({{random_tensor({4, 8}, 1)}, {}}, Precision::f32);
    EXPECT_EQ(ops.linear(ops.empty({0, 8}), *packed).shape(), Shape({0, 4}));
    EXPECT_EQ(ops.matmul(ops.empty({0, 2, 3}), ops.empty({0, 3, 5})).shape(), Shape({0, 2, 5}));
}

TEST(Ops, UploadsAndDownloadsTheSameValues) {
    Ops ops(cpu(), 1);
    const Tensor x = random_tensor({2, 3, 4}, 1);
    const Tensor host = ops.download(x);
    EXPECT_EQ(host.device(), nullptr);
    const Tensor back = ops.upload(host);
    EXPECT_EQ(back.device(), &cpu());
    test::expect_equal(back, x);
    EXPECT_THROW(ops.upload(host.slice(1, 0, 2)), Error);
}

TEST(Ops, UsesAtLeastOneThread) {
    EXPECT_EQ(Ops(cpu(), 0).threads(), 1);
    EXPECT_EQ(Ops(cpu(), -3).threads(), 1);
}

TEST(Ops, ReservesNothingMoreInASteadyStream) {
    const std::shared_ptr<Device> device = make_cpu_device();
    Ops ops(*device, 2);
    const auto packed = device->pack_linear({{Tensor::host({300, 700})}, {}}, Precision::f32);
    const Tensor x = ops.upload(Tensor::host({500, 700}));
    size_t reserved = 0;
    for (int frame = 0; frame < 5; ++frame) {
        Tensor y = ops.linear(x, *packed, Activation::relu);
        y = ops.matmul(y.unsqueeze(0), y.unsqueeze(0), true);
        if (frame == 0) reserved = device->memory().reserved;
    }
    EXPECT_EQ(device->memory().reserved, reserved);
}

}  // namespace
}  // namespace sam3
