#include "text/tokenizer_files.h"

#include "util/error.h"

#include <zlib.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

namespace sam3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// CLIP trained more merges than it uses: 49,152 less 256 bytes and the two special tokens.
constexpr size_t kClipMerges = 49152 - 256 - 2;
// Far above any vocabulary of this kind; stops a wrong file or a gzip bomb.
constexpr size_t kLargestFile = size_t{64} << 20U;

std::string first_bytes(std::string_view bytes) {
    std::string out;
    for (const char c : bytes.substr(0, 24)) out += c >= 0x20 && c < 0x7F ? c : '.';
    return out;
}

std::string inflate_gzip(std::string_view bytes, const std::string& where) {
    z_stream stream{};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) fail("zlib could not start to read ", where);
    const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
    std::vector<Bytef> input(bytes.begin(), bytes.end());
    stream.next_in = input.data();
    stream.avail_in = static_cast<uInt>(input.size());
    std::string out;
    std::vector<Bytef> block(size_t{1} << 16U);
    int status = Z_OK;
    while (status == Z_OK) {
        stream.next_out = block.data();
        stream.avail_out = static_cast<uInt>(block.size());
        status = inflate(&stream, Z_NO_FLUSH);
        out.append(block.begin(), block.end() - stream.avail_out);
        if (out.size() > kLargestFile) fail(where, " unpacks to more than 64 MiB: it is not a tokenizer file");
    }
    if (status != Z_STREAM_END) {
        fail("expected a whole gzip file in ", where, ", found damage after ", out.size(),
             " unpacked bytes: fetch the file again");
    }
    return out;
}

bool is_gzip(std::string_view bytes) { return bytes.substr(0, 2) == "\x1f\x8b"; }

Json parse_json(std::string_view text, const std::string& where) {
    try {
        return Json::parse(text);
    } catch (const Json::exception&) {  // a syntax error, or a number beyond every range
        fail("expected JSON in ", where, ", found '", first_bytes(text), "': is the file complete?");
    }
}

// A value for a message. Nested ones are only named: writing them out would recurse as deep as the file likes.
std::string brief(const Json& value) { return value.is_structured() ? value.type_name() : value.dump().substr(0, 80); }

// Null when absent. By reference: copying a nested value recurses as well.
const Json& member(const Json& object, const char* key) {
    static const Json kNull;
    const auto found = object.find(key);
    return found != object.end() ? *found : kNull;
}

int32_t id_of(const Json& value, const std::string& token, const std::string& where) {
    if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<int32_t>::max()) {
        fail("expected a token id for '", token, "' in ", where, ", found ", brief(value));
    }
    return value.get<int32_t>();
}

ClipVocabulary::Ids vocabulary_of(const Json& object, const std::string& where) {
    if (!object.is_object())
        fail("expected a JSON object of tokens and ids in ", where, ", found ", object.type_name());
    ClipVocabulary::Ids vocabulary;
    vocabulary.reserve(object.size());
    for (const auto& [token, id] : object.items()) vocabulary[token] = id_of(id, token, where);
    return vocabulary;
}

// Merges are "a b" in older files and ["a", "b"] in newer ones.
std::vector<ClipVocabulary::Merge> merges_of(const Json& list, const std::string& where) {
    if (!list.is_array()) fail("expected a list of merges in ", where, ", found ", list.type_name());
    std::vector<ClipVocabulary::Merge> merges;
    merges.reserve(list.size());
    for (const Json& entry : list) {
        if (entry.is_string()) {
            merges.push_back(parse_merge(entry.get_ref<const std::string&>(), merges.size() + 1));
        } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
            merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
        } else {
            fail("expected two symbols in merge ", merges.size() + 1, " of ", where, ", found ", brief(entry));
        }
    }
    return merges;
}

// Lines behind an optional header; a trailing empty line is none.
std::vector<ClipVocabulary::Merge> merge_lines(std::string_view text, const std::string& where) {
    std::vector<ClipVocabulary::Merge> merges;
    bool first = true;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        const bool header = first && line.find("#version") != std::string_view::npos;
        first = false;
        if (header || line.empty()) continue;
        merges.push_back(parse_merge(line, merges.size() + 1));
        if (merges.size() == kClipMerges) break;
    }
    if (merges.empty()) fail("expected merges (lines of two symbols) in ", where, ", found none");
    return merges;
}

std::string read_file(const fs::path& path) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    std::ifstream file(path, std::ios::binary);
    if (error || !file) fail("could not open ", path.string(), ": ", error ? error.message() : "it cannot be read");
    if (size > kLargestFile) fail("expected a tokenizer file below 64 MiB, found ", size, " bytes in ", path.string());
    std::string bytes(static_cast<size_t>(size), '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(size));
    if (!file) fail("could not read ", path.string(), ": it ended before its ", size, " bytes");
    if (bytes.rfind("version https://git-lfs", 0) == 0) {
        fail("expected a tokenizer in ", path.string(), ", found a Git LFS pointer (", size,
             " bytes): run `git lfs pull`");
    }
    return is_gzip(bytes) ? inflate_gzip(bytes, path.string()) : bytes;
}

ClipVocabulary load_from_folder(const fs::path& folder) {
    if (fs::exists(folder / "tokenizer.json")) return load_clip_vocabulary((folder / "tokenizer.json").string());
    if (fs::exists(folder / "vocab.json")) return load_clip_vocabulary((folder / "vocab.json").string());
    fail("expected tokenizer.json, or vocab.json with merges.txt, in ", folder.string(), ", found neither");
}

ClipVocabulary load_with_partner(const fs::path& vocab, const fs::path& merges) {
    for (const fs::path& path : {vocab, merges}) {
        if (!fs::exists(path))
            fail("expected ", path.string(), " beside the other half of the tokenizer: it is missing");
    }
    return read_vocab_and_merges(read_file(vocab), read_file(merges), vocab.string());
}

}  // namespace

ClipVocabulary read_tokenizer_json(std::string_view json, const std::string& where) {
    const Json root = parse_json(json, where);
    const Json& model = member(root, "model");
    if (!model.is_object()) {
        fail("expected a Hugging Face tokenizer (an object with \"model\") in ", where, ", found none");
    }
    const Json& type_name = member(model, "type");
    const std::string type = type_name.is_string() ? type_name.get<std::string>() : "";
    const Json& suffix = member(model, "end_of_word_suffix");
    if ((type != "BPE" && !type.empty()) || suffix != "</w>") {
        fail("expected CLIP's tokenizer (type BPE, end_of_word_suffix </w>) in ", where, ", found type '", type,
             "' with suffix ", brief(suffix), ": it belongs to another kind of model");
    }
    auto vocabulary = vocabulary_of(member(model, "vocab"), where);
    if (const Json& added = member(root, "added_tokens"); added.is_array()) {
        for (const Json& token : added) {
            const Json& content = member(token, "content");
            if (!content.is_string()) continue;
            vocabulary[content.get<std::string>()] = id_of(member(token, "id"), content.get<std::string>(), where);
        }
    }
    return {std::move(vocabulary), merges_of(member(model, "merges"), where)};
}

ClipVocabulary read_vocab_and_merges(std::string_view vocab_json, std::string_view merges_text,
                                     const std::string& where) {
    return {vocabulary_of(parse_json(vocab_json, where), where), merge_lines(merges_text, where)};
}

ClipVocabulary read_merges(std::string_view bytes, const std::string& where) {
    if (is_gzip(bytes)) return ClipVocabulary::from_merges(merge_lines(inflate_gzip(bytes, where), where));
    return ClipVocabulary::from_merges(merge_lines(bytes, where));
}

ClipVocabulary load_clip_vocabulary(const std::string& path) {
    const fs::path file(path);
    if (!fs::exists(file)) fail("expected a tokenizer at ", path, ", found nothing there");
    if (fs::is_directory(file)) return load_from_folder(file);
    const std::string text = read_file(file);
    const size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string::npos || text[start] != '{') {
        const fs::path vocab = file.parent_path() / "vocab.json";
        if (file.filename() == "merges.txt" && fs::exists(vocab)) return load_with_partner(vocab, file);
        return read_merges(text, path);
    }
    const Json root = parse_json(text, path);
    if (member(root, "model").is_object()) return read_tokenizer_json(text, path);
    return load_with_partner(file, file.parent_path() / "merges.txt");
}

ClipTokenizer load_clip_tokenizer(const std::string& path) { return ClipTokenizer(load_clip_vocabulary(path)); }

}  // namespace sam3
