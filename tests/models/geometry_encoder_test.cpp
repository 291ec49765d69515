// Point exemplars, which transformers does not have: against Meta's formula on transformers' modules (points.py).
#include "models/geometry_encoder.h"

#include "nn/position.h"
#include "support/device.h"
#include "support/goldens.h"
#include "weights/binder.h"

namespace sam3 {
namespace {

TEST(GeometryEncoder, EncodesPointsAndBoxesAsTheReference) {
    const std::string path = test::data_path("models/points.safetensors");
    WeightLoader loader(open_weight_file(path));
    StackConfig config;
    config.hidden_size = 32;
    config.mlp_size = 80;
    config.layers = 2;
    config.heads = 2;
    const GeometryEncoder encoder({test::device()}, loader.root() / "detector_model" / "geometry_encoder", config,
                                  /*roi_size=*/3);
    loader.finish("the geometry encoder");
    ASSERT_TRUE(encoder.has_points());

    const test::Golden golden(path);
    Ops ops(test::device(), 2);
    const Tensor features = ops.upload(golden.tensor("input.features"));
    const Tensor positions = ops.upload(nn::sine_position_table(9, 7, 32));
    GeometryPrompt prompt;
    prompt.points = {{0.31F, 0.62F, true}, {0.05F, 0.93F, false}, {0.999F, 0.002F, true}};
    prompt.boxes = {{0.4F, 0.5F, 0.3F, 0.2F, false}};
    const auto encode = [&](const GeometryPrompt& asked) {
        return ops.download(encoder.forward(ops, features, positions, asked));
    };
    EXPECT_LE(golden.error("expected.tokens", encode(prompt)), 1e-5);

    prompt.points[1].positive = true;
    EXPECT_GT(golden.error("expected.tokens", encode(prompt)), 1e-3) << "labels matter";
}

}  // namespace
}  // namespace sam3
