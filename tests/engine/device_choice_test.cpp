#include "engine/device_choice.h"

#include "engine/model_registry.h"
#include "engine/random_weights.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

namespace sam3 {
namespace {

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(DeviceChoice, KnowsItsNames) {
    EXPECT_EQ(choose_device("cpu").device->name(), "cpu");
    for (const char* good : {"auto", "cpu", "cuda", "cuda:0", "cuda:12"}) EXPECT_TRUE(is_device_name(good)) << good;
    for (const char* bad : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda1", "CPU"}) {
        EXPECT_FALSE(is_device_name(bad)) << bad;
        EXPECT_EQ(error_of([&] { choose_device(bad); }),
                  str("there is no device '", bad, "': auto, cpu, cuda and cuda:N with a GPU's number N are known"));
    }
}

TEST(DeviceChoice, TheEnvironmentSaysWhatAutoIs) {
    const char* const before = std::getenv("SAM3_DEVICE");
    const std::string kept = before != nullptr ? before : "";
    setenv("SAM3_DEVICE", "cpu", 1);
    EXPECT_EQ(choose_device("auto").device->name(), "cpu");
    setenv("SAM3_DEVICE", "abacus", 1);
    EXPECT_NE(error_of([] { choose_device(""); }).find("'abacus'"), std::string::npos);
    EXPECT_EQ(choose_device("cpu").device->name(), "cpu") << "a choice outweighs the environment";
    before != nullptr ? setenv("SAM3_DEVICE", kept.c_str(), 1) : unsetenv("SAM3_DEVICE");
}

TEST(DeviceChoice, ThePrecisionMustBeOneThatTheDeviceHas) {
    const std::shared_ptr<Device> cpu = make_cpu_device();
    EXPECT_EQ(choose_precision(*cpu, "auto"), Precision::f32);
    EXPECT_EQ(choose_precision(*cpu, ""), Precision::f32);
    EXPECT_EQ(choose_precision(*cpu, "int8"), Precision::int8);
    EXPECT_EQ(error_of([&] { choose_precision(*cpu, "fp8"); }),
              "the device cpu does not compute in fp8: it has f32, bf16, int8");
}

TEST(RandomWeights, AreAllThatAFullSizeNetworkAsksFor) {
    const std::shared_ptr<const WeightFile> file = random_sam3_weights();
    const NetworkPlan plan = plan_network(file, {});
    EXPECT_EQ(plan.tensors.size(), file->tensors().size());
    int64_t values = 0;
    for (const WeightTensor& tensor : file->tensors()) values += tensor.shape.numel();
    EXPECT_GT(values, 830'000'000);
    EXPECT_LT(values, 900'000'000);
}

}  // namespace
}  // namespace sam3
