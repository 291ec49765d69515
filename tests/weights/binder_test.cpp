#include "weights/binder.h"

#include "tests/weights/files.h"
#include "weights/codecs.h"
#include "weights/edit_distance.h"

#include <sys/resource.h>
#include <numeric>

namespace sam3::test {
namespace {

// Tensors in memory, numbered 0, 1, 2, ... within each.
class FileBuilder {
public:
    FileBuilder& add(const std::string& name, const Shape& shape, WeightType type = WeightType::f32, float start = 0) {
        std::vector<float> values(static_cast<size_t>(shape.numel()));
        std::iota(values.begin(), values.end(), start);
        auto& bytes = storage_->emplace_back(static_cast<size_t>(shape.numel() / block_size(type) * block_bytes(type)) +
                                             4);  // room for a shift
        encode_from_f32(type, values.data(), shape.numel(), bytes.data() + shift_);
        contents_.tensors.push_back(
            {name, type, shape, bytes.data() + shift_, bytes.size() - 4, std::string(name_of(type))});
        return *this;
    }
    FileBuilder& add_codes(const std::string& name, const Shape& shape) {
        auto& bytes = storage_->emplace_back(static_cast<size_t>(shape.numel()));
        std::iota(bytes.begin(), bytes.end(), uint8_t{0});
        contents_.tensors.push_back({name, WeightType::i8, shape, bytes.data(), bytes.size(), "I8"});
        return *this;
    }
    FileBuilder& unaligned() {
        shift_ = 1;
        return *this;
    }
    FileBuilder& unsupported(const std::string& name) {
        contents_.tensors.push_back({name, WeightType::unsupported, {2}, nullptr, 0, "F8_E4M3"});
        return *this;
    }
    std::shared_ptr<const WeightFile> file() {
        contents_.path = "model";
        contents_.format = "test";
        auto file = std::make_shared<WeightFile>(contents_);
        return std::shared_ptr<const WeightFile>(file.get(), [file, storage = storage_](const WeightFile*) {});
    }

private:
    std::shared_ptr<std::vector<Bytes>> storage_ = [] {
        auto list = std::make_shared<std::vector<Bytes>>();
        list->reserve(64);  // tensors point into the elements
        return list;
    }();
    WeightFileContents contents_;
    size_t shift_ = 0;
};

std::vector<float> values_of(const Tensor& tensor) {
    const float* data = tensor.data<float>();
    return std::vector<float>(data, data + tensor.numel());
}

TEST(Binder, ScopesBuildNames) {
    const auto file = FileBuilder().add("model.layers.3.attention.q_proj.weight", {2, 2}).file();
    WeightLoader loader(file);
    const Scope layer = loader.root() / "model" / "layers" / 3 / "attention";
    EXPECT_TRUE(layer.has("q_proj.weight"));
    EXPECT_FALSE(layer.has("k_proj.weight"));
    EXPECT_EQ(layer.shape_of("q_proj.weight"), (Shape{2, 2}));
    EXPECT_EQ(layer.shape_of("k_proj.weight"), std::nullopt);
    EXPECT_EQ(values_of(layer.tensor("q_proj.weight", {2, 2})), (std::vector<float>{0, 1, 2, 3}));
    EXPECT_FALSE(layer.optional("bias", {2}).defined());
    loader.finish("the test", {});
}

TEST(Binder, AlignedFloatsAreViewsAndKeepTheFileAlive) {
    auto file = FileBuilder().add("a", {4}).add("h", {4}, WeightType::f16).file();
    const std::weak_ptr<const WeightFile> watch = file;
    const uint8_t* mapped = file->find("a")->data;
    Tensor view, copy;
    {
        WeightLoader loader(file);
        view = loader.root().tensor("a", {4});
        copy = loader.root().tensor("h", {4});
        loader.finish("the test");
    }
    file.reset();
    EXPECT_EQ(view.raw(), mapped);
    EXPECT_EQ(values_of(copy), (std::vector<float>{0, 1, 2, 3}));
    EXPECT_FALSE(watch.expired());
    view = Tensor();
    EXPECT_TRUE(watch.expired());
}

TEST(Binder, UnalignedFloatsAreCopied) {
    const auto file = FileBuilder().unaligned().add("a", {4}).file();
    WeightLoader loader(file);
    const Tensor tensor = loader.root().tensor("a", {4});
    EXPECT_NE(tensor.raw(), file->find("a")->data);
    EXPECT_EQ(values_of(tensor), (std::vector<float>{0, 1, 2, 3}));
}

TEST(Binder, FusedRowsAreSplitForEveryType) {
    NameMap map;
    map.splits = {{"**.qkv.*", {"$1.q.$2", "$1.k.$2", "$1.v.$2"}}};
    for (WeightType type : {WeightType::f32, WeightType::f16, WeightType::q8_0}) {
        WeightLoader loader(FileBuilder().add("a.qkv.weight", {6, 32}, type).add("a.qkv.bias", {96}, type).file(), map);
        const Scope scope = loader.root() / "a";
        const Tensor v = scope.tensor("v.weight", {2, 32}), k = scope.tensor("k.bias", {32});
        EXPECT_NEAR(v.data<float>()[0], 128, 1);
        EXPECT_NEAR(v.data<float>()[63], 191, 1);
        EXPECT_NEAR(k.data<float>()[0], 32, 0.5);
        loader.finish("the test");
        expect_contains(error_of([&] { loader.finish("the test", {}); }), "4 tensors are left over:\n    a.q.weight");
    }
}

TEST(Binder, RowsAreStackedSkippedAndTurned) {
    NameMap map;
    map.stacks = {{"point.*.w", "point.w", 2}};
    map.skips = {{"positions", 1, 1}};
    map.layouts = {{"turned", {"ab", "ba"}}};
    map.aliases = {{"twin", "positions"}};
    WeightLoader loader(FileBuilder()
                            .add("point.1.w", {1, 2}, WeightType::f16, 10)
                            .add("point.0.w", {1, 2})
                            .add("positions", {1, 3, 2})
                            .add("turned", {2, 3})
                            .file(),
                        map);
    const Scope root = loader.root();
    EXPECT_EQ(values_of(root.tensor("point.w", {2, 2})), (std::vector<float>{0, 1, 10, 11}));
    EXPECT_EQ(values_of(root.tensor("twin", {1, 2, 2})), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ(values_of(root.tensor("turned", {3, 2})), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    loader.finish("the test", {});
}

TEST(Binder, DimensionsAreReorderedAndJoined) {
    NameMap map;
    map.layouts = {{"conv", {"ohwi", "oihw"}}, {"grid", {"hwc", "1(hw)c"}}, {"split.*", {"abc", "cab"}}};
    map.splits = {{"pair", {"split.0", "split.1"}}};
    const auto file = FileBuilder()
                          .add("conv", {2, 1, 3, 2})
                          .add("grid", {2, 2, 3})
                          .add("split.0", {2, 2, 2}, WeightType::f16)
                          .unaligned()
                          .file();
    WeightLoader loader(file, map);
    const Scope root = loader.root();
    EXPECT_EQ(values_of(root.tensor("conv", {2, 2, 1, 3})), (std::vector<float>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
    const Tensor grid = root.tensor("grid", {1, 4, 3});
    EXPECT_EQ(grid.raw(), file->find("grid")->data);  // only its shape is another
    EXPECT_EQ(values_of(grid).back(), 11);
    EXPECT_EQ(values_of(root.tensor("split.0", {2, 2, 2})), (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
    loader.finish("the test", {});
}

TEST(Binder, RowsAreConvertedWhenTheyAreRead) {
    for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::q8_0}) {
        WeightRows rows;
        {
            const auto file = FileBuilder().unaligned().add("table", {5, 64}, type).file();
            WeightLoader loader(file);
            rows = loader.root().rows("table", {5, 64});
            loader.finish("the model", {});
        }
        std::vector<float> row(64);
        rows.read(3, row.data());
        EXPECT_NEAR(row[7], 3 * 64 + 7, 1.0F) << name_of(type);
        EXPECT_THROW(rows.read(5, row.data()), Error);
        EXPECT_THROW(rows.read(-1, row.data()), Error);
    }
}

TEST(Binder, RowsThatCannotBeReadInPlaceAreConvertedAtOnce) {
    NameMap map;
    map.layouts = {{"turned", {"ab", "ba"}}};
    WeightLoader loader(FileBuilder().add("turned", {3, 2}).add("short", {2, 16}, WeightType::q8_0).file(), map);
    std::vector<float> row(16);
    loader.root().rows("turned", {2, 3}).read(1, row.data());
    EXPECT_EQ(row[2], 5);
    loader.root().rows("short", {2, 16}).read(1, row.data());
    EXPECT_NEAR(row[15], 31, 0.2F);
    EXPECT_EQ(loader.root().rows("absent", {4, 16}).count(), 4);
    expect_contains(error_of([&] { loader.finish("the test"); }), "absent");
}

TEST(Binder, OneErrorListsEverythingThatDoesNotFit) {
    WeightLoader loader(FileBuilder()
                            .add("layer.wieght", {2})
                            .add("layer.bias", {3})
                            .add("old.cache", {1})
                            .add("extra", {1})
                            .unsupported("f8")
                            .file());
    const Scope layer = loader.root() / "layer";
    EXPECT_EQ(values_of(layer.tensor("weight", {2})), (std::vector<float>{0, 0}));  // zeros stand in
    EXPECT_EQ(layer.tensor("weight", {2}).shape(), Shape{2});                       // noted once
    EXPECT_EQ(layer.tensor("bias", {4}).shape(), Shape{4});
    EXPECT_EQ(loader.root().tensor("f8", {2}).shape(), Shape{2});
    const std::string text = error_of([&] { loader.finish("the detector", {{"old.**", "computed"}}); });
    EXPECT_EQ(text,
              "cannot load the detector from model (test, the file's own names):\n"
              "  1 tensor is missing:\n"
              "    layer.weight [2] (closest: layer.wieght)\n"
              "  1 tensor has another shape:\n"
              "    layer.bias: expected [4], found [3]\n"
              "  1 tensor cannot be read:\n"
              "    f8 has type F8_E4M3, which cannot be read\n"
              "  2 tensors are left over:\n"
              "    layer.wieght\n"
              "    extra");
}

TEST(Binder, LongListsAreCutWithACount) {
    WeightLoader loader(FileBuilder().add("a", {1}).file());
    for (int i = 0; i < 37; ++i) (loader.root() / "layers" / i).tensor("weight", {2, 2});
    const std::string text = error_of([&] { loader.finish("the encoder"); });
    expect_contains(text, "37 tensors are missing");
    expect_contains(text, "layers.9.weight [2, 2]\n    and 27 more");
    EXPECT_EQ(text.find("layers.10.weight"), std::string::npos);
}

TEST(Binder, PartsThatDoNotFitAreReported) {
    NameMap map;
    map.splits = {{"**.qkv", {"$1.q", "$1.k", "$1.v"}}};
    map.stacks = {{"point.*", "point", 2}, {"odd.*", "odd", 2}};
    map.skips = {{"positions", 1, 5}, {"flat", 3, 1}};
    map.layouts = {{"turned", {"ab", "ba"}}};
    WeightLoader loader(FileBuilder()
                            .add("a.qkv", {4, 1})
                            .add("b.qkv", {96}, WeightType::q8_0)
                            .add("c.qkv", {3, 32}, WeightType::q8_0)
                            .add("point.1", {1})
                            .add("odd.0", {1, 2})
                            .add("odd.1", {1, 3})
                            .add("positions", {2, 3, 2})
                            .add("flat", {2})
                            .add("turned", {2})
                            .file(),
                        map);
    const Scope root = loader.root();
    for (const char* name : {"a.q", "b.q", "c.q", "point", "odd", "positions", "flat", "turned"})
        root.tensor(name, {1, 32});
    const std::string text = error_of([&] { loader.finish("the test"); });
    expect_contains(text, "a.q has 4 rows, which do not divide into 3 parts");
    expect_contains(text, "b.q: expected [1, 32], found [32]");
    expect_contains(text, "point lacks part 0 of 2");
    expect_contains(text, "odd has parts of different shapes");
    expect_contains(text, "positions has 3 rows");
    expect_contains(text, "flat has shape [2], which has no dimension to cut");
    expect_contains(text, "turned has shape [2], expected 2 dimensions");
    EXPECT_EQ(text.find("c.q"), std::string::npos);
    EXPECT_EQ(root.shape_of("point"), std::nullopt);
}

TEST(Binder, BlocksAreNotCut) {
    NameMap map;
    map.splits = {{"**.qkv", {"$1.q", "$1.k"}}};
    WeightLoader loader(FileBuilder().add("a.qkv", {32}, WeightType::q8_0).file(), map);
    loader.root().tensor("a.k", {16});
    expect_contains(error_of([&] { loader.finish("the test"); }), "cannot be cut inside a block");
}

// Codes 0, 1, 2, ... and scales 1, 2, 3, ...
FileBuilder coded(const Shape& codes, const Shape& scales) {
    return FileBuilder().add_codes("w", codes).add("w.scale", scales, WeightType::f32, 1);
}

TEST(Binder, Int8CodesAreHandedOutWithTheirScales) {
    WeightLoader loader(coded({2, 3}, {2}).file());
    const LayerWeights weights = loader.root().weights("w", {2, 3});
    ASSERT_TRUE(weights.coded());
    EXPECT_EQ(weights.values.dtype(), DType::i8);
    EXPECT_EQ(weights.values.data<int8_t>()[5], 5);
    EXPECT_EQ(values_of(weights.scales), (std::vector<float>{1, 2}));
    EXPECT_EQ(values_of(loader.root().tensor("w", {2, 3})), (std::vector<float>{0, 1, 2, 6, 8, 10}));
    std::vector<float> row(3);
    loader.root().rows("w", {2, 3}).read(1, row.data());
    EXPECT_EQ(row, (std::vector<float>{6, 8, 10}));
    EXPECT_EQ(loader.names(), std::vector<std::string>{"w"});  // scales are no tensor of their own
    loader.finish("the test", {});
}

TEST(Binder, Int8CodesOfTransposedConvolutionsHaveScalesBehindTheFirstDimension) {
    WeightLoader loader(coded({2, 1, 2, 2}, {1, 2, 2}).file());
    const LayerWeights weights = loader.root().weights("w", {2, 1, 2, 2}, OutputChannels::rest);
    ASSERT_TRUE(weights.coded());
    EXPECT_EQ(weights.scales.shape(), (Shape{1, 2, 2}));
    EXPECT_EQ(values_of(loader.root().tensor("w", {2, 1, 2, 2})), (std::vector<float>{0, 2, 6, 12, 4, 10, 18, 28}));
    // Scales of the other kind are applied, so that the values are right.
    EXPECT_FALSE(loader.root().weights("w", {2, 1, 2, 2}).coded());
}

TEST(Binder, Int8CodesWithoutFittingScalesAreRefused) {
    const auto refusal = [](FileBuilder builder, const Shape& shape) {
        WeightLoader loader(builder.file());
        loader.root().weights("w", shape);
        return error_of([&] { loader.finish("the test"); });
    };
    expect_contains(refusal(FileBuilder().add_codes("w", {2, 3}), {2, 3}), "the file has no scales 'w.scale'");
    expect_contains(refusal(coded({2, 3}, {3}), {2, 3}), "should be f32, one for each output channel");
    expect_contains(refusal(coded({2, 3}, {2, 1}), {2, 3}), "have shape [2, 1]");
    expect_contains(refusal(coded({2, 3}, {}), {2, 3}), "have shape []");
    expect_contains(refusal(coded({3}, {3}), {3}), "holds int8 codes [3]");
    expect_contains(refusal(coded({}, {}), {}), "holds int8 codes []");
    expect_contains(refusal(FileBuilder().add_codes("w", {2, 3}).add("w.scale", {2}, WeightType::f16), {2, 3}),
                    "should be f32");
}

TEST(Binder, ScalesWithoutCodesAreLeftOver) {
    WeightLoader loader(FileBuilder().add("w", {2, 3}).add("w.scale", {2}).file());
    EXPECT_FALSE(loader.root().weights("w", {2, 3}).coded());
    expect_contains(error_of([&] { loader.finish("the test", {}); }), "w.scale");
}

int64_t peak_kilobytes() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

TEST(Binder, AbsurdExpectationsCostNoMemory) {
    const auto file = FileBuilder().add("a", {1}).file();
    {
        WeightLoader loader(file);
        const int64_t before = peak_kilobytes();
        std::vector<Tensor> kept;
        for (int i = 0; i < 6; ++i) kept.push_back((loader.root() / i).tensor("w", {1 << 14, 1 << 13}));  // 3 GB in all
        EXPECT_LT(peak_kilobytes() - before, 1'000'000);
        EXPECT_EQ(kept.back().data<float>()[kept.back().numel() - 1], 0.0F);
        EXPECT_THROW(loader.finish("the test"), Error);
    }
    WeightLoader loader(file);
    expect_contains(error_of([&] {
                        loader.root().tensor("w", {int64_t{1} << 40, int64_t{1} << 40});
                    }),
                    "w [1099511627776");
    expect_contains(error_of([&] { WeightLoader(file).root().tensor("a", {-1, 4}); }), "[-1, 4]");
}

TEST(Binder, TwoTensorsForOneNameAreRefused) {
    NameMap map;
    map.renames = {{"old.*", "$1"}};
    const auto file = FileBuilder().add("w", {1}).add("old.w", {1}).file();
    expect_contains(error_of([&] { WeightLoader loader(file, map); }), "several tensors stand for 'w'");
}

TEST(EditDistance, CountsChangesAndSuggestsTheClosest) {
    EXPECT_EQ(edit_distance("kitten", "sitting", 100), 3);
    EXPECT_EQ(edit_distance("kitten", "sitting", 2), 2);
    EXPECT_EQ(edit_distance("", "abc", 100), 3);
    EXPECT_EQ(edit_distance("abc", "abc", 100), 0);
    EXPECT_EQ(closest_name("layers.0.weight", {"layers.1.bias", "layers.1.weight", "x"}), "layers.1.weight");
    EXPECT_EQ(closest_name("layers.0.weight", {"completely different"}), std::nullopt);
}

}  // namespace
}  // namespace sam3::test
