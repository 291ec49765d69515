#include "eval/clicks.h"

#include "eval/support.h"
#include "mask/distance.h"
#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::draw;

TEST(Clicks, TheFirstIsInTheMiddleOfTheThickestPart) {
    const auto click =
        first_click(draw({".........", ".#####...", ".#####...", ".########", ".#####...", ".#####...", "........."}));
    ASSERT_TRUE(click);
    EXPECT_EQ(click->x, 3);
    EXPECT_EQ(click->y, 3);
    EXPECT_TRUE(click->positive);
    EXPECT_FALSE(first_click(Mask(4, 4)));
}

TEST(Clicks, CirclesEqualThePlainVersion) {
    for (const nlohmann::json& item : test::golden()["circles"]) {
        const auto circle = largest_inner_circle(rle_decode(test::golden_mask(item["mask"])));
        ASSERT_EQ(circle.has_value(), !item["circle"].is_null());
        if (!circle) continue;
        EXPECT_EQ(circle->x, item["circle"][0].get<int>());
        EXPECT_EQ(circle->y, item["circle"][1].get<int>());
        EXPECT_EQ(circle->squared_radius, item["circle"][2].get<int64_t>());
    }
}

TEST(Clicks, CorrectionsAddWhatIsMissingOrRemoveWhatIsTooMuch) {
    const Mask truth = draw({"###....", "###....", "###....", "......."});
    const auto add = correcting_click(Mask(7, 4), truth);
    ASSERT_TRUE(add);
    EXPECT_EQ(add->x, 1);
    EXPECT_EQ(add->y, 1);
    EXPECT_TRUE(add->positive);

    const auto remove = correcting_click(draw({".#####.", ".#####.", ".#####.", "......."}), truth);
    ASSERT_TRUE(remove);
    EXPECT_EQ(remove->x, 4);
    EXPECT_EQ(remove->y, 1);
    EXPECT_FALSE(remove->positive);

    EXPECT_FALSE(correcting_click(truth, truth));
    EXPECT_THROW(correcting_click(Mask(3, 3), truth), Error);
}

}  // namespace
}  // namespace sam3
