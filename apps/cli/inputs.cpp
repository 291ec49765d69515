#include "inputs.h"

#include "media/image_io.h"
#include "media/image_names.h"
#include "media/video_reader.h"
#include "util/error.h"
#include "util/output_names.h"
#include "util/utf8.h"
#include "values.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <set>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> matches(const std::string& pattern) {
    glob_t found{};
    const int code = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
    std::vector<std::string> paths;
    if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (code == GLOB_NOMATCH) fail(pattern, ": no file matches this pattern");
    if (code != 0) fail(pattern, ": a folder of this pattern cannot be read; check its permissions");
    return paths;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
    const fs::path relative = path.lexically_relative(folder);
    return !relative.empty() && *relative.begin() != "..";
}

// An overlay that an earlier run put beside its picture.
bool is_own_overlay(const std::string& name, const std::set<std::string>& names) {
    constexpr std::string_view kEnding = "_overlay.png";
    if (!name.ends_with(kEnding)) return false;
    const std::string stem = name.substr(0, name.size() - kEnding.size());
    const auto next = names.lower_bound(stem + ".");
    if (names.count(stem) != 0) return true;  // a.jpg_overlay.png, where a.png has an overlay too
    return next != names.end() && next->starts_with(stem + ".");
}

std::vector<uint8_t> read_stdin() {
    std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    if (bytes.size() > kMaxFileBytes) fail("stdin: expected at most ", kMaxFileBytes >> 20, " MiB, found more");
    return bytes;
}

class Lister {
public:
    explicit Lister(const InputOptions& options) : options_(options) {
        if (!options.output.empty()) output_ = fs::weakly_canonical(options.output);
    }

    void add(const std::string& given) {
        if (given == "-") return add_stdin();
        if (is_camera(given)) return add_file(given);
        std::error_code error;
        const fs::file_status status = fs::status(given, error);
        if (fs::is_directory(status)) return add_folder(given);
        if (!fs::exists(status) && given.find_first_of("*?[") != std::string::npos) {
            for (const std::string& path : matches(given))
                if (!fs::is_directory(path)) add_file(path);
            return;
        }
        add_file(given);
    }

    std::vector<Input> take() {
        std::sort(inputs_.begin(), inputs_.end(),
                  [](const Input& a, const Input& b) { return natural_less(a.name, b.name); });
        const auto same = [](const Input& a, const Input& b) { return a.name == b.name; };
        inputs_.erase(std::unique(inputs_.begin(), inputs_.end(), same), inputs_.end());
        return std::move(inputs_);
    }

private:
    void add_file(const std::string& path) { inputs_.push_back({.name = utf8_name(path), .path = path}); }

    void add_folder(const std::string& folder) {
        const std::vector<std::string> names = image_names(folder, options_.recursive);
        const std::set<std::string> all(names.begin(), names.end());
        const fs::path root = fs::weakly_canonical(folder);
        for (const std::string& name : names)
            if (!is_own_overlay(name, all) && (output_.empty() || !is_inside(root / name, output_) || root == output_))
                add_file((fs::path(folder) / name).string());
    }

    // Paths, one a line or, as `find -print0` gives them, with a zero byte after each; or a picture itself.
    void add_stdin() {
        const std::vector<uint8_t> bytes = read_stdin();
        if (describe_content(bytes).ends_with("image")) {
            inputs_.push_back({.name = "stdin", .image = std::make_shared<Image>(decode_image(bytes, "stdin"))});
            return;
        }
        const bool zeros = std::find(bytes.begin(), bytes.end(), 0) != bytes.end();
        std::string path;
        size_t count = 0;
        const auto flush = [&] {
            if (!zeros && path.ends_with('\r')) path.pop_back();
            if (!path.empty()) {
                add_file(path);
                ++count;
            }
            path.clear();
        };
        const char end = zeros ? '\0' : '\n';
        for (const uint8_t byte : bytes)
            if (static_cast<char>(byte) == end)
                flush();
            else
                path += static_cast<char>(byte);
        flush();
        if (count == 0) fail("stdin: expected paths of images, or an image, found nothing");
    }

    const InputOptions& options_;
    fs::path output_;
    std::vector<Input> inputs_;
};

}  // namespace

std::string utf8_name(const std::string& name) {
    if (unicode::to_utf8(unicode::from_utf8(name)) == name) return name;
    std::string out;
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        std::array<char, 8> buffer{c};
        if (byte >= 0x80) std::snprintf(buffer.data(), buffer.size(), "\\x%02x", byte);
        out += buffer.data();
    }
    return out;
}

Image read_input(const Input& input) {
    if (input.image) return *input.image;
    if (is_camera(input.path)) return open_frames(input.path)->frame(0);
    try {
        return read_image(input.path);
    } catch (const Error& error) {
        const std::string text = error.what();
        if (text.ends_with("video")) fail(text, "; `sam3 track` follows objects through videos");
        throw;
    }
}

std::vector<Input> list_inputs(const InputOptions& options) {
    if (options.given.empty())
        throw UsageError("there is no input: give files, folders, patterns, or - for a list on stdin");
    Lister lister(options);
    for (const std::string& given : options.given) lister.add(given);
    return lister.take();
}

void name_results(std::vector<Input>& inputs) {
    std::vector<std::string> names;
    for (const Input& input : inputs) names.push_back(input.name);
    std::vector<std::string> stems = output_stems(names);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].stem = std::move(stems[i]);
}

}  // namespace sam3::cli
