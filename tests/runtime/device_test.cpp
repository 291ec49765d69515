#include "runtime/device.h"

#include "support/tensors.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <thread>

namespace sam3 {
namespace {

using test::cpu;
using test::random_tensor;

// A device of which only the table of operators matters.
class BareDevice final : public Device {
public:
    std::string name() const override { return "bare"; }
    bool is_host() const override { return true; }
    const KernelTable& kernels() const override { return table; }
    std::shared_ptr<Buffer> allocate(size_t) override { return nullptr; }
    MemoryStats memory() const override { return {}; }
    void reset_peak() override {}
    void trim() override {}
    void copy_from_host(void*, const void*, size_t) override {}
    void copy_to_host(void*, const void*, size_t) override {}
    void synchronize() override {}
    std::shared_ptr<const PackedLinear> pack_linear(const LinearSource&, Precision) override { return nullptr; }
    std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource&, Precision) override { return nullptr; }

    KernelTable table;
};

template <typename Args>
void nothing(const ExecContext&, const Args&) {}

TEST(Device, NamesTheOperatorsItLacks) {
    BareDevice device;
#define SAM3_KERNEL(name, Args) device.table.name = nothing<Args>;
    SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL
    EXPECT_TRUE(device.table.missing().empty());
    EXPECT_NO_THROW(require_all_operators(device));

    device.table.softmax = nullptr;
    device.table.topk = nullptr;
    EXPECT_EQ(device.table.missing(), std::vector<std::string>({"softmax", "topk"}));
    try {
        require_all_operators(device);
        FAIL() << "missing operators went unnoticed";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the device 'bare' does not implement: softmax, topk");
    }
}

TEST(Device, CpuImplementsEveryOperator) { EXPECT_NO_THROW(require_all_operators(cpu())); }

TEST(Device, CpuAllocatesPooledMemory) {
    const std::shared_ptr<Device> device = make_cpu_device();
    std::shared_ptr<Buffer> buffer = device->allocate(1000);
    EXPECT_EQ(buffer->device, device.get());
    EXPECT_EQ(buffer->bytes, 1000U);
    const void* address = buffer->data;
    EXPECT_GE(device->memory().in_use, 1000U);
    buffer.reset();
    EXPECT_EQ(device->memory().in_use, 0U);
    EXPECT_GE(device->memory().peak, 1000U);
    EXPECT_EQ(device->allocate(1000)->data, address);
    device->trim();
    EXPECT_EQ(device->memory().reserved, 0U);
}

TEST(Device, BuffersMayOutliveIt) {
    std::shared_ptr<Device> device = make_cpu_device();
    const std::shared_ptr<Buffer> buffer = device->allocate(64);
    device.reset();
    static_cast<char*>(buffer->data)[63] = 1;
    EXPECT_EQ(static_cast<char*>(buffer->data)[63], 1);
}

TEST(Device, RefusesAPrecisionThatItLacksWithASentence) {
    const LinearSource source{{random_tensor({4, 4}, 1)}, {}};
    try {
        cpu().pack_linear(source, Precision::fp8);
        FAIL() << "fp8 was accepted";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("precision fp8 is not available on the CPU device"),
                  std::string::npos);
    }
}

TEST(Device, ServesSeveralSessionsAtOnce) {
    const auto weights = cpu().pack_linear({{random_tensor({96, 600}, 1)}, {random_tensor({96}, 2)}}, Precision::f32);
    const Tensor x = random_tensor({150, 600}, 3);
    const Tensor expected = Ops(cpu(), 1).linear(x, *weights, Activation::gelu);
    const auto session = [&] {
        Ops ops(cpu(), 2);
        for (int i = 0; i < 20; ++i) test::expect_equal(ops.linear(x, *weights, Activation::gelu), expected);
    };
    std::thread other(session);
    session();
    other.join();
}

}  // namespace
}  // namespace sam3
