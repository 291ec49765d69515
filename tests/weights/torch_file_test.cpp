#include "weights/torch_file.h"

#include "tests/weights/zip_builder.h"
#include "weights/safetensors.h"

namespace sam3::test {
namespace {

using namespace std::string_literals;

std::string data_file(const std::string& name) { return std::string(SAM3_TEST_DATA) + "/weights/" + name; }

std::string number(int64_t value) {
    Bytes bytes;
    append<uint8_t>(bytes, 0x8a);  // LONG1
    append<uint8_t>(bytes, 8);
    append(bytes, value);
    return std::string(bytes.begin(), bytes.end());
}

std::string text(const std::string& value) { return "\x8c"s + static_cast<char>(value.size()) + value; }

std::string numbers(const std::vector<int64_t>& values) {
    std::string bytes = "(";
    for (int64_t value : values) bytes += number(value);
    return bytes + "t";
}

// A pickled tensor, as torch.save writes one.
std::string tensor(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   const std::string& storage = "torch\nFloatStorage\n", const std::string& key = "0") {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "c" + storage + text(key) + text("cpu") +
           number(4) + "tQ" + number(offset) + numbers(sizes) + numbers(strides) + "\x89" + "}tR";
}

// An archive whose state dict has one entry and whose storage 0 has 16 bytes.
Bytes archive(const std::string& value, const ZipOptions& options = {}) {
    const std::string pickle = "\x80\x02}" + text("w") + value + "s.";
    Bytes storage(16);
    for (uint8_t i = 0; i < 16; ++i) storage[i] = i;
    return make_zip({{"x/data.pkl", Bytes(pickle.begin(), pickle.end())}, {"x/data/0", storage}}, options);
}

WeightFileContents parse(const Bytes& bytes) { return parse_torch_file(bytes.data(), bytes.size(), "file.pt"); }

std::string refusal(const Bytes& bytes) {
    return error_of([&] { parse(bytes); });
}

TEST(TorchFile, EveryFeatureOfRealFilesInEveryProtocol) {
    const auto expected = open_weight_file(data_file("torch.safetensors"));
    for (const char* name : {"torch-2.pt", "torch-4.pt", "torch-5.pt"}) {
        SCOPED_TRACE(name);
        const auto file = open_weight_file(data_file(name));
        EXPECT_EQ(file->format(), "PyTorch file");
        for (const WeightTensor& wanted : expected->tensors()) {
            const WeightTensor* found = file->find(wanted.name);
            ASSERT_NE(found, nullptr) << wanted.name;
            EXPECT_EQ(found->type, wanted.type) << wanted.name;
            EXPECT_EQ(found->shape, wanted.shape) << wanted.name;
            EXPECT_EQ(Bytes(found->data, found->data + found->bytes), Bytes(wanted.data, wanted.data + wanted.bytes))
                << wanted.name;
        }
        for (const auto& [listed, type] :
             std::vector<std::pair<std::string, std::string>>{{"complex", "torch.complex64"},
                                                              {"float8", "torch.float8_e4m3fn"},
                                                              {"unsigned", "torch.uint16"},
                                                              {"negated", "torch.float32 with a lazy minus"}}) {
            ASSERT_NE(file->find(listed), nullptr) << listed;
            EXPECT_EQ(file->find(listed)->type, WeightType::unsupported);
            EXPECT_EQ(file->find(listed)->type_name, type);
        }
        EXPECT_EQ(file->tensors().size(), expected->tensors().size() + 4);
    }
}

TEST(TorchFile, OnlyValuesOutOfOrderAreCopied) {
    const Bytes bytes = read_bytes(data_file("torch-2.pt"));
    const WeightFileContents contents = parse(bytes);
    const auto is_copy = [&](const std::string& name) {
        for (const WeightTensor& tensor : contents.tensors)
            if (tensor.name == name) return tensor.data < bytes.data() || tensor.data >= bytes.data() + bytes.size();
        ADD_FAILURE() << name;
        return false;
    };
    for (const char* name : {"shared", "shared.again", "view.rows", "view.value", "odd_stride", "parameter"})
        EXPECT_FALSE(is_copy(name)) << name;
    for (const char* name : {"turned", "steps", "columns", "permuted", "channels_last", "repeated"})
        EXPECT_TRUE(is_copy(name)) << name;
    EXPECT_EQ(contents.copies.size(), 6U);
}

TEST(TorchFile, AnyFolderNameAndByteOrder) {
    const std::string pickle = "\x80\x02}" + text("w") + tensor(1, {2}, {1}) + "s.";
    const Bytes program(pickle.begin(), pickle.end()), storage(16, 3);
    for (const std::string& folder : {"archive/"s, ""s, "a b/"s}) {
        const WeightFileContents contents = parse(make_zip({{folder + "version", {'3', '\n'}},
                                                            {folder + "data.pkl", program},
                                                            {folder + "byteorder", {'l', 'i', 't', 't', 'l', 'e'}},
                                                            {folder + "data/0", storage},
                                                            {folder + ".data/serialization_id", {'0'}}}));
        ASSERT_EQ(contents.tensors.size(), 1U);
        EXPECT_EQ(contents.tensors[0].bytes, 8U);
    }
    expect_contains(
        refusal(make_zip({{"x/data.pkl", program}, {"x/byteorder", {'b', 'i', 'g'}}, {"x/data/0", storage}})),
        "big-endian");
    expect_contains(refusal(make_zip({{"x/data.pkl", program}, {"y/data/0", storage}})), "not in the archive");
    expect_contains(refusal(make_zip({{"x/data.pkl", program}, {"x/constants.pkl", {}}})), "TorchScript");
    expect_contains(refusal(make_zip({{"photo.jpg", storage}})), "without a data.pkl");
    expect_contains(refusal(make_zip({{"a/b/data.pkl", program}})), "without a data.pkl");
    expect_contains(refusal(archive(tensor(0, {2}, {1}), {.comment = "", .method = 8})), "is compressed or encrypted");
}

TEST(TorchFile, TensorsStayInsideTheirStorage) {
    EXPECT_EQ(parse(archive(tensor(0, {4}, {1}))).tensors.at(0).bytes, 16U);
    EXPECT_EQ(parse(archive(tensor(3, {1, 1}, {1000, 1000}))).tensors.at(0).bytes, 4U);
    EXPECT_EQ(parse(archive(tensor(1000, {0, 5}, {5, 1}))).tensors.at(0).bytes, 0U);
    EXPECT_EQ(parse(archive(tensor(0, {2}, {1}, "torch\nDoubleStorage\n"))).tensors.at(0).bytes, 16U);
    for (const std::string& bad :
         {tensor(0, {5}, {1}), tensor(1, {4}, {1}), tensor(4, {1}, {1}), tensor(0, {2, 2}, {3, 1}),
          tensor(INT64_MAX, {1}, {1}), tensor(INT64_MAX, {2, 2}, {INT64_MAX, INT64_MAX}),
          tensor(0, {2, 2}, {INT64_MAX, INT64_MAX}), tensor(0, {3}, {1}, "torch\nDoubleStorage\n")})
        expect_contains(refusal(archive(bad)), "reaches behind the 16 bytes of its storage");
    expect_contains(refusal(archive(tensor(0, {int64_t{1} << 40}, {0}))), "until it is larger than the file");
    expect_contains(refusal(archive(tensor(0, {int64_t{1} << 32, int64_t{1} << 30}, {0, 0}))), "larger than the file");
    expect_contains(refusal(archive(tensor(0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}))), "impossible shape");
    expect_contains(refusal(archive(tensor(0, {-1}, {1}))), "a size that is no number");
    expect_contains(refusal(archive(tensor(0, {1}, {-1}))), "a size that is no number");
    expect_contains(refusal(archive(tensor(-1, {1}, {1}))), "a size that is no number");
    expect_contains(refusal(archive(tensor(0, {1, 1}, {1}))), "has no shape");
    expect_contains(refusal(archive(tensor(0, {1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}))), "has 7 dimensions");
    expect_contains(refusal(archive(tensor(0, {1}, {1}, "torch\nSize\n"))), "has no type");
    expect_contains(refusal(archive(tensor(0, {1}, {1}, "torch.storage\nUntypedStorage\n"))), "has no type");
    expect_contains(refusal(archive(tensor(0, {1}, {1}, "torch\nFloatStorage\n", "../x"))), "not in the archive");
}

TEST(TorchFile, WhatIsNoStateDictIsRefused) {
    const auto whole = [](const std::string& pickle) {
        return refusal(make_zip({{"x/data.pkl", Bytes(pickle.begin(), pickle.end())}, {"x/data/0", Bytes(16)}}));
    };
    expect_contains(whole("N."), "without a state dict");
    expect_contains(whole("}."), "without a state dict");
    expect_contains(whole(tensor(0, {1}, {1}) + "."), "without a state dict");
    expect_contains(whole("}q\x01"s + text("model") + "h\x01s."), "without a state dict");  // holds itself
    expect_contains(refusal(archive("ctorch._utils\n_rebuild_tensor_v2\n)R")), "described by too few values");
    expect_contains(refusal(archive("ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR")), "has no storage");
    expect_contains(refusal(archive("ctorch._utils\n_rebuild_parameter\n)R")), "without a state dict");
    expect_contains(refusal(archive("cos\nsystem\n" + text("ls") + "\x85R")), "'os.system'");
}

TEST(TorchFile, TheLaterOfTwoEqualNamesStays) {
    const std::string pickle = "\x80\x02}(" + text("w") + tensor(0, {4}, {1}) + text("w") + tensor(0, {1}, {1}) + "u.";
    const Bytes bytes = make_zip({{"x/data.pkl", Bytes(pickle.begin(), pickle.end())}, {"x/data/0", Bytes(16)}});
    ASSERT_EQ(parse(bytes).tensors.size(), 1U);
    EXPECT_EQ(parse(bytes).tensors[0].bytes, 4U);
}

TEST(TorchFile, EveryCutAndEveryChangedByteIsASentenceOrAFile) {
    const Bytes bytes = read_bytes(data_file("torch-5.pt"));
    for (size_t size = 0; size < bytes.size(); size += 7)
        expect_contains(refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))), "file.pt");
    for (size_t i = 0; i < bytes.size(); i += 3) {
        Bytes changed = bytes;
        changed[i] ^= 0x55;
        try {
            parse(changed);
        } catch (const Error& error) {
            expect_contains(error.what(), "file.pt");
        }
    }
}

TEST(TorchFile, OldFilesAreNamed) {
    const TemporaryFolder folder;
    const auto found = [&](const std::string& content) {
        return error_of([&] { open_weight_file(folder.write("old.pth", content)); });
    };
    expect_contains(found("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."s),
                    "a PyTorch file in the form before version 1.6");
    expect_contains(found("\x80\x04\x95...."), "found a Python pickle (7 bytes): load it in PyTorch and save");
    expect_contains(found("PK\x03\x04"), "no directory at its end");
}

}  // namespace
}  // namespace sam3::test
