#include "text/tokenizer_files.h"

#include "util/error.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

const std::string kData = std::string(SAM3_TEST_DATA) + "/text/";

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

class TokenizerFiles : public testing::Test {
protected:
    TokenizerFiles() {
        const auto* info = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = fs::path(testing::TempDir()) / (std::string("sam3-tokenizer-") + info->name());
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    ~TokenizerFiles() override { fs::remove_all(folder_); }

    std::string write(const std::string& name, const std::string& bytes) const {
        std::ofstream(folder_ / name, std::ios::binary) << bytes;
        return (folder_ / name).string();
    }
    std::string write_gzip(const std::string& name, const std::string& text) const {
        const std::string path = (folder_ / name).string();
        gzFile file = gzopen(path.c_str(), "wb");
        gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
        gzclose(file);
        return path;
    }
    static std::string message(const std::string& path) {
        try {
            load_clip_tokenizer(path);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    fs::path folder_;
};

TEST_F(TokenizerFiles, AllFormsOfOneTokenizerAgree) {
    const std::string vocab = read(kData + "own/vocab.json"), merges = read(kData + "own/merges.txt");
    std::string list;
    std::istringstream lines(merges);
    for (std::string line; std::getline(lines, line);) {
        const size_t space = line.find(' ');
        if (line.rfind("#version", 0) == 0) continue;
        if (!list.empty()) list += ",";
        list += "[\"" + line.substr(0, space) + "\",\"" + line.substr(space + 1) + "\"]";
    }
    const std::string json =
        R"({"model":{"type":"BPE","end_of_word_suffix":"</w>","vocab":)" + vocab + R"(,"merges":[)" + list + "]}}";
    const auto expected = load_clip_tokenizer(kData + "own").encode("a red truck, 2 dogs").ids;
    EXPECT_EQ(load_clip_tokenizer(kData + "own/vocab.json").encode("a red truck, 2 dogs").ids, expected);
    EXPECT_EQ(load_clip_tokenizer(kData + "own/merges.txt").encode("a red truck, 2 dogs").ids, expected);
    EXPECT_EQ(load_clip_tokenizer(write("tokenizer.json", json)).encode("a red truck, 2 dogs").ids, expected);
    EXPECT_EQ(load_clip_tokenizer(folder_.string()).encode("a red truck, 2 dogs").ids, expected);
}

TEST_F(TokenizerFiles, MergesAloneArePlainOrGzip) {
    const std::string text = "\"bpe_simple_vocab_16e6.txt#version: 0.2\nt h\nth e</w>\n";
    const auto plain = load_clip_tokenizer(write("bpe.txt", text));
    const auto packed = load_clip_tokenizer(write_gzip("bpe.txt.gz", text));
    const ClipTokenizer crlf(read_merges("#version: 0.2\r\nt h\r\nth e</w>\r\n", "memory"));
    EXPECT_EQ(plain.vocabulary_size(), 516U);
    EXPECT_EQ(plain.encode("the").ids[1], 513);
    EXPECT_EQ(packed.encode("the").ids, plain.encode("the").ids);
    EXPECT_EQ(crlf.encode("the").ids, plain.encode("the").ids);
}

TEST_F(TokenizerFiles, OnlyTheFirst48894MergesCount) {
    // Every pair of two letters, then pairs of pairs, so that each merge is possible.
    std::vector<std::string> symbols;
    for (char a = 'a'; a <= 'z'; ++a) symbols.emplace_back(1, a);
    const size_t letters = symbols.size();
    std::string text = "#version: 0.2\n";
    size_t count = 0;
    for (size_t i = 0; i < letters; ++i) {
        for (size_t j = 0; j < letters; ++j, ++count) {
            text += symbols[i] + " " + symbols[j] + "\n";
            symbols.push_back(symbols[i] + symbols[j]);
        }
    }
    for (size_t i = letters; count < 48900; ++i) {
        for (size_t j = letters; j < symbols.size() && count < 48900; ++j, ++count) {
            text += symbols[i] + " " + symbols[j] + "\n";
        }
    }
    EXPECT_EQ(load_clip_tokenizer(write("bpe.txt", text)).vocabulary_size(), 49408U);
}

TEST_F(TokenizerFiles, WrongFilesGiveSentences) {
    EXPECT_NE(message((folder_ / "absent").string()).find("found nothing there"), std::string::npos);
    EXPECT_NE(message(folder_.string()).find("found neither"), std::string::npos);
    EXPECT_NE(message(write("empty.txt", "")).find("found none"), std::string::npos);
    EXPECT_NE(message(write("lfs.json", "version https://git-lfs.github.com/spec/v1\n")).find("git lfs pull"),
              std::string::npos);
    EXPECT_NE(message(write("cut.json", R"({"model": {"ty)")).find("is the file complete"), std::string::npos);
    EXPECT_NE(message(write("gpt2.json", R"({"model":{"type":"BPE","vocab":{},"merges":[]}})")).find("another kind"),
              std::string::npos);
    EXPECT_NE(message(write("bert.json", R"({"model":{"type":"WordPiece","vocab":{}}})")).find("WordPiece"),
              std::string::npos);
    EXPECT_NE(message(write("ids.json", R"({"model":{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":-1}}})"))
                  .find("found -1"),
              std::string::npos);
    EXPECT_NE(message(write("number.json", R"({"a": 8888888888E88888})")).find("expected JSON"), std::string::npos);
    std::string deep = R"({"model":{"type":"BPE","end_of_word_suffix":"</w>","vocab":{},"merges":[)";
    deep += std::string(200000, '[') + std::string(200000, ']') + "]}}";
    EXPECT_NE(message(write("deep.json", deep)).find("merge 1"), std::string::npos);
    EXPECT_NE(message(write("vocab.json", R"({"a": 0})")).find("merges.txt"), std::string::npos);
    EXPECT_NE(message(write("noise.bin", std::string("\x00\x01\x02garbage", 10))).find("merge 1"), std::string::npos);
    std::string packed = read(write_gzip("bpe.gz", "#version: 0.2\nt h\nth e</w>\n"));
    packed.resize(packed.size() / 2);
    EXPECT_NE(message(write("cut.gz", packed)).find("found damage"), std::string::npos);
}

TEST_F(TokenizerFiles, AGzipBombIsRefused) {
    EXPECT_NE(message(write_gzip("bomb.gz", std::string(size_t{70} << 20U, 'a'))).find("more than 64 MiB"),
              std::string::npos);
}

TEST_F(TokenizerFiles, ListsOfAModelFileGiveTheSameIds) {
    const ClipVocabulary vocabulary = load_clip_vocabulary(kData + "own");
    const ClipVocabulary again = ClipVocabulary::from_lists(vocabulary.to_lists());
    EXPECT_EQ(again.merges, vocabulary.merges);
    EXPECT_EQ(again.ids, vocabulary.ids);
    ClipVocabulary own = ClipVocabulary::from_merges({{"t", "h"}, {"th", "e</w>"}});
    EXPECT_TRUE(own.to_lists().tokens.empty());  // numbered as CLIP does: the merges say it all
    own.ids["far"] = 2'000'000'000;
    EXPECT_THROW(own.to_lists(), Error);
}

}  // namespace
}  // namespace sam3
