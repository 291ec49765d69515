#pragma once

#include <cstdint>
#include <functional>
#include <string>

// Files from the network. Only `sam3 models pull` uses this.
namespace sam3::cli {

bool can_download();  // false: this build has no libcurl, and the others fail with a sentence

struct Request {
    std::string url;
    std::string token{};  // sent to the host of `url` only, not to where it redirects
};

// A small answer as text. Fails with a sentence for anything but success.
std::string fetch_text(const Request& request);

struct FileRequest {
    Request request;
    std::string path;    // gets its name when the file is whole; until then PATH.part, which a later call goes on with
    uint64_t bytes = 0;  // expected
    std::string sha256{};    // expected; empty: not known
    std::string git_sha1{};  // as git names a file's content; empty: not known
    std::function<void(uint64_t done)> on_progress{};
};

// Fails with a sentence when the transfer breaks off (what came stays for the next try) or the checksum differs (then
// nothing stays).
void fetch_file(const FileRequest& request);

}  // namespace sam3::cli
