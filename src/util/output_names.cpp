#include "util/output_names.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace sam3 {

namespace {

constexpr size_t kLongestPart = 200;  // file systems take 255 bytes; endings of our own need room

std::vector<std::string> name_parts(std::string_view input) {
    std::vector<std::string> parts;
    while (!input.empty()) {
        const size_t end = std::min(input.find('/'), input.size());
        const std::string_view part = input.substr(0, end);
        if (!part.empty() && part != "." && part != "..") parts.emplace_back(part);
        input.remove_prefix(std::min(end + 1, input.size()));
    }
    return parts;
}

std::string safe_part(std::string part) {
    for (char& c : part) {
        const auto code = static_cast<unsigned char>(c);
        if (code < 32 || code == 127 || std::string_view("\\:*?\"<>|").find(c) != std::string_view::npos) c = '_';
    }
    if (part.size() > kLongestPart) {
        size_t end = kLongestPart;
        while (end > 0 && (static_cast<unsigned char>(part[end]) & 0xC0) == 0x80) --end;  // whole UTF-8 characters
        part.resize(end);
    }
    return part;
}

std::string join_parts(const std::vector<std::string>& parts, size_t first = 0) {
    std::string name;
    for (size_t i = first; i < parts.size(); ++i) {
        if (!name.empty()) name += '/';
        name += safe_part(parts[i]);
    }
    return name.empty() ? "unnamed" : name;
}

// "photo.tar.jpg" -> "photo.tar", ".jpg"; a leading dot begins a name, not an ending.
size_t ending_at(std::string_view last) {
    const size_t dot = last.rfind('.');
    return dot == std::string_view::npos || dot == 0 ? last.size() : dot;
}

void drop_ending(std::vector<std::string>& parts) {
    if (!parts.empty()) parts.back().resize(ending_at(parts.back()));
}

// How many leading folders all inputs share.
size_t shared_folders(const std::vector<std::vector<std::string>>& inputs) {
    if (inputs.empty() || inputs[0].empty()) return 0;
    size_t shared = inputs[0].size() - 1;
    for (const auto& parts : inputs) {
        const size_t folders = parts.empty() ? 0 : parts.size() - 1;
        shared = std::min(shared, folders);
        shared = static_cast<size_t>(
            std::mismatch(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(shared), inputs[0].begin()).first -
            parts.begin());
    }
    return shared;
}

}  // namespace

std::string safe_output_name(std::string_view input) { return join_parts(name_parts(input)); }

std::string output_stem(std::string_view input) {
    std::vector<std::string> parts = name_parts(input);
    drop_ending(parts);
    return join_parts(parts);
}

std::vector<std::string> output_stems(std::span<const std::string> inputs) {
    std::vector<std::vector<std::string>> all;
    for (const std::string& input : inputs) all.push_back(name_parts(input));
    const size_t shared = shared_folders(all);
    std::vector<std::string> stems, with_ending;
    std::map<std::string, size_t> count;
    for (std::vector<std::string>& parts : all) {
        std::vector<std::string> full = parts;
        drop_ending(parts);
        stems.push_back(join_parts(parts, shared));
        if (!full.empty()) {
            const size_t dot = ending_at(full.back());
            if (dot < full.back().size()) full.back()[dot] = '_';
        }
        with_ending.push_back(join_parts(full, shared));
        ++count[stems.back()];
    }
    std::set<std::string> taken;
    for (size_t i = 0; i < stems.size(); ++i) {
        if (count[stems[i]] > 1) stems[i] = with_ending[i];
        const std::string wanted = stems[i];
        for (int number = 2; !taken.insert(stems[i]).second; ++number) stems[i] = wanted + "_" + std::to_string(number);
    }
    return stems;
}

std::string shared_folder(std::span<const std::string> inputs) {
    if (inputs.empty()) return "";
    std::string folder = inputs[0].substr(0, inputs[0].rfind('/') + 1);  // with its slash
    for (const std::string& input : inputs)
        while (!input.starts_with(folder)) {
            folder.pop_back();
            folder.resize(folder.rfind('/') + 1);
        }
    return folder;
}

std::string name_in_folder(const std::string& name, const std::string& folder) {
    return name.starts_with(folder) ? name.substr(folder.size()) : name;
}

std::string frame_stem(std::string_view clip, int64_t frame) {
    char number[32];
    std::snprintf(number, sizeof number, "%05lld", static_cast<long long>(frame));
    return clip.empty() ? std::string(number) : safe_output_name(clip) + "/" + number;
}

}  // namespace sam3
