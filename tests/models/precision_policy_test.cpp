#include "models/precision_policy.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

TEST(PrecisionPolicy, LargePartsGetWhatWasAskedFor) {
    for (const char* name :
         {"detector_model.vision_encoder.backbone.layers.3.attention.q_proj.weight",
          "detector_model.text_encoder.text_model.encoder.layers.0.mlp.fc1.weight",
          "detector_model.detr_encoder.layers.5.cross_attn.o_proj.weight",
          "detector_model.detr_decoder.layers.1.mlp.fc2.weight",
          "tracker_model.memory_attention.layers.2.linear1.weight", "tracker_neck.fpn_layers.0.proj2.weight",
          "detector_model.mask_decoder.pixel_decoder.conv_layers.1.weight",
          "vision_encoder.layers.7.mlp.lin1.weight"}) {
        EXPECT_EQ(precision_policy(name, Precision::int8), Precision::int8) << name;
        EXPECT_EQ(precision_policy(name, Precision::bf16), Precision::bf16) << name;
        EXPECT_EQ(precision_policy(name, Precision::f32), Precision::f32) << name;
    }
}

TEST(PrecisionPolicy, EightBitFloatsAreForTheImageEncoder) {
    EXPECT_EQ(precision_policy("detector_model.vision_encoder.backbone.layers.3.mlp.fc1.weight", Precision::fp8),
              Precision::fp8);
    for (const char* name :
         {"detector_model.text_encoder.text_model.encoder.layers.0.mlp.fc1.weight",
          "detector_model.detr_decoder.layers.1.mlp.fc2.weight", "tracker_neck.fpn_layers.0.proj2.weight"})
        EXPECT_EQ(precision_policy(name, Precision::fp8), Precision::bf16) << name;
    EXPECT_EQ(precision_policy("detector_model.detr_decoder.box_head.layer1.weight", Precision::fp8), Precision::f32);
}

TEST(PrecisionPolicy, WhatLooksAtAWholeImageForFewTokensTakesHalvesButNoCodes) {
    for (const char* name : {"detector_model.geometry_encoder.layers.0.cross_attn.k_proj.weight",
                             "detector_model.mask_decoder.prompt_cross_attn.q_proj.weight"}) {
        EXPECT_EQ(precision_policy(name, Precision::bf16), Precision::bf16) << name;
        EXPECT_EQ(precision_policy(name, Precision::fp8), Precision::bf16) << name;
        EXPECT_EQ(precision_policy(name, Precision::int8), Precision::f32) << name;
        EXPECT_EQ(precision_policy(name, Precision::f32), Precision::f32) << name;
    }
}

TEST(PrecisionPolicy, WhatIsSmallOrDecidesStaysExact) {
    for (const char* name : {"detector_model.vision_encoder.backbone.embeddings.patch_embeddings.projection.weight",
                             "detector_model.detr_decoder.box_head.layer1.weight",
                             "detector_model.detr_decoder.presence_head.layer1.weight",
                             "detector_model.dot_product_scoring.text_mlp.layer1.weight",
                             "detector_model.mask_decoder.mask_embedder.layers.0.weight",
                             "tracker_model.mask_decoder.iou_prediction_head.layers.0.weight",
                             "tracker_model.memory_encoder.projection.weight"})
        EXPECT_EQ(precision_policy(name, Precision::int8), Precision::f32) << name;
}

}  // namespace
}  // namespace sam3
