#include "weights/pickle.h"

#include "tests/weights/files.h"
#include "weights/torch_globals.h"

namespace sam3::test {
namespace {

using namespace std::string_literals;
using Kind = PickleValue::Kind;

Pickle parse(const std::string& bytes) {
    return parse_pickle(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), "file", is_torch_global);
}

std::string refusal(const std::string& bytes) {
    return error_of([&] { parse(bytes); });
}

int64_t integer(const std::string& bytes) {
    const Pickle pickle = parse(bytes);
    EXPECT_EQ(pickle.at(pickle.root).kind, Kind::integer);
    return pickle.at(pickle.root).integer;
}

TEST(Pickle, NumbersOfEveryWidth) {
    EXPECT_EQ(integer("\x80\x02K\xff."s), 255);
    EXPECT_EQ(integer("M\x01\xff."s), 65281);
    EXPECT_EQ(integer("J\xfe\xff\xff\xff."s), -2);
    EXPECT_EQ(integer("\x8a\x00."s), 0);
    EXPECT_EQ(integer("\x8a\x01\x80."s), -128);
    EXPECT_EQ(integer("\x8a\x05\x00\x00\x00\x00\x01."s), int64_t{1} << 32);
    EXPECT_EQ(integer("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."s), INT64_MAX);
    EXPECT_EQ(integer("\x8b\x02\x00\x00\x00\x00\x01."s), 256);
    EXPECT_EQ(integer("\x88."s), 1);
    EXPECT_EQ(integer("\x89."s), 0);
    const Pickle large = parse("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."s);
    EXPECT_EQ(large.at(large.root).kind, Kind::opaque);
}

TEST(Pickle, ContainersAndTheMemo) {
    // {'a': [(1,), 'a'], 2: None} with both ways to note and recall.
    const Pickle pickle = parse("\x80\x02}q\x00(X\x01\x00\x00\x00"s + "aq\x01](K\x01\x85h\x01" + "eK\x02Nu."s);
    const PickleValue& dict = pickle.at(pickle.root);
    ASSERT_EQ(dict.kind, Kind::dict);
    ASSERT_EQ(dict.items.size(), 4U);
    EXPECT_EQ(pickle.at(dict.items[0]).text, "a");
    const PickleValue& list = pickle.at(dict.items[1]);
    ASSERT_EQ(list.items.size(), 2U);
    EXPECT_EQ(pickle.at(pickle.at(list.items[0]).items.at(0)).integer, 1);
    EXPECT_EQ(list.items[1], dict.items[0]);
    EXPECT_EQ(pickle.at(dict.items[3]).kind, Kind::opaque);
    const Pickle framed = parse("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94j\x00\x00\x00\x00\x86."s);
    EXPECT_EQ(framed.at(framed.at(framed.root).items.at(1)).text, "hi");
}

TEST(Pickle, ADictMayHoldItself) {
    const Pickle pickle = parse("}q\x00X\x04\x00\x00\x00selfh\x00s."s);
    EXPECT_EQ(pickle.at(pickle.root).items.at(1), pickle.root);
}

TEST(Pickle, CallsAreNotedNotMade) {
    const Pickle pickle = parse(
        "\x8c\x05torch\x8c\x06"
        "device\x93\x8c\x03"
        "cpu\x85R."s);
    const PickleValue& call = pickle.at(pickle.root);
    ASSERT_EQ(call.kind, Kind::call);
    EXPECT_EQ(pickle.at(call.items.at(0)).text, "torch.device");
    EXPECT_EQ(pickle.at(pickle.at(call.items.at(1)).items.at(0)).text, "cpu");
    const Pickle ordered = parse("ccollections\nOrderedDict\n)R(K\x01K\x02u}b."s);
    EXPECT_EQ(ordered.at(ordered.root).kind, Kind::dict);
    EXPECT_EQ(ordered.at(ordered.root).items.size(), 2U);
}

TEST(Pickle, OtherPythonObjectsAreRefusedByName) {
    expect_contains(refusal("cos\nsystem\nX\x02\x00\x00\x00ls\x85R."s), "asks for the Python object 'os.system'");
    expect_contains(refusal("cos\nsystem\n."s), "nothing was run");
    expect_contains(refusal("\x8c\x05posix\x8c\x06system\x93."s), "'posix.system'");
    expect_contains(refusal("cbuiltins\neval\n."s), "'builtins.eval'");
    expect_contains(refusal("ctorch.storage\n_load_from_bytes\n."s), "'torch.storage._load_from_bytes'");
    expect_contains(refusal("ctorch\nload\n."s), "'torch.load'");
    expect_contains(refusal("ctorch.\n.FloatStorage\n."s), "'torch...FloatStorage'");
    expect_contains(refusal("c\n\n."s), "'.'");
    expect_contains(refusal("cnumpy\n\x1b[2J\n."s), "'numpy.?[2J'");
}

TEST(Pickle, UnknownInstructionsAreRefused) {
    // The ones that could reach further (INST, OBJ, EXT, PERSID, buffers) and those of protocol 0.
    for (const char code : "iop\x82\x83\x84\x97\x98PILSTUVdFglD20\xff"s)
        expect_contains(refusal(std::string("NNN") + code + std::string(40, '\0') + "."),
                        str("the instruction ", int{static_cast<uint8_t>(code)}, " at byte 3"));
    expect_contains(refusal("\x80\x06N."s), "protocol 2 to 5, found 6");
    expect_contains(refusal("\x80\x01N."s), "found 1");
}

TEST(Pickle, DamageIsASentence) {
    expect_contains(refusal(""), "ends too early");
    expect_contains(refusal("N"), "ends too early");
    expect_contains(refusal("."), "takes from an empty stack at byte 0");
    expect_contains(refusal("(N."s.substr(0, 1) + "."), "takes from an empty stack");
    expect_contains(refusal("N(\x85."s), "takes from an empty stack");  // not below the mark
    expect_contains(refusal("Nt."), "a mark that was never set");
    expect_contains(refusal("Nh\x05."s), "recalls a value that was never noted");
    expect_contains(refusal("NK\x01"
                            "a."s),
                    "no list or dict");
    expect_contains(refusal("](K\x01u."s), "no list or dict");
    expect_contains(refusal("}(K\x01u."s), "a key without a value");
    expect_contains(refusal("](K\x01\x90."s), "no set");
    expect_contains(refusal("N)R."), "calls what cannot be called");
    expect_contains(refusal("ctorch\nSize\nNR."), "calls what cannot be called");
    expect_contains(refusal("N}b."), "sets the state of something that has none");
    expect_contains(refusal("K\x01K\x02\x93."s), "a global has no name");
    expect_contains(refusal("ctorch"), "a name has no end");
    expect_contains(refusal("c"s + std::string(5000, 'x') + "\ny\n."), "a name has no end");
    expect_contains(refusal("ccollections\nOrderedDict\n](K\x01K\x02"
                            "e\x85R."s),
                    "not built empty");
    expect_contains(refusal("X\xff\xff\xff\xffhi."s), "4294967295 bytes wanted");
    expect_contains(refusal("\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi."s), "18446744073709551615 bytes wanted");
    expect_contains(refusal("\x8b\xff\xff\xff\xff."s), "4294967295 bytes wanted");
}

TEST(Pickle, DepthAndNumbersAreLimited) {
    expect_contains(refusal(std::string(2000, '(')), "nested too deep");
    expect_contains(refusal(std::string(3 << 20, 'N') + "."), "more than 2097152 values");
    expect_contains(refusal(std::string(size_t{65} << 20, 'N')), "expected at most 67108864");
    // Deep nesting without marks is only a long list of values.
    std::string deep = ")";
    for (int i = 0; i < 500'000; ++i) deep += '\x85';
    EXPECT_EQ(parse(deep + ".").values.size(), 500'001U);
}

}  // namespace
}  // namespace sam3::test
