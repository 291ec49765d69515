#include "weights/gguf.h"

#include "tests/weights/files.h"
#include "weights/codecs.h"
#include "weights/gguf_writer.h"

#include <cmath>
#include <filesystem>

namespace sam3::test {
namespace {

WeightFileContents parse(const Bytes& bytes) { return parse_gguf(bytes.data(), bytes.size(), "file"); }
std::string refusal(const Bytes& bytes) {
    return error_of([&] { parse(bytes); });
}

// Grows a GGUF file by hand.
struct Gguf {
    Bytes bytes{'G', 'G', 'U', 'F'};
    explicit Gguf(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
        append(bytes, version);
        append(bytes, tensors);
        append(bytes, keys);
    }
    template <typename T>
    Gguf& number(T value) {
        append(bytes, value);
        return *this;
    }
    Gguf& text(const std::string& value) {
        append_text(bytes, value);
        return *this;
    }
    Gguf& tensor(const std::string& name, std::vector<int64_t> dims, uint32_t type, uint64_t offset) {
        text(name).number(static_cast<uint32_t>(dims.size()));
        for (int64_t d : dims) number(d);
        return number(type).number(offset);
    }
    Bytes with_data(size_t size) const {
        Bytes all = bytes;
        all.resize((all.size() + 31) / 32 * 32 + size);
        return all;
    }
};

TEST(Gguf, ReadsWhatGgmlWrote) {
    const auto file = open_weight_file(std::string(SAM3_TEST_DATA) + "/weights/ggml.gguf");
    const Metadata& metadata = file->metadata();
    EXPECT_EQ(file->format(), "GGUF");
    EXPECT_EQ(metadata.get_int("number.u8"), 200);
    EXPECT_EQ(metadata.get_int("number.i8"), -100);
    EXPECT_EQ(metadata.get_int("number.u16"), 60000);
    EXPECT_EQ(metadata.get_int("number.i16"), -30000);
    EXPECT_EQ(metadata.get_int("number.u32"), 4000000000);
    EXPECT_EQ(metadata.get_int("number.i32"), -2000000000);
    EXPECT_EQ(std::get<uint64_t>(*metadata.find("number.u64")), (uint64_t{1} << 63) + 5);
    EXPECT_EQ(metadata.get_int("number.i64"), -(int64_t{1} << 62));
    EXPECT_EQ(metadata.get_float("number.f32"), 1.5);
    EXPECT_EQ(metadata.get_float("number.f64"), 1e300);
    EXPECT_TRUE(metadata.get_bool("flag"));
    EXPECT_EQ(metadata.get_string("general.architecture"), "sam3-test");
    EXPECT_EQ(metadata.get_ints("list.i32"), (std::vector<int64_t>{7, 15, 23, 31}));
    EXPECT_EQ(metadata.get_floats("list.f32"), (std::vector<double>{0.5, 0.25, -1.0}));
    EXPECT_EQ(metadata.get_strings("list.words"), (std::vector<std::string>{"a</w>", "", "\u00e9"}));

    ASSERT_EQ(file->tensors().size(), 4U);
    for (const WeightTensor& tensor : file->tensors()) {
        EXPECT_EQ(tensor.shape, (Shape{2, 256}));
        std::vector<float> values(512);
        decode_to_f32(tensor.type, tensor.data, 512, values.data());
        const float tolerance = tensor.type == WeightType::q4_k ? 0.2F : tensor.type == WeightType::q8_0 ? 0.02F : 0.0F;
        for (int i = 0; i < 512; ++i)
            ASSERT_NEAR(values[static_cast<size_t>(i)], static_cast<float>(i - 200) / 64, tolerance) << tensor.name;
    }
}

TEST(Gguf, WhatIsWrittenIsReadBack) {
    const TemporaryFolder folder;
    const std::string path = folder / "model.gguf";
    std::vector<float> values(300'000 / 32 * 32);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) / 8 - 60;
    const int64_t rows = static_cast<int64_t>(values.size()) / 32;
    const Bytes raw{1, 2, 3};
    MetadataArray nested;
    nested.items = std::vector<MetadataArray>{{std::vector<int16_t>{-1, 2}}, {std::vector<bool>{true, false}}};
    {
        GgufWriter writer(path);
        writer.set("text", std::string("a\0b", 3));
        writer.set("number", uint16_t{7});
        writer.set("flag", false);
        writer.set("words", MetadataArray{std::vector<std::string>{"x", ""}});
        writer.set("nested", nested);
        writer.declare("bytes", WeightType::i8, {3});
        for (WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::q8_0})
            writer.declare(std::string(name_of(type)), type, {rows, 32});
        writer.declare("scalar", WeightType::f32, {});
        writer.write_bytes(raw.data(), raw.size());
        for (int i = 0; i < 4; ++i) writer.write_f32(values.data(), values.size());
        writer.write_f32(values.data(), 1);
        EXPECT_FALSE(std::filesystem::exists(path));  // not before it is complete
        writer.finish();
    }
    const auto file = open_weight_file(path);
    EXPECT_EQ(file->metadata().entries().size(), 5U);
    EXPECT_EQ(file->metadata().get_string("text"), std::string("a\0b", 3));
    EXPECT_EQ(file->metadata().get_int("number"), 7);
    EXPECT_FALSE(file->metadata().get_bool("flag"));
    EXPECT_EQ(file->metadata().get_strings("words"), (std::vector<std::string>{"x", ""}));
    const auto& list =
        std::get<std::vector<MetadataArray>>(std::get<MetadataArray>(*file->metadata().find("nested")).items);
    EXPECT_EQ(std::get<std::vector<int16_t>>(list[0].items), (std::vector<int16_t>{-1, 2}));
    EXPECT_EQ(std::get<std::vector<bool>>(list[1].items), (std::vector<bool>{true, false}));
    EXPECT_EQ(Bytes(file->find("bytes")->data, file->find("bytes")->data + 3), raw);
    EXPECT_EQ(file->find("scalar")->shape, Shape{});
    std::vector<float> found(values.size());
    for (const char* name : {"f32", "f16", "bf16", "q8_0"}) {
        const WeightTensor* tensor = file->find(name);
        ASSERT_EQ(tensor->shape, (Shape{rows, 32}));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 32, 0U);
        decode_to_f32(tensor->type, tensor->data, tensor->shape.numel(), found.data());
        const float tolerance = std::string(name) == "f32" || std::string(name) == "f16" ? 0.0F : 0.3F;
        for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], values[i], tolerance) << name << i;
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // no temporary file is left
}

TEST(Gguf, AnUnfinishedWriterLeavesNothingAndKeepsTheOldFile) {
    const TemporaryFolder folder;
    folder.write("model.gguf", "old");
    {
        GgufWriter writer(folder / "model.gguf");
        writer.declare("x", WeightType::f32, {2});
        writer.declare("y", WeightType::f32, {2});
        const float values[2] = {1, 2};
        writer.write_f32(values, 2);
        expect_contains(error_of([&] { writer.finish(); }), "only 1 of the 2 declared tensors");
    }
    EXPECT_EQ(read_bytes(folder / "model.gguf"), (Bytes{'o', 'l', 'd'}));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Gguf, TheWriterRefusesWhatCannotBeStored) {
    const TemporaryFolder folder;
    expect_contains(error_of([&] { GgufWriter writer(folder / "no/such/folder"); }), "cannot write");
    expect_contains(error_of([&] { GgufWriter writer(folder.path()); }), "a folder has this name");
    GgufWriter writer(folder / "x.gguf");
    writer.set("key", true);
    expect_contains(error_of([&] { writer.set("key", true); }), "set twice");
    expect_contains(error_of([&] { writer.declare("q", WeightType::q8_0, {4, 31}); }), "cannot be stored as q8_0");
    expect_contains(error_of([&] { writer.declare("b", WeightType::bool_, {4}); }), "no tensor type for bool");
    writer.declare("q", WeightType::q8_0, {1, 32});
    expect_contains(error_of([&] { writer.declare("q", WeightType::f32, {1}); }), "declared twice");
    std::vector<float> values(32, std::nanf(""));
    expect_contains(error_of([&] { writer.write_f32(values.data(), 31); }), "found 31 values");
    expect_contains(error_of([&] { writer.write_f32(values.data(), 32); }), "'q': a value is not finite");
    expect_contains(error_of([&] { writer.set("late", true); }), "before the first tensor");
}

TEST(Gguf, TheAlignmentKeyMovesTheData) {
    Gguf file(1, 1);
    file.text("general.alignment").number<uint32_t>(4).number<uint32_t>(256).tensor("x", {1}, 0, 256);
    ASSERT_LT(file.bytes.size(), 256U);
    file.bytes.resize(512);
    file.number(2.5F);
    float value = 0;
    std::memcpy(&value, parse(file.bytes).tensors.at(0).data, sizeof value);
    EXPECT_EQ(value, 2.5F);
}

TEST(Gguf, ReadsVersionTwoAndArraysOfArrays) {
    Gguf file(0, 1, 2);
    file.text("nested").number<uint32_t>(9).number<uint32_t>(9).number<uint64_t>(1);
    file.number<uint32_t>(8).number<uint64_t>(2).text("a").text("b");
    const WeightFileContents contents = parse(file.bytes);
    const auto& outer = std::get<MetadataArray>(*contents.metadata.find("nested"));
    const auto& inner = std::get<std::vector<MetadataArray>>(outer.items).at(0);
    EXPECT_EQ(std::get<std::vector<std::string>>(inner.items), (std::vector<std::string>{"a", "b"}));
}

TEST(Gguf, RefusesHeadersThatPromiseTooMuch) {
    expect_contains(refusal(Gguf(uint64_t{1} << 60, 0).bytes), "announces 1152921504606846976 tensors");
    expect_contains(refusal(Gguf(0, uint64_t{1} << 60).bytes), "metadata keys");
    Gguf long_text(0, 1);
    long_text.number(UINT64_MAX).number<uint64_t>(0);
    expect_contains(refusal(long_text.bytes), "the GGUF header ends too early");
    for (uint32_t type = 0; type <= 12; ++type) {
        Gguf file(0, 1);
        file.text("k").number<uint32_t>(9).number(type).number(uint64_t{1} << 62).number<uint64_t>(0);
        expect_contains(refusal(file.bytes), "array elements");
    }
    Gguf nested(0, 1);
    nested.text("k").number<uint32_t>(9);
    for (int i = 0; i < 100'000; ++i) nested.number<uint32_t>(9).number<uint64_t>(1);
    expect_contains(refusal(nested.bytes), "nested more than");
}

TEST(Gguf, RefusesWrongMetadata) {
    expect_contains(refusal(Gguf(0, 1).text("k").number<uint32_t>(13).number<uint64_t>(0).bytes), "unknown type 13");
    expect_contains(refusal(Gguf(0, 1).text("k").number<uint32_t>(7).number<uint8_t>(2).bytes), "expected a bool");
    Gguf array(0, 1);
    array.text("k").number<uint32_t>(9).number<uint32_t>(99).number<uint64_t>(1);
    expect_contains(refusal(array.bytes), "unknown type 99");
    Gguf twice(0, 2);
    for (int i = 0; i < 2; ++i) twice.text("k").number<uint32_t>(4).number<uint32_t>(1);
    expect_contains(refusal(twice.bytes), "'k' stands there twice");
    for (uint32_t alignment : {0U, 48U, 1U << 30}) {
        const Bytes bytes = Gguf(0, 1).text("general.alignment").number<uint32_t>(4).number(alignment).bytes;
        expect_contains(refusal(bytes), "a power of two");
    }
}

TEST(Gguf, RefusesWrongTensors) {
    const auto one = [](std::vector<int64_t> dims, uint32_t type, uint64_t offset) {
        return Gguf(1, 0).tensor("x", std::move(dims), type, offset).with_data(64);
    };
    EXPECT_EQ(parse(one({16}, 0, 0)).tensors.at(0).bytes, 64U);
    EXPECT_EQ(parse(one({2, 8}, 0, 0)).tensors.at(0).shape, (Shape{8, 2}));
    expect_contains(refusal(one({17}, 0, 0)), "needs 68 bytes at offset 0 of the data, but the file has only 64");
    expect_contains(refusal(one({16}, 0, 32)), "at offset 32");
    expect_contains(refusal(one({1}, 0, UINT64_MAX - 31)), "has only 64");
    expect_contains(refusal(one({1}, 0, 8)), "not aligned to 32");
    expect_contains(refusal(one({-4}, 0, 0)), "impossible shape");
    expect_contains(refusal(one({INT64_MAX, 3}, 0, 0)), "impossible shape");
    expect_contains(refusal(one({INT64_MAX}, 0, 0)), "too large");
    expect_contains(refusal(one({31}, 8, 0)), "not a whole number of blocks");
    expect_contains(refusal(one({1, 1, 1, 1, 1, 1, 1}, 0, 0)), "7 dimensions");
    expect_contains(refusal(Gguf(2, 0).tensor("x", {1}, 0, 0).tensor("x", {1}, 0, 32).with_data(64)), "twice");
    expect_contains(refusal(Gguf(2, 0).tensor("x", {9}, 0, 0).tensor("y", {1}, 0, 32).with_data(64)), "overlap");
    expect_contains(refusal(Gguf(1, 0).tensor(std::string(2000, 'n'), {1}, 0, 0).with_data(64)), "2000 bytes");
    const WeightFileContents unknown = parse(one({16}, 19, 0));  // listed, refused only when used
    EXPECT_EQ(unknown.tensors.at(0).type, WeightType::unsupported);
    EXPECT_EQ(unknown.tensors.at(0).type_name, "ggml type 19");
}

TEST(Gguf, RefusesOtherVersions) {
    expect_contains(refusal(Gguf(0, 0, 1).bytes), "version 2 or 3, found 1");
    expect_contains(refusal(Gguf(0, 0, 0x03000000).bytes), "big-endian");
    expect_contains(refusal(Bytes{'G', 'G', 'U', 'F'}), "the GGUF header ends too early");
}

TEST(Gguf, EveryTruncationIsRefusedWithASentence) {
    const Bytes whole = read_bytes(std::string(SAM3_TEST_DATA) + "/weights/ggml.gguf");
    ASSERT_NO_THROW(parse(whole));
    size_t refused = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
        const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        try {
            parse(part);
        } catch (const Error&) {
            ++refused;
        }
    }
    EXPECT_GE(refused, whole.size() - 64);  // all but those that only cut the padding at the end
}

TEST(Metadata, WrongTypesAndMissingKeysAreSentences) {
    Metadata metadata;
    metadata.add("text", std::string("x"));
    metadata.add("large", UINT64_MAX);
    metadata.add("words", MetadataArray{std::vector<std::string>{"a"}});
    expect_contains(error_of([&] { metadata.get_int("text"); }), "'text' should be an integer, found string");
    expect_contains(error_of([&] { metadata.get_int("large"); }), "should be an integer, found u64");
    expect_contains(error_of([&] { metadata.get_int("none"); }), "has no key 'none'");
    expect_contains(error_of([&] { metadata.get_ints("words"); }), "should be an array of integers");
    expect_contains(error_of([&] { metadata.get_floats("text"); }), "should be an array of numbers, found string");
    expect_contains(error_of([&] { metadata.get_strings("text"); }), "should be an array of strings");
    expect_contains(error_of([&] { metadata.get_bool("text"); }), "should be a bool");
    EXPECT_EQ(metadata.get_int("none", 5), 5);
    EXPECT_FALSE(metadata.add("text", true));
}

}  // namespace
}  // namespace sam3::test
