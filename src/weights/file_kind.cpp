#include "weights/file_kind.h"

#include "util/error.h"
#include "weights/quote_name.h"
#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string_view>

namespace sam3 {

namespace {

using namespace std::string_view_literals;

struct Signature {
    std::string_view bytes;
    std::string_view found;
    std::string_view advice;
};

constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kNotYet = "this kind cannot be read yet; use the safetensors or GGUF version of the model";
constexpr std::string_view kSaveAgain = "load it in PyTorch and save the model's state_dict() with torch.save";

constexpr std::array kSignatures{
    Signature{"version https://git-lfs.github.com/spec/"sv, "a Git LFS pointer", "run `git lfs pull`"},
    Signature{"FUGG"sv, "a big-endian GGUF file", "convert it to little-endian"},
    Signature{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv,
              "a PyTorch file in the form before version 1.6", kSaveAgain},
    Signature{"\x80\x02"sv, "a Python pickle", kSaveAgain},
    Signature{"\x80\x03"sv, "a Python pickle", kSaveAgain},
    Signature{"\x80\x04"sv, "a Python pickle", kSaveAgain},
    Signature{"\x80\x05"sv, "a Python pickle", kSaveAgain},
    Signature{"2mas"sv, "a SAM 2 or EdgeTAM .ggml file", kNotYet},
    Signature{"lmgg"sv, "a SAM 1 .ggml file", kNotYet},
    Signature{"SAM3"sv, "a .sam3 file", kNotYet},
    Signature{"\x1f\x8b"sv, "a gzip archive", kUnpack},
    Signature{"\x28\xb5\x2f\xfd"sv, "a zstd archive", kUnpack},
    Signature{"\xfd"
              "7zXZ"sv,
              "an xz archive", kUnpack},
    Signature{"BZh"sv, "a bzip2 archive", kUnpack},
    Signature{"7z\xbc\xaf\x27\x1c"sv, "a 7-zip archive", kUnpack},
    Signature{"\x7f"
              "ELF"sv,
              "a program or library", "check the path"},
};

std::string_view skip_space(std::string_view text) {
    if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
    return text;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
    if (text.size() < prefix.size()) return false;
    return std::equal(prefix.begin(), prefix.end(), text.begin(),
                      [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

std::string sentence(const std::string& path, size_t size, std::string_view found, std::string_view advice) {
    return str(path, ": expected PyTorch, safetensors, GGUF or SAM 3 .ggml weights, found ", found, " (", size,
               " bytes): ", advice);
}

}  // namespace

FileKind identify_weights(const uint8_t* data, size_t size) {
    const auto starts_with = [&](std::string_view bytes) {
        return size >= bytes.size() && std::memcmp(data, bytes.data(), bytes.size()) == 0;
    };
    if (starts_with("GGUF")) return FileKind::gguf;
    if (starts_with("3mas")) return FileKind::ggml;
    // Before the zip archive: the length of a safetensors header may be any number, that of a zip signature as well.
    uint64_t header = 0;
    if (size >= sizeof header) std::memcpy(&header, data, sizeof header);
    if (size > sizeof header && data[8] == '{' && header <= kMaxSafetensorsHeader) return FileKind::safetensors;
    return starts_with("PK\x03\x04") ? FileKind::torch : FileKind::other;
}

std::string describe_foreign_file(const uint8_t* data, size_t size, const std::string& path) {
    const std::string_view start(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
    for (const Signature& signature : kSignatures)
        if (start.substr(0, signature.bytes.size()) == signature.bytes)
            return sentence(path, size, signature.found, signature.advice);
    if (start.size() > 262 && start.substr(257, 5) == "ustar") return sentence(path, size, "a tar archive", kUnpack);

    const std::string_view text = skip_space(start);
    for (std::string_view prefix : {"<!doctype html"sv, "<html"sv, "<head"sv})
        if (starts_with_ignoring_case(text, prefix))
            return sentence(path, size, "an HTML page",
                            "the download failed, perhaps because it needs a login; download it again");
    if (starts_with_ignoring_case(text, "<?xml"))
        return sentence(path, size, "an XML page", "the download failed; download it again");
    if (!text.empty() && (text.front() == '{' || text.front() == '[')) {
        if (start.find("\"weight_map\"") != start.npos || start.find("\"metadata\"") != start.npos)
            return sentence(path, size, "the index of a sharded model (JSON)", "give the folder that it lies in");
        return sentence(path, size, "a JSON text", "give the folder that it lies in, or the weights themselves");
    }
    if (std::all_of(start.begin(), start.end(), [](char c) { return c == '\0'; }))
        return sentence(path, size, "only zero bytes at its start", "the download was interrupted; download it again");
    if (std::all_of(start.begin(), start.end(), [](char c) {
            const auto byte = static_cast<unsigned char>(c);
            return byte == '\t' || byte == '\n' || byte == '\r' || (byte >= 0x20 && byte != 0x7f);
        }))
        return sentence(path, size, str("a text that begins ", quote_name(start.substr(0, 40))), "check the path");
    return sentence(path, size, "a file of an unknown kind", "check the path and that the download is complete");
}

}  // namespace sam3
