#include "weights/codecs.h"

#include "tests/weights/files.h"
#include "weights/weight_file.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace sam3::test {
namespace {

const std::vector<WeightType> kBlockTypes{WeightType::q4_0, WeightType::q4_1, WeightType::q5_0, WeightType::q5_1,
                                          WeightType::q8_0, WeightType::q4_k, WeightType::q5_k, WeightType::q6_k};

std::shared_ptr<const WeightFile> golden_blocks() {
    return open_weight_file(std::string(SAM3_TEST_DATA) + "/weights/blocks.safetensors");
}

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

// By the definition of the format, in double precision.
double half_by_definition(uint16_t half) {
    const int exponent = (half >> 10) & 31, mantissa = half & 1023;
    const double sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Codecs, HalvesDecodeByDefinition) {
    for (uint32_t i = 0; i < 65536; ++i) {
        const auto half = static_cast<uint16_t>(i);
        const double expected = half_by_definition(half);
        const float found = f16_to_f32(half);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(found)) << i;
        } else {
            EXPECT_EQ(bits(found), bits(static_cast<float>(expected))) << i;
        }
    }
}

TEST(Codecs, WideAndScalarHalvesAgreeOnEveryValue) {
    std::vector<uint16_t> halves(65536);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(halves.size());
    decode_to_f32(WeightType::f16, reinterpret_cast<const uint8_t*>(halves.data()), 65536, wide.data());
    std::vector<uint16_t> back(halves.size());
    encode_from_f32(WeightType::f16, wide.data(), 65536, reinterpret_cast<uint8_t*>(back.data()));
    for (size_t i = 0; i < halves.size(); ++i) {
        ASSERT_EQ(bits(wide[i]), bits(f16_to_f32(halves[i]))) << i;
        ASSERT_EQ(back[i], f32_to_f16(wide[i])) << i;
        const bool is_nan = (halves[i] & 0x7fffU) > 0x7c00U;
        ASSERT_EQ(back[i], is_nan ? halves[i] | 0x200U : halves[i]) << i;
    }
}

TEST(Codecs, RoundingToHalvesIsToNearestEven) {
    std::mt19937 random(1);
    std::vector<float> values;
    for (int i = 0; i < 200'000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    for (uint32_t i = 0; i < 0x7c00; ++i) {  // every half, the middle to the next one, and the floats beside the middle
        const float low = f16_to_f32(static_cast<uint16_t>(i)), high = f16_to_f32(static_cast<uint16_t>(i + 1));
        const float middle = i + 1 == 0x7c00 ? 65520.0F : low + (high - low) / 2;
        for (float value : {low, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)})
            values.push_back(-value);
    }
    std::vector<uint16_t> wide(values.size());
    encode_from_f32(WeightType::f16, values.data(), static_cast<int64_t>(values.size()),
                    reinterpret_cast<uint8_t*>(wide.data()));
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(f32_to_f16(values[i]), wide[i]) << values[i];

    EXPECT_EQ(f32_to_f16(65519.0F), 0x7bff);
    EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
    EXPECT_EQ(f32_to_f16(1.0F + 0x1p-11F), 0x3c00);  // tie to even
    EXPECT_EQ(f32_to_f16(1.0F + 0x3p-11F), 0x3c02);
    EXPECT_EQ(f32_to_f16(0x1p-25F), 0);  // half of the smallest, to even
    EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25F, 1.0F)), 1);
    EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
}

TEST(Codecs, BrainFloatsRoundToNearestEven) {
    for (uint32_t i = 0; i < 65536; ++i) {
        const auto brain = static_cast<uint16_t>(i);
        const float value = bf16_to_f32(brain);
        EXPECT_EQ(bits(value), i << 16);
        if (std::isnan(value)) continue;
        EXPECT_EQ(f32_to_bf16(value), brain);
    }
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);  // tie to even
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f7fffffU)), 0x7f80);  // the largest float becomes infinity
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(Codecs, BlocksDecodeAsGgmlDecodesThem) {
    const auto file = golden_blocks();
    for (WeightType type : kBlockTypes) {
        const std::string name(name_of(type));
        const WeightTensor *source = file->find(name + ".bytes"), *expected = file->find(name + ".values");
        ASSERT_TRUE(source != nullptr && expected != nullptr) << name;
        const int64_t count = expected->shape[0];
        ASSERT_EQ(count, 4 * block_size(type));
        ASSERT_EQ(source->bytes, static_cast<size_t>(4 * block_bytes(type)));
        std::vector<float> found(static_cast<size_t>(count)), golden(static_cast<size_t>(count));
        decode_to_f32(type, source->data, count, found.data());
        std::memcpy(golden.data(), expected->data, expected->bytes);
        for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(bits(found[i]), bits(golden[i])) << name << " " << i;
    }
}

TEST(Codecs, BlocksEncodeAsGgmlEncodes) {
    const auto file = golden_blocks();
    const WeightTensor* source = file->find("source");
    ASSERT_TRUE(source != nullptr);
    std::vector<float> values(static_cast<size_t>(source->shape[0]));
    std::memcpy(values.data(), source->data, source->bytes);
    for (const WeightType type : kBlockTypes) {
        const WeightTensor* expected = file->find(std::string(name_of(type)) + ".encoded");
        ASSERT_TRUE(expected != nullptr) << name_of(type);
        Bytes encoded(expected->bytes);
        encode_from_f32(type, values.data(), source->shape[0], encoded.data());
        const auto block = static_cast<size_t>(block_bytes(type));
        for (size_t i = 0; i < encoded.size(); ++i)
            ASSERT_EQ(encoded[i], expected->data[i])
                << name_of(type) << ", block " << i / block << ", byte " << i % block;
    }
}

TEST(Codecs, Q8StaysWithinHalfAStep) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal(0.0F, 3.0F);
    std::vector<float> values(4096), found(4096);
    for (float& value : values) value = normal(random);
    Bytes encoded(4096 / 32 * 34);
    encode_from_f32(WeightType::q8_0, values.data(), 4096, encoded.data());
    decode_to_f32(WeightType::q8_0, encoded.data(), 4096, found.data());
    for (size_t block = 0; block < 128; ++block) {
        float largest = 0;
        for (size_t j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(values[block * 32 + j]));
        for (size_t j = 0; j < 32; ++j)  // half a step of rounding, and 127 steps of a scale rounded to 11 bits
            EXPECT_NEAR(found[block * 32 + j], values[block * 32 + j], largest / 127 * (0.5F + 127.0F / 2048));
    }
}

TEST(Codecs, BlocksRefuseWhatTheyCannotHold) {
    for (const WeightType type : kBlockTypes) {
        const auto count = static_cast<size_t>(block_size(type));
        Bytes encoded(static_cast<size_t>(block_bytes(type)));
        std::vector<float> values(count, 1.0F);
        for (float bad : {std::nanf(""), INFINITY, -INFINITY, 1e9F}) {
            values[5] = bad;
            expect_contains(error_of([&] { encode_from_f32(type, values.data(), block_size(type), encoded.data()); }),
                            "a value is not finite");
        }
        values.assign(count, 1e-42F);  // subnormal: becomes zero
        encode_from_f32(type, values.data(), block_size(type), encoded.data());
        decode_to_f32(type, encoded.data(), block_size(type), values.data());
        EXPECT_EQ(values, std::vector<float>(count, 0.0F)) << name_of(type);
    }
}

TEST(Codecs, EveryPlainTypeOfTheReferenceLibraryDecodes) {
    const auto file = open_weight_file(std::string(SAM3_TEST_DATA) + "/weights/types.safetensors");
    const auto decode = [&](const char* name) {
        const WeightTensor* tensor = file->find(name);
        std::vector<float> values(static_cast<size_t>(tensor->shape.numel()));
        decode_to_f32(tensor->type, tensor->data, tensor->shape.numel(), values.data());
        return values;
    };
    for (const char* name : {"f32", "f16", "bf16", "f64"})
        EXPECT_EQ(decode(name), (std::vector<float>{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5})) << name;
    for (const char* name : {"i8", "i16", "i32", "i64"})
        EXPECT_EQ(decode(name), (std::vector<float>{-3, -2, -1, 0, 1, 2})) << name;
    EXPECT_EQ(decode("u8"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(decode("bool"), (std::vector<float>{0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(decode("scalar"), (std::vector<float>{4.25}));
    EXPECT_TRUE(decode("empty").empty());
    EXPECT_EQ(file->find("f8")->type, WeightType::unsupported);
    EXPECT_EQ(file->find("f8")->type_name, "F8_E4M3");
    EXPECT_THROW(decode("f8"), Error);
}

TEST(Codecs, SourcesMayHaveAnyAlignment) {
    for (WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::f64, WeightType::i64,
                            WeightType::q5_1, WeightType::q6_k}) {
        const int64_t count = 512;
        const size_t bytes = static_cast<size_t>(count / block_size(type) * block_bytes(type));
        Bytes aligned(bytes), shifted(bytes + 1);
        for (size_t i = 0; i < bytes; ++i) aligned[i] = shifted[i + 1] = static_cast<uint8_t>(i * 37 % 60);
        std::vector<float> a(512), b(512);
        decode_to_f32(type, aligned.data(), count, a.data());
        decode_to_f32(type, shifted.data() + 1, count, b.data());
        EXPECT_EQ(a, b) << name_of(type);
    }
}

TEST(Codecs, PartsOfBlocksAreRefused) {
    float values[33] = {};
    uint8_t bytes[64] = {};
    expect_contains(error_of([&] { decode_to_f32(WeightType::q8_0, bytes, 33, values); }), "a multiple of 32");
    expect_contains(error_of([&] { encode_from_f32(WeightType::q8_0, values, 31, bytes); }), "a multiple of 32");
    expect_contains(error_of([&] { encode_from_f32(WeightType::i16, values, 32, bytes); }), "cannot be written as i16");
}

TEST(WeightType, SizesAreCheckedForOverflow) {
    const int64_t huge = int64_t{1} << 62;
    EXPECT_EQ(checked_bytes(WeightType::f32, {3, 5}), 60U);
    EXPECT_EQ(checked_bytes(WeightType::f32, {}), 4U);
    EXPECT_EQ(checked_bytes(WeightType::q4_k, {3, 512}), 3U * 2 * 144);
    EXPECT_EQ(checked_bytes(WeightType::q4_k, {512, 3}), std::nullopt);  // blocks lie along the last dimension
    EXPECT_EQ(checked_bytes(WeightType::q8_0, {}), std::nullopt);
    EXPECT_EQ(checked_bytes(WeightType::f64, {huge}), std::nullopt);
    EXPECT_EQ(checked_numel({huge, 4}), std::nullopt);
    EXPECT_EQ(checked_numel({0, huge, 4}), std::nullopt);
    EXPECT_EQ(checked_numel({-1, -1}), std::nullopt);
    EXPECT_EQ(checked_numel({0, 7}), 0);
}

}  // namespace
}  // namespace sam3::test
