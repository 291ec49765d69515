#include "weights/hashed_names.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using Names = std::vector<std::string>;

TEST(HashedNames, TemplatesStandForAllTheirNames) {
    EXPECT_EQ(expand_template("a.b"), Names{"a.b"});
    EXPECT_EQ(expand_template("{a,b}.{8-10}.c"), (Names{"a.8.c", "a.9.c", "a.10.c", "b.8.c", "b.9.c", "b.10.c"}));
    EXPECT_EQ(expand_template("x{,y}"), (Names{"x", "xy"}));
}

// Of a published file's own list.
TEST(HashedNames, HashesAreThoseOfPublishedFiles) {
    EXPECT_EQ(HashedNames::hash("backbone.vision_backbone.trunk.pos_embed"), "t_e4e876d8d02e");
    EXPECT_EQ(HashedNames::hash("backbone.vision_backbone.trunk.blocks.0.attn.qkv.weight"), "t_c2a18ab7c6ec");
    EXPECT_EQ(HashedNames::hash("backbone.language_backbone.encoder.token_embedding.weight"), "t_ba6dc30bedfc");
    EXPECT_EQ(HashedNames::hash("transformer.decoder.query_embed.weight"), "t_4678a60003bb");
}

TEST(HashedNames, OnlyKnownNamesAreFound) {
    const HashedNames names({"layer.{0-1}.weight"});
    EXPECT_EQ(names.find(HashedNames::hash("layer.1.weight")), "layer.1.weight");
    EXPECT_EQ(names.find(HashedNames::hash("layer.2.weight")), std::nullopt);
    EXPECT_EQ(names.find("layer.1.weight"), std::nullopt);
}

}  // namespace
}  // namespace sam3
