#include "runtime/profiler.h"

#include "support/tensors.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

TEST(Profiler, AddsUpByNameAndByShape) {
    Profiler profiler;
    profiler.record_operator("linear", "[2, 4]", 0.5, 1e9);
    profiler.record_operator("linear", "[3, 4]", 1.5, 2e9);
    EXPECT_EQ(profiler.operators().at("linear").calls, 2);
    EXPECT_DOUBLE_EQ(profiler.operators().at("linear").seconds, 2.0);
    EXPECT_DOUBLE_EQ(profiler.operators().at("linear").flops, 3e9);
    EXPECT_EQ(profiler.shapes().size(), 2U);
    EXPECT_EQ(profiler.shapes().at("linear [3, 4]").calls, 1);
    profiler.clear();
    EXPECT_TRUE(profiler.operators().empty() && profiler.shapes().empty() && profiler.stages().empty());
}

TEST(Profiler, TableListsStagesThenOperatorsLargestFirst) {
    Profiler profiler;
    profiler.record_operator("add", "[1]", 0.25, 0);
    profiler.record_operator("linear", "[1]", 0.75, 3e9);
    profiler.record_stage("decoder", 1.0);
    profiler.record_stage("encoder", 3.0);
    const std::string table = profiler.table();
    const std::vector<std::string> order = {"stage",  "encoder", "75.0%", "decoder", "25.0%",  "operator", "linear",
                                            "750.00", "75.0%",   "4.0",   "add",     "250.00", "25.0%"};
    size_t at = 0;
    for (const std::string& word : order) {
        at = table.find(word, at);
        ASSERT_NE(at, std::string::npos) << word << " is missing or out of order in\n" << table;
        at += word.size();
    }
}

TEST(Profiler, TableOfNothingIsEmpty) { EXPECT_EQ(Profiler().table(), ""); }

TEST(Profiler, JsonEscapesNames) {
    Profiler profiler;
    profiler.record_stage("a \"quoted\\\" stage\n", 0.002);
    profiler.record_operator("linear", "[1, 2]", 0.001, 2e6);
    EXPECT_EQ(
        profiler.json(),
        "{\n"
        "  \"stages\": [\n"
        "    {\"name\": \"a \\\"quoted\\\\\\\" stage\\u000a\", \"calls\": 1, \"ms\": 2.000000, \"gflop\": 0.000000, "
        "\"gflops\": 0.000}\n"
        "  ],\n"
        "  \"operators\": [\n"
        "    {\"name\": \"linear\", \"calls\": 1, \"ms\": 1.000000, \"gflop\": 0.002000, \"gflops\": 2.000}\n"
        "  ],\n"
        "  \"shapes\": [\n"
        "    {\"name\": \"linear [1, 2]\", \"calls\": 1, \"ms\": 1.000000, \"gflop\": 0.002000, \"gflops\": 2.000}\n"
        "  ]\n"
        "}\n");
    EXPECT_EQ(Profiler().json(), "{\n  \"stages\": [],\n  \"operators\": [],\n  \"shapes\": []\n}\n");
}

TEST(Profiler, SeesWhatOpsRuns) {
    Profiler profiler;
    Ops ops(test::cpu(), 1);
    ops.set_profiler(&profiler);
    const Tensor a = test::random_tensor({1, 2, 3}, 1);
    ops.stage("product", {a}, [&](const std::vector<Tensor>& inputs) {
        return std::vector<Tensor>{ops.matmul(inputs[0], inputs[0], true)};
    });
    EXPECT_EQ(profiler.stages().at("product").calls, 1);
    EXPECT_EQ(profiler.shapes().at("matmul [1, 2, 2]").calls, 1);
    EXPECT_DOUBLE_EQ(profiler.operators().at("matmul").flops, 2.0 * 2 * 2 * 3);
    ops.set_profiler(nullptr);
    ops.matmul(a, a, true);
    EXPECT_EQ(profiler.operators().at("matmul").calls, 1);
}

}  // namespace
}  // namespace sam3
