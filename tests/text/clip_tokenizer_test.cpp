#include "text/clip_tokenizer.h"

#include "text/tokenizer_files.h"
#include "util/error.h"

#include <gtest/gtest.h>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sam3 {
namespace {

using Json = nlohmann::json;

const std::string kData = std::string(SAM3_TEST_DATA) + "/text/";

struct Phrase {
    std::string bytes;
    std::vector<int32_t> transformers, original, own;
};

std::string from_hex(const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

std::vector<Phrase> phrases() {
    std::ifstream file(kData + "phrases.json");
    std::vector<Phrase> out;
    for (const Json& entry : Json::parse(file)) {
        out.push_back({entry.contains("hex") ? from_hex(entry["hex"]) : entry["text"].get<std::string>(),
                       entry["transformers"], entry["original"], entry["own"]});
    }
    return out;
}

// The ids without the padding.
std::vector<int32_t> real_ids(const ClipTokenizer& tokenizer, const std::string& text, TextRules rules) {
    EncodeOptions options;
    options.rules = rules;
    options.pad_id = -1;
    const Encoding encoding = tokenizer.encode(text, options);
    EXPECT_EQ(encoding.ids.size(), 32U);
    for (size_t i = static_cast<size_t>(encoding.count); i < encoding.ids.size(); ++i) EXPECT_EQ(encoding.ids[i], -1);
    return {encoding.ids.begin(), encoding.ids.begin() + encoding.count};
}

TEST(ClipTokenizer, EqualsHuggingFaceOnEveryPhrase) {
    const auto tokenizer = load_clip_tokenizer(kData + "clip_cut.json");
    const auto cases = phrases();
    ASSERT_GE(cases.size(), 400U);
    for (const auto& phrase : cases) {
        EXPECT_EQ(real_ids(tokenizer, phrase.bytes, TextRules::transformers), phrase.transformers) << phrase.bytes;
    }
}

TEST(ClipTokenizer, EqualsTheOriginalRulesOnEveryPhrase) {
    const auto tokenizer = load_clip_tokenizer(kData + "clip_cut.json");
    for (const auto& phrase : phrases()) {
        EXPECT_EQ(real_ids(tokenizer, phrase.bytes, TextRules::original), phrase.original) << phrase.bytes;
    }
}

TEST(ClipTokenizer, ReadsAnotherVocabularyOfItsKind) {
    const auto tokenizer = load_clip_tokenizer(kData + "own");
    EXPECT_EQ(tokenizer.vocabulary_size(), 995U);
    EXPECT_EQ(tokenizer.start_id(), 993);
    EXPECT_EQ(tokenizer.end_id(), 994);
    for (const auto& phrase : phrases()) {
        EXPECT_EQ(real_ids(tokenizer, phrase.bytes, TextRules::transformers), phrase.own) << phrase.bytes;
    }
}

// Runs on CLIP's whole vocabulary where SAM3_CLIP_VOCABULARY names bpe_simple_vocab_16e6.txt.gz.
TEST(ClipTokenizer, EqualsTheReferenceWithTheWholeVocabulary) {
    const char* path = std::getenv("SAM3_CLIP_VOCABULARY");
    if (path == nullptr) GTEST_SKIP() << "SAM3_CLIP_VOCABULARY is not set";
    const auto tokenizer = load_clip_tokenizer(path);
    EXPECT_EQ(tokenizer.vocabulary_size(), 49408U);
    for (const auto& phrase : phrases()) {
        EXPECT_EQ(real_ids(tokenizer, phrase.bytes, TextRules::transformers), phrase.transformers) << phrase.bytes;
        EXPECT_EQ(real_ids(tokenizer, phrase.bytes, TextRules::original), phrase.original) << phrase.bytes;
    }
}

TEST(ClipTokenizer, GivesThePublishedIds) {
    const auto tokenizer = load_clip_tokenizer(kData + "clip_cut.json");
    const std::pair<const char*, std::vector<int32_t>> published[] = {
        {"visual", {7195}},
        {"yellow school bus", {4481, 1228, 2840}},
        {"player in white", {2477, 530, 1579}},
        {"a dog's tail", {320, 1929, 568, 4132}},
        {"2024 car", {273, 271, 273, 275, 1615}},
    };
    for (auto [text, ids] : published) {
        ids.insert(ids.begin(), 49406);
        ids.push_back(49407);
        ids.resize(32, 0);
        EXPECT_EQ(tokenizer.encode(text).ids, ids) << text;
    }
}

TEST(ClipTokenizer, KeepsTheEndTokenWhenItCutsAPhrase) {
    const auto tokenizer = load_clip_tokenizer(kData + "clip_cut.json");
    const int32_t the = tokenizer.encode("the").ids[1];
    EncodeOptions options;
    options.context_length = 4;
    options.pad_id = 9;
    const Encoding fits = tokenizer.encode("the the", options);
    EXPECT_EQ(fits.ids, (std::vector<int32_t>{49406, the, the, 49407}));
    EXPECT_FALSE(fits.truncated);
    const Encoding cut = tokenizer.encode("the the the", options);
    EXPECT_EQ(cut.ids, fits.ids);
    EXPECT_EQ(cut.count, 4);
    EXPECT_TRUE(cut.truncated);
    EXPECT_EQ(tokenizer.encode("the", options).ids, (std::vector<int32_t>{49406, the, 49407, 9}));
    options.context_length = 2;
    EXPECT_EQ(tokenizer.encode("the the", options).ids, (std::vector<int32_t>{49406, 49407}));
    options.context_length = 1;
    EXPECT_THROW(tokenizer.encode("the", options), Error);
}

TEST(ClipTokenizer, BuildsTheVocabularyAsClipDoes) {
    const ClipTokenizer tokenizer(ClipVocabulary::from_lists({{}, {"a b", "ab c</w>", "d</w> x"}}));
    EXPECT_EQ(tokenizer.vocabulary_size(), 512U + 3U + 2U);
    EXPECT_EQ(tokenizer.start_id(), 515);
    // '!' is id 0 inside a word and 256 at its end; byte 0 follows the 188 printable ones.
    EXPECT_EQ(real_ids(tokenizer, "!!", TextRules::transformers), (std::vector<int32_t>{515, 0, 256, 516}));
    EXPECT_EQ(real_ids(tokenizer, "abc", TextRules::transformers), (std::vector<int32_t>{515, 513, 516}));
    EXPECT_EQ(real_ids(tokenizer, std::string(1, '\0'), TextRules::transformers),
              (std::vector<int32_t>{515, 256 + 188, 516}));
}

TEST(ClipTokenizer, SaysWhichMergeIsWrong) {
    const auto message = [](const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
        try {
            ClipTokenizer(ClipVocabulary::from_lists({tokens, merges}));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_NE(message({}, {"a b", "abc"}).find("merge 2"), std::string::npos);
    EXPECT_NE(message({}, {"a b c"}).find("merge 1"), std::string::npos);
    EXPECT_NE(message({}, {"a  b"}).find("merge 1"), std::string::npos);
    EXPECT_NE(message({}, {"a b", "zz y"}).find("'zz'"), std::string::npos);
    EXPECT_NE(message({"a", "b"}, {}).find("<|startoftext|>"), std::string::npos);
}

TEST(ClipTokenizer, StaysFastOnAHugePhrase) {
    const auto tokenizer = load_clip_tokenizer(kData + "clip_cut.json");
    constexpr size_t kBytes = 300000;
    const auto repeated = [](const std::string& part) {
        std::string text = "e";
        while (text.size() < kBytes) text += part;
        return text;
    };
    const std::clock_t start = std::clock();
    for (const char* part : {"a", "'", "\xcc\x81\xcc\xa3" /* acute, dot below */, "<|endoftext|>", "&amp"}) {
        for (const TextRules rules : {TextRules::transformers, TextRules::original}) {
            EncodeOptions options;
            options.rules = rules;
            EXPECT_TRUE(tokenizer.encode(repeated(part), options).truncated);
        }
    }
    // CPU time, so that a busy machine does not count. A quadratic pass over one of these would take minutes.
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20.0);
}

}  // namespace
}  // namespace sam3
