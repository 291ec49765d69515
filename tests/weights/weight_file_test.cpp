#include "weights/weight_file.h"

#include "tests/weights/files.h"
#include "weights/file_kind.h"
#include "weights/hf_folder.h"
#include "weights/json_text.h"

namespace sam3::test {
namespace {

const std::string kHeaderA = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
const std::string kHeaderB = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

std::string refusal(const std::string& path) {
    return error_of([&] { open_weight_file(path); });
}

TEST(WeightFile, TheKindIsRecognisedByContentNotByName) {
    const TemporaryFolder folder;
    const std::string disguised = folder.write("model.gguf", safetensors(kHeaderA, Bytes(4)));
    EXPECT_EQ(open_weight_file(disguised)->format(), "safetensors");
    const Bytes gguf = read_bytes(std::string(SAM3_TEST_DATA) + "/weights/ggml.gguf");
    EXPECT_EQ(open_weight_file(folder.write("model.safetensors", gguf))->format(), "GGUF");
    const Bytes torch = read_bytes(std::string(SAM3_TEST_DATA) + "/weights/torch-2.pt");
    EXPECT_EQ(open_weight_file(folder.write("model.ggml", torch))->format(), "PyTorch file");
    const Bytes ggml = read_bytes(std::string(SAM3_TEST_DATA) + "/weights/ggml-3.ggml");
    EXPECT_EQ(open_weight_file(folder.write("model.pt", ggml))->format(), "ggml");
}

// The low bytes of its header length look like a pickle's or a JSON text's first bytes.
TEST(WeightFile, SafetensorsWinOverShorterSignatures) {
    const TemporaryFolder folder;
    for (size_t length : {size_t{0x280}, size_t{0x7b}, size_t{0x8b1f}}) {
        const std::string header = kHeaderA + std::string(length - kHeaderA.size(), ' ');
        EXPECT_EQ(open_weight_file(folder.write("x", safetensors(header, Bytes(4))))->tensors().size(), 1U);
    }
    const Bytes zip_like{'P', 'K', 3, 4, 0, 0, 0, 0, '{'};  // a header of 64 MB
    EXPECT_EQ(identify_weights(zip_like.data(), zip_like.size()), FileKind::safetensors);
    EXPECT_EQ(identify_weights(zip_like.data(), 4), FileKind::torch);
}

TEST(WeightFile, ForeignFilesAreNamed) {
    const TemporaryFolder folder;
    const auto found = [&](const std::string& content) { return refusal(folder.write("file", content)); };
    const std::string pointer =
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 12\n";
    expect_contains(found(pointer), "found a Git LFS pointer (127 bytes): run `git lfs pull`");
    expect_contains(found("\n <!DOCTYPE HTML><html>"), "found an HTML page");
    expect_contains(found("<?xml version='1.0'?><Error>"), "found an XML page");
    expect_contains(found("\x80\x02\x8a\x0a"), "found a Python pickle");
    expect_contains(found("2mas...."), "found a SAM 2 or EdgeTAM .ggml file (8 bytes): this kind cannot be read yet");
    expect_contains(found("lmgg...."), "SAM 1 .ggml file");
    expect_contains(found("\x1f\x8b...."), "found a gzip archive");
    expect_contains(found("FUGG...."), "big-endian GGUF");
    expect_contains(found(R"({"metadata": {}, "weight_map": {}})"), "the index of a sharded model (JSON)");
    expect_contains(found(R"({"hidden_size": 3})"), "found a JSON text");
    expect_contains(found(std::string(100, '\0')), "only zero bytes");
    expect_contains(found("Access to model facebook/sam3 is restricted."),
                    "a text that begins 'Access to model facebook");
    expect_contains(found("\x01\x02\x03\x04"), "an unknown kind");
    expect_contains(found("GG"), "found a text that begins 'GG' (2 bytes)");
    expect_contains(refusal(folder.write("empty", "")), "is empty");
    expect_contains(refusal(folder / "missing"), "there is no file");
}

TEST(HfFolder, ASingleFileAndItsSideFiles) {
    const TemporaryFolder folder;
    expect_contains(refusal(folder.path()), "found no config.json");
    folder.write("config.json", "{\"hidden\": 1}");
    expect_contains(refusal(folder.path()), "has no model.safetensors and no PyTorch file");
    folder.write("other.safetensors", safetensors(kHeaderA, Bytes(4)));
    EXPECT_NE(open_weight_file(folder.path())->find("a"), nullptr);
    folder.write("second.safetensors", safetensors(kHeaderA, Bytes(4)));
    expect_contains(refusal(folder.path()), "2 .safetensors files");
    folder.write("model.safetensors", safetensors(kHeaderB, Bytes(4)));
    const auto file = open_weight_file(folder.path());
    EXPECT_NE(file->find("b"), nullptr);
    EXPECT_EQ(file->format(), "Hugging Face folder");
    EXPECT_EQ(file->side_file("config.json"), "{\"hidden\": 1}");
    EXPECT_EQ(file->side_path("config.json"), folder / "config.json");
    EXPECT_EQ(file->side_file("tokenizer.json"), std::nullopt);
    expect_contains(error_of([&] { file->side_file("config.json", 4); }), "more than the 4");
    EXPECT_EQ(open_weight_file(folder / "model.safetensors")->side_file("config.json"), "{\"hidden\": 1}");
    folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
    expect_contains(refusal(folder.path()), "Git LFS pointer");
}

TEST(HfFolder, PyTorchFilesAreReadWhereThereAreNoSafetensors) {
    const TemporaryFolder folder;
    folder.write("config.json", "{\"hidden\": 1}");
    const Bytes torch = read_bytes(std::string(SAM3_TEST_DATA) + "/weights/torch-2.pt");
    folder.write("sam3.pt", torch);
    EXPECT_NE(open_weight_file(folder.path())->find("shared"), nullptr);
    EXPECT_EQ(open_weight_file(folder / "sam3.pt")->side_file("config.json"), "{\"hidden\": 1}");
    folder.write("other.pth", torch);
    expect_contains(refusal(folder.path()), "none is named pytorch_model.bin");
    folder.write("pytorch_model.bin", torch);
    EXPECT_NE(open_weight_file(folder.path())->find("turned"), nullptr);
    folder.write("model.safetensors", safetensors(kHeaderA, Bytes(4)));
    EXPECT_EQ(open_weight_file(folder.path())->tensors().size(), 1U);
    folder.write("model.safetensors", read_bytes(std::string(SAM3_TEST_DATA) + "/weights/ggml.gguf"));
    expect_contains(refusal(folder.path()), "give the file itself");
}

TEST(HfFolder, PyTorchShardsFormOneFile) {
    const TemporaryFolder folder;
    folder.write("config.json", "{}");
    folder.write("m-1.bin", read_bytes(std::string(SAM3_TEST_DATA) + "/weights/torch-2.pt"));
    folder.write("m-2.bin", safetensors(kHeaderA, Bytes(4, 1)));
    folder.write("pytorch_model.bin.index.json", R"({"weight_map": {"turned": "m-1.bin", "a": "m-2.bin"}})");
    const auto file = open_weight_file(folder.path());
    ASSERT_NE(file->find("turned"), nullptr);
    EXPECT_EQ(file->find("turned")->shape, (Shape{6, 4}));
    EXPECT_EQ(file->find("a")->data[0], 1);
}

TEST(HfFolder, ShardsFormOneFile) {
    const TemporaryFolder folder;
    folder.write("config.json", "{}");
    folder.write("m-1.safetensors", safetensors(kHeaderA, Bytes(4, 1)));
    folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
    expect_contains(refusal(folder.path()), "lacks the file 'm-2.safetensors'");
    folder.write("m-2.safetensors", safetensors(kHeaderB, Bytes(4, 2)));
    const auto file = open_weight_file(folder.path());
    EXPECT_EQ(file->find("a")->data[0], 1);
    EXPECT_EQ(file->find("b")->data[0], 2);
    for (const WeightTensor& tensor : file->tensors()) file->release(tensor);

    folder.write("m-2.safetensors", safetensors(kHeaderA, Bytes(4)));
    expect_contains(refusal(folder.path()), "'a' stands in both");
    folder.write("m-2.safetensors", safetensors("{}"));
    expect_contains(refusal(folder.path()), "the index says that 'b' is in m-2.safetensors, but it is not");
}

TEST(HfFolder, TheIndexIsChecked) {
    const auto index = [](const std::string& text) { return error_of([&] { parse_shard_index(text, "index"); }); };
    expect_contains(index("{"), "expected JSON in index");
    expect_contains(index("[]"), "found none");
    expect_contains(index(R"({"weight_map": []})"), "found none");
    expect_contains(index(R"({"weight_map": {"a": 1}})"), "found something else");
    for (const char* name : {"../x", "/etc/passwd", "a/b", "..", "", "a\\\\b", "a\\u0000b"})
        expect_contains(index(std::string(R"({"weight_map": {"a": ")") + name + "\"}}"), "found something else");
    expect_contains(index(std::string(1'000'000, '[')), "nested more than 64");
    expect_contains(index("{\"weight_map\": {\"a\": 1e999}}"), "cannot be read");
    EXPECT_EQ(parse_shard_index(R"({"x": "[[{\"[", "weight_map": {"a": "f"}})", "index").at(0).file, "f");
}

}  // namespace
}  // namespace sam3::test
