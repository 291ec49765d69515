#include "weights/safetensors.h"

#include "tests/weights/files.h"

namespace sam3::test {
namespace {

WeightFileContents parse(const Bytes& bytes) { return parse_safetensors(bytes.data(), bytes.size(), "file"); }
std::string refusal(const Bytes& bytes) {
    return error_of([&] { parse(bytes); });
}
// A header with one tensor of four bytes.
std::string refusal_of_entry(const std::string& entry) {
    return refusal(safetensors("{\"x\":" + entry + "}", Bytes(4)));
}

TEST(Safetensors, ReadsWhatTheReferenceLibraryWrote) {
    const auto file = open_weight_file(std::string(SAM3_TEST_DATA) + "/weights/types.safetensors");
    EXPECT_EQ(file->format(), "safetensors");
    EXPECT_EQ(file->metadata().get_string("format"), "pt");
    EXPECT_EQ(file->tensors().size(), 13U);
    EXPECT_EQ(file->find("bf16")->shape, (Shape{2, 3}));
    EXPECT_EQ(file->find("bf16")->type, WeightType::bf16);
    EXPECT_EQ(file->find("scalar")->shape, Shape{});
    EXPECT_EQ(file->find("empty")->shape, (Shape{0, 4}));
    EXPECT_EQ(file->find("nothing"), nullptr);
}

TEST(Safetensors, AcceptsUnalignedTensorsHolesAndPadding) {
    Bytes data(9);
    const float value = 1.5F;
    std::memcpy(data.data() + 3, &value, 4);
    const Bytes bytes = safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                        "b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}}   )",
                                    data);
    const WeightFileContents contents = parse(bytes);
    float found = 0;
    std::memcpy(&found, contents.tensors[1].data, 4);
    EXPECT_EQ(found, value);
}

TEST(Safetensors, RefusesDamagedFiles) {
    expect_contains(refusal(Bytes(5)), "only 5 bytes");
    expect_contains(refusal(safetensors("")), "does not begin with '{'");
    expect_contains(refusal(safetensors("[]")), "does not begin with '{'");
    expect_contains(refusal(safetensors("{")), "not JSON");
    expect_contains(refusal(safetensors("{} x")), "not JSON");
    expect_contains(refusal(safetensors("{\"a\xff\":{}}")), "not JSON");
    Bytes truncated = safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", Bytes(1));
    truncated.resize(30);
    expect_contains(refusal(truncated), "was its download interrupted?");
    Bytes huge = safetensors("{}");
    huge[7] = 0x7f;
    expect_contains(refusal(huge), "header of at most 100000000 bytes");
}

TEST(Safetensors, RefusesWrongEntries) {
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1]})"), "lacks its dtype, shape or data_offsets");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"), "has only 4");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), "not [begin, end]");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})"), "not [begin, end]");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
                    "should have 8 bytes, found 4");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), "a negative number");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"),
                    "a number with a fraction");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})"), "a text");
    expect_contains(refusal_of_entry(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})"), "a number");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
                    "dtype twice");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})"), "twice");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]})"),
                    "7 dimensions");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"),
                    "impossible dimension");
    expect_contains(refusal_of_entry(R"({"dtype":"F8_X","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
                    "impossible shape");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]})"),
                    "impossible shape");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]})"),
                    "too many");
    expect_contains(refusal_of_entry(R"({"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})"), "a list");
    expect_contains(refusal_of_entry("null"), "a null");
    expect_contains(refusal_of_entry("\"text\""), "a text");
    expect_contains(refusal(safetensors(R"({"__metadata__":{"a":1}})")), "a number");
    expect_contains(refusal(safetensors(R"({"__metadata__":{"a":"1","a":"2"}})")), "twice");
}

TEST(Safetensors, RefusesTensorsThatShareBytesOrNames) {
    const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    const std::string b = R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})";
    expect_contains(refusal(safetensors("{" + a + "," + b + "}", Bytes(12))), "'a' and 'b' overlap");
    expect_contains(refusal(safetensors("{" + a + "," + a + "}", Bytes(12))), "'a' stands in the header twice");
}

TEST(Safetensors, DeepNestingAndLongNamesAreRefusedAtOnce) {
    std::string deep = "{\"a\":";
    for (int i = 0; i < 1'000'000; ++i) deep += "[";
    expect_contains(refusal(safetensors(deep)), "a list");
    std::string objects;
    for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
    expect_contains(refusal(safetensors(objects)), "an object");
    expect_contains(refusal(safetensors("{\"" + std::string(2000, 'n') + "\":{}}")), "more than 1024 bytes");
}

TEST(Safetensors, EveryTruncationIsRefusedWithASentence) {
    const Bytes whole = read_bytes(std::string(SAM3_TEST_DATA) + "/weights/types.safetensors");
    for (size_t size = 0; size < whole.size(); ++size) {
        const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_THROW(parse(part), Error) << size;
    }
}

}  // namespace
}  // namespace sam3::test
