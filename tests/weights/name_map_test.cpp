#include "weights/name_map.h"

#include "tests/weights/files.h"

namespace sam3::test {
namespace {

using Captures = std::vector<std::string_view>;

TEST(NameMap, AStarStandsForOneComponent) {
    EXPECT_EQ(match_name("a.*.c", "a.b.c"), Captures{"b"});
    EXPECT_EQ(match_name("a.*.c", "a.b.b.c"), std::nullopt);
    EXPECT_EQ(match_name("a.*", "a."), std::nullopt);
    EXPECT_EQ(match_name("layer*.w", "layer12.w"), Captures{"12"});
    EXPECT_EQ(match_name("*.*", "a.b"), (Captures{"a", "b"}));
    EXPECT_EQ(match_name("*", "a.b"), std::nullopt);
    EXPECT_EQ(match_name("a.b", "a.b"), Captures{});
    EXPECT_EQ(match_name("a.b", "a.bc"), std::nullopt);
    EXPECT_EQ(match_name("a*b*", "axbxbx"), (Captures{"x", "xbx"}));
}

TEST(NameMap, TwoStarsStandForAnyText) {
    EXPECT_EQ(match_name("a.**", "a.b.c.d"), Captures{"b.c.d"});
    EXPECT_EQ(match_name("**.w", "a.b.w"), Captures{"a.b"});
    EXPECT_EQ(match_name("**x**", "x"), (Captures{"", ""}));
    EXPECT_EQ(match_name("**.qkv.*", "a.qkv.b.qkv.w"), (Captures{"a.qkv.b", "w"}));
    EXPECT_EQ(match_name("**", ""), Captures{""});
}

TEST(NameMap, RenamesApplyInOrderToEachOthersResults) {
    NameMap map;
    map.renames = {{"old.**", "new.$1"}, {"new.blocks.*.**", "new.layers.$1.$2"}, {"**.n1.*", "$1.norm.$2"}};
    EXPECT_EQ(map_name(map, "old.blocks.3.n1.bias").at(0).canonical, "new.layers.3.norm.bias");
    EXPECT_EQ(map_name(map, "else.n2").at(0).canonical, "else.n2");
}

TEST(NameMap, SplitsStacksSkipsAndIgnores) {
    NameMap map;
    map.ignored = {{"**.cache", "computed"}};
    map.splits = {{"**.qkv.*", {"$1.q.$2", "$1.k.$2", "$1.v.$2"}}};
    map.stacks = {{"points.*.w", "points.w", 4}};
    map.skips = {{"positions", 1, 1}};
    map.layouts = {{"turned", {"ab", "ba"}}};
    EXPECT_TRUE(map_name(map, "a.cache").empty());
    const std::vector<MappedName> parts = map_name(map, "a.qkv.w");
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[2].canonical, "a.v.w");
    EXPECT_EQ(parts[2].part, 2);
    EXPECT_EQ(parts[2].parts, 3);
    const MappedName stacked = map_name(map, "points.3.w").at(0);
    EXPECT_EQ(stacked.canonical, "points.w");
    EXPECT_EQ(stacked.position, 3);
    EXPECT_EQ(stacked.stack_count, 4);
    EXPECT_EQ(map_name(map, "points.4.w").at(0).canonical, "points.4.w");  // no such row
    EXPECT_EQ(map_name(map, "points.-1.w").at(0).canonical, "points.-1.w");
    EXPECT_EQ(map_name(map, "positions").at(0).skip_count, 1);
    EXPECT_EQ(map_name(map, "turned").at(0).layout->canonical, "ba");
    EXPECT_EQ(map_name(identity_name_map(), "any.name").at(0).canonical, "any.name");
}

TEST(NameMap, ARuleWithAMissingWildcardIsRefused) {
    expect_contains(error_of([] { fill_in("a.$2", {"x"}); }), "no such wildcard");
    EXPECT_EQ(fill_in("$1$", {"x"}), "x$");
}

}  // namespace
}  // namespace sam3::test
