#include "model_pull.h"

#include "command.h"
#include "download.h"
#include "interrupt.h"
#include "model_store.h"
#include "status.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"
#include "values.h"

#include <fnmatch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct RemoteFile {
    std::string path;
    uint64_t bytes = 0;
    std::string sha256, git_sha1;  // one of them
};

// Letters, digits and what file names have: everything else as %XX. Slashes stay.
std::string url_path(const std::string& text) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view("-._~/").find(c) != std::string_view::npos;
        if (plain)
            out += c;
        else
            out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
    return out;
}

bool is_safe(const std::string& path) {
    if (path.empty() || path.find('\\') != std::string::npos || path.find('\0') != std::string::npos) return false;
    const fs::path relative(path);
    return !relative.is_absolute() && std::none_of(relative.begin(), relative.end(), [](const fs::path& part) {
        return part == ".." || part == "." || part.empty();
    });
}

class Puller {
public:
    explicit Puller(const PullOptions& options) : options_(options), token_(environment("HF_TOKEN")) {
        endpoint_ = !options.endpoint.empty() ? options.endpoint : environment("HF_ENDPOINT");
        if (endpoint_.empty()) endpoint_ = "https://huggingface.co";
        while (endpoint_.ends_with('/')) endpoint_.pop_back();
        if (std::count(options.repository.begin(), options.repository.end(), '/') != 1 || !is_safe(options.repository))
            throw UsageError("expected a repository as ORGANISATION/NAME, such as facebook/sam3, found '" +
                             printable(options.repository) + "'");
        folder_ = options.output.empty() ? fs::path(models_folder()) / options.repository : fs::path(options.output);
    }

    void run() {
        const std::vector<RemoteFile> files = chosen(listing());
        uint64_t total = 0;
        for (const RemoteFile& file : files) total += file.bytes;
        if (options_.dry_run) {
            for (const RemoteFile& file : files)
                std::cout << pretty_size(file.bytes) << "  " << printable(file.path) << "\n";
            std::cout << files.size() << " files, " << pretty_size(total) << ", into " << folder_.string() << "\n";
            return;
        }
        make_folder(folder_.string());
        check_room(files);
        catch_interrupts();
        for (const RemoteFile& file : files) fetch(file);
        write_checksums(files);
        if (!options_.quiet) std::cout << folder_.string() << "\n";
    }

private:
    std::vector<RemoteFile> listing() const {
        const std::string url = endpoint_ + "/api/models/" + url_path(options_.repository) + "/tree/" +
                                url_path(options_.revision) + "?recursive=true";
        std::vector<RemoteFile> files;
        try {
            for (const Json& item : Json::parse(fetch_text({url, token_}))) {
                if (item.at("type") != "file") continue;
                RemoteFile file{item.at("path").get<std::string>(), item.at("size").get<uint64_t>(), "", ""};
                if (!is_safe(file.path))
                    fail(url, ": names a file that would leave its folder: ", printable(file.path));
                if (item.contains("lfs"))
                    file.sha256 = item["lfs"].at("oid").get<std::string>();
                else
                    file.git_sha1 = item.value("oid", "");
                files.push_back(std::move(file));
            }
        } catch (const Json::exception& error) {
            fail(url, ": expected a list of files as JSON (", error.what(), "); is this Hugging Face's interface?");
        }
        return files;
    }

    static bool matches(const std::string& pattern, const std::string& path) {
        return ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
    }

    std::vector<RemoteFile> chosen(const std::vector<RemoteFile>& all) const {
        std::vector<RemoteFile> files;
        for (const std::string& pattern : options_.files) {
            const size_t before = files.size();
            for (const RemoteFile& file : all)
                if (matches(pattern, file.path)) files.push_back(file);
            if (files.size() == before)
                fail(options_.repository, " has no file '", printable(pattern), "'; it has ", names_of(all));
        }
        if (!options_.files.empty()) return files;
        // Safetensors where there are some, else whatever holds weights; with the small files beside them.
        const auto has = [&](const char* pattern) {
            return std::any_of(all.begin(), all.end(), [&](const RemoteFile& f) { return matches(pattern, f.path); });
        };
        const std::string weights = has("*.safetensors") ? "*.safetensors"
                                    : has("*.gguf")      ? "*.gguf"
                                    : has("*.pt")        ? "*.pt"
                                                         : "*.bin";
        for (const RemoteFile& file : all) {
            const bool small = matches("*.json", file.path) || matches("*.txt", file.path);
            if (file.path.find('/') == std::string::npos && (small || matches(weights, file.path)))
                files.push_back(file);
        }
        if (files.empty()) fail(options_.repository, " has no weights; it has ", names_of(all));
        return files;
    }

    static std::string names_of(const std::vector<RemoteFile>& files) {
        constexpr size_t kMost = 20;
        std::string names;
        for (size_t i = 0; i < std::min(files.size(), kMost); ++i)
            names += (i > 0 ? ", " : "") + printable(files[i].path);
        return files.empty() ? "no files" : files.size() > kMost ? names + ", ..." : names;
    }

    void check_room(const std::vector<RemoteFile>& files) const {
        uint64_t needed = 0;
        std::error_code error;
        for (const RemoteFile& file : files) {
            const std::string path = (folder_ / file.path).string();
            const auto there = [&](const std::string& name) {
                const uint64_t bytes = fs::file_size(name, error);
                return error ? 0 : bytes;
            };
            needed += file.bytes - std::min(file.bytes, std::max(there(path), there(path + ".part")));
        }
        const uint64_t room = fs::space(folder_, error).available;
        if (!error && room < needed)
            fail(folder_.string(), ": the download needs ", pretty_size(needed), ", but only ", pretty_size(room),
                 " are free");
    }

    void fetch(const RemoteFile& file) const {
        const fs::path path = folder_ / file.path;
        std::error_code error;
        if (fs::file_size(path, error) == file.bytes && !error) return;  // `sam3 models verify` looks inside
        make_folder_of(path.string());
        Status status(options_.quiet);
        const auto begin = std::chrono::steady_clock::now();
        uint64_t first = 0;
        const auto show = [&](uint64_t done) {
            if (first == 0) first = done;
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            const auto rate = static_cast<uint64_t>(static_cast<double>(done - first) / std::max(seconds, 0.1));
            status.show(str(file.path, ": ", pretty_size(done), " of ", pretty_size(file.bytes), ", ",
                            pretty_size(rate), "/s"));
        };
        const std::string url = endpoint_ + "/" + url_path(options_.repository) + "/resolve/" +
                                url_path(options_.revision) + "/" + url_path(file.path);
        fetch_file({{url, token_}, path.string(), file.bytes, file.sha256, file.git_sha1, show});
        status.clear();
        if (!options_.quiet)
            std::cerr << "sam3: fetched " << printable(file.path) << " (" << pretty_size(file.bytes) << ")\n";
    }

    void write_checksums(const std::vector<RemoteFile>& files) const {
        Json list = Json::object();
        const std::string path = (folder_ / kChecksumsFile).string();
        if (std::ifstream earlier(path); earlier) {
            list = Json::parse(earlier, nullptr, false);
            if (!list.is_object()) list = Json::object();
        }
        list["repository"] = options_.repository;
        list["revision"] = options_.revision;
        for (const RemoteFile& file : files) {
            Json& item = list["files"][file.path] = {{"bytes", file.bytes}};
            if (!file.sha256.empty()) item["sha256"] = file.sha256;
            if (!file.git_sha1.empty()) item["git_sha1"] = file.git_sha1;
        }
        write_file_atomically(path, list.dump(2) + "\n");
    }

    const PullOptions& options_;
    std::string endpoint_, token_;
    fs::path folder_;
};

}  // namespace

void pull_model(const PullOptions& options) { Puller(options).run(); }

}  // namespace sam3::cli
