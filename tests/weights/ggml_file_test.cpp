#include "weights/ggml_file.h"

#include "tests/weights/ggml_sam3.h"
#include "weights/codecs.h"
#include "weights/json_text.h"

namespace sam3::test {
namespace {

std::string data_file(const std::string& name) { return std::string(SAM3_TEST_DATA) + "/weights/" + name; }

Bytes example(int version = 3) { return read_bytes(data_file("ggml-" + std::to_string(version) + ".ggml")); }

WeightFileContents parse(const Bytes& bytes) { return parse_ggml_file(bytes.data(), bytes.size(), "sam3.ggml"); }

std::string refusal(const Bytes& bytes) {
    return error_of([&] { parse(bytes); });
}

template <typename T>
Bytes patched(Bytes bytes, size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return bytes;
}

size_t find_tokenizer(const Bytes& bytes) {
    const Bytes magic{0x00, 0x6b, 0x6f, 0x74};
    const auto found = std::search(bytes.begin(), bytes.end(), magic.begin(), magic.end());
    EXPECT_NE(found, bytes.end());
    return static_cast<size_t>(found - bytes.begin());
}

constexpr size_t kHeader = 16 + 4 * 37;  // of version 3 with the two global layers of sam3-a

TEST(GgmlFile, EveryVersionAndTypeHoldsTheValuesThatWereWritten) {
    const auto expected = open_weight_file(data_file("ggml.safetensors"));
    for (const int version : {1, 2, 3}) {
        SCOPED_TRACE(version);
        const auto file = open_weight_file(data_file("ggml-" + std::to_string(version) + ".ggml"));
        EXPECT_EQ(file->format(), "ggml");
        ASSERT_EQ(file->tensors().size(), expected->tensors().size());
        for (const WeightTensor& wanted : expected->tensors()) {
            const WeightTensor* found = file->find(wanted.name);
            ASSERT_NE(found, nullptr) << wanted.name;
            EXPECT_EQ(found->shape, wanted.shape) << wanted.name;
            std::vector<float> values(static_cast<size_t>(wanted.shape.numel()));
            decode_to_f32(found->type, found->data, wanted.shape.numel(), values.data());
            EXPECT_EQ(std::memcmp(values.data(), wanted.data, wanted.bytes), 0) << wanted.name;
        }
        for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"})
            EXPECT_EQ(name_of(file->find(name)->type), name);
        EXPECT_EQ(file->metadata().has("tokenizer.ggml.tokens"), version == 3);
    }
}

TEST(GgmlFile, TheTokenizerIsReadByNumber) {
    const Metadata metadata = parse(example()).metadata;
    EXPECT_EQ(metadata.get_strings("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "b</w>", "ab</w>", "é"}));
    EXPECT_EQ(metadata.get_strings("tokenizer.ggml.merges"), (std::vector<std::string>{"a b</w>", "é a"}));
    const Bytes bytes = example();
    const size_t at = find_tokenizer(bytes);
    const Bytes swapped = patched<int32_t>(patched<int32_t>(bytes, at + 13, 1), at + 26, 0);  // the first two numbers
    EXPECT_EQ(parse(swapped).metadata.get_strings("tokenizer.ggml.tokens")[0], "b</w>");
}

// The sizes of the header, under the names of Hugging Face's config.json, whose values sam3-a's file must have.
TEST(GgmlFile, SizesHaveTheNamesOfTheConfiguration) {
    const std::string path = std::string(SAM3_TEST_DATA) + "/models/sam3-a/config.json";
    const Bytes text = read_bytes(path);
    const nlohmann::json config = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, path);
    for (const int version : {1, 2, 3}) {
        const Metadata metadata = parse(example(version)).metadata;
        EXPECT_EQ(metadata.get_string("general.architecture"), "sam3");
        int compared = 0;
        for (const auto& [key, value] : metadata.entries()) {
            if (key.compare(0, 5, "sam3.") != 0) continue;
            const nlohmann::json* field = &config;
            std::istringstream names(key.substr(5));
            for (std::string name; std::getline(names, name, '.');) {
                ASSERT_TRUE(field->contains(name)) << key;
                field = &field->at(name);
            }
            if (field->is_array())
                EXPECT_EQ(metadata.get_ints(key), field->get<std::vector<int64_t>>()) << key;
            else if (field->is_string())
                EXPECT_EQ(metadata.get_string(key), field->get<std::string>()) << key;
            else
                EXPECT_EQ(metadata.get_int(key), field->get<int64_t>()) << key;
            ++compared;
        }
        EXPECT_EQ(compared, 37);
    }
}

TEST(GgmlFile, AWholeModelHasAllItsTensors) {
    const TemporaryFolder folder;
    const auto file = open_weight_file(folder.write("sam3.ggml", ggml_sam3()));
    EXPECT_EQ(file->metadata().get_strings("tokenizer.ggml.tokens").size(), 995U);
    EXPECT_NE(file->find("vit.pos_embed"), nullptr);
    EXPECT_EQ(file->find("vit.pos_embed")->shape.rank(), 3);
}

TEST(GgmlFile, EveryCutIsNoticed) {
    for (const int version : {1, 2, 3}) {
        const Bytes bytes = example(version);
        for (size_t size = 0; size < bytes.size(); ++size)
            expect_contains(refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))), "sam3.ggml");
        Bytes longer = bytes;
        longer.push_back(0);
        expect_contains(refusal(longer), "1 bytes behind its end");
    }
}

TEST(GgmlFile, WrongHeadersAreRefused) {
    const Bytes bytes = example();
    expect_contains(refusal(patched<uint8_t>(bytes, 0, '2')), "expected a SAM 3 .ggml file");
    for (const int32_t version : {0, 5, -1})
        expect_contains(refusal(patched(bytes, 4, version)), str("version 1 to 4, found ", version));
    expect_contains(refusal(patched<int32_t>(bytes, 12, -1)), "announces -1 tensors");
    expect_contains(refusal(patched<int32_t>(bytes, 12, INT32_MAX)), "announces 2147483647 tensors");
    for (size_t at = 16; at < kHeader - 4; at += 4)
        for (const int32_t size : {-1, INT32_MAX, INT32_MIN})
            expect_contains(refusal(patched(bytes, at, size)), "impossible size");
    expect_contains(refusal(patched<int32_t>(bytes, 12, 0)), "expected the tokenizer behind the last tensor");
}

TEST(GgmlFile, AForksVersionFourHasItsModelType) {
    Bytes bytes = patched<int32_t>(example(), 4, 4);
    // One more number in the header, and padding that moves the first tensor's data on by 32 bytes.
    bytes.insert(bytes.begin() + kHeader, 4, 0);
    bytes.insert(bytes.begin() + kHeader + 4 + 27, 28, 0);
    EXPECT_EQ(parse(bytes).tensors.size(), 8U);
    expect_contains(refusal(patched<int32_t>(bytes, kHeader, 4)), "SAM 3.1");
}

TEST(GgmlFile, WrongTensorsAreRefused) {
    const Bytes bytes = example();  // begins with "f32": rank 3, name of 3 bytes, type 0, dims 5 3 2
    for (const int32_t rank : {0, 5, -1}) expect_contains(refusal(patched(bytes, kHeader, rank)), "no tensor begins");
    for (const int32_t length : {0, -1, 1025, INT32_MAX})
        expect_contains(refusal(patched(bytes, kHeader + 4, length)), "no tensor begins");
    expect_contains(refusal(patched<int32_t>(bytes, kHeader + 8, 99)), "'f32' has the ggml type 99");
    expect_contains(refusal(patched<int32_t>(bytes, kHeader + 8, 8)), "of type Q8_0 has an impossible shape [2, 3, 5]");
    expect_contains(refusal(patched<int32_t>(bytes, kHeader + 12, -5)), "impossible shape");
    expect_contains(refusal(patched<int32_t>(bytes, kHeader + 12, INT32_MAX)), "ends too early");
    Bytes huge = bytes;
    for (size_t i = 0; i < 3; ++i) huge = patched<int32_t>(huge, kHeader + 12 + 4 * i, INT32_MAX);
    expect_contains(refusal(huge), "impossible shape");
    Bytes twice = bytes;  // the second name is "f16"
    const std::string name = "f16";
    const auto second = std::search(twice.begin(), twice.end(), name.begin(), name.end());
    std::copy_n("f32", 3, second);
    expect_contains(refusal(twice), "'f32' stands there twice");
}

TEST(GgmlFile, WrongTokenizersAreRefused) {
    const Bytes bytes = example();
    const size_t at = find_tokenizer(bytes);
    expect_contains(refusal(patched<int32_t>(bytes, at, 1)), "expected the tokenizer");
    expect_contains(refusal(patched<int32_t>(bytes, at + 4, -1)), "announces -1 tokens");
    expect_contains(refusal(patched<int32_t>(bytes, at + 4, INT32_MAX)), "announces 2147483647 tokens");
    expect_contains(refusal(patched<int32_t>(bytes, at + 8, -1)), "has -1 bytes");
    expect_contains(refusal(patched<int32_t>(bytes, at + 8, INT32_MAX)), "ends too early");
    expect_contains(refusal(patched<int32_t>(bytes, at + 13, 4)), "the number 4, which is impossible");
    expect_contains(refusal(patched<int32_t>(bytes, at + 13, -1)), "the number -1, which is impossible");
    expect_contains(refusal(patched<int32_t>(bytes, at + 13, 1)), "the number 1, which is taken");
}

}  // namespace
}  // namespace sam3::test
