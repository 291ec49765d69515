#include "util/sha256.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

std::string hash(const std::string& text, size_t step) {
    Sha256 sha;
    for (size_t i = 0; i < text.size(); i += step) sha.add(text.data() + i, std::min(step, text.size() - i));
    return sha.hex();
}

// The examples of FIPS 180-4, and of sha256sum.
TEST(Sha256, EqualsTheStandardsExamples) {
    for (const size_t step : {1U, 7U, 64U, 100000U}) {
        EXPECT_EQ(hash("", step), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        EXPECT_EQ(hash("abc", step), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", step),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        EXPECT_EQ(hash(std::string(1000000, 'a'), step),
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

}  // namespace
}  // namespace sam3
