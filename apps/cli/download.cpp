#include "download.h"

#include "interrupt.h"
#include "media/image_io.h"
#include "util/error.h"
#include "util/sha1.h"
#include "util/sha256.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#ifdef SAM3_HAVE_CURL
#include <curl/curl.h>
#endif

namespace sam3::cli {

#ifndef SAM3_HAVE_CURL

bool can_download() { return false; }
std::string fetch_text(const Request& /*request*/) {
    fail("this build cannot fetch files: libcurl was not there when it was configured (Debian: libcurl4-openssl-dev)");
}
void fetch_file(const FileRequest& request) { fetch_text(request.request); }

#else

namespace {

namespace fs = std::filesystem;

struct CloseHandle {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One transfer; the bytes of a successful answer go to `sink`.
class Transfer {
public:
    explicit Transfer(const Request& request) : url_(request.url), handle_(curl_easy_init()) {
        if (!handle_) fail("out of memory while preparing a download");
        set(CURLOPT_URL, url_.c_str());
        set(CURLOPT_FOLLOWLOCATION, 1L);
        set(CURLOPT_MAXREDIRS, 10L);
        set(CURLOPT_PROTOCOLS_STR, "http,https");
        set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
        set(CURLOPT_USERAGENT, "sam3.cpp");
        set(CURLOPT_CONNECTTIMEOUT, 30L);
        set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // nothing for a minute: the connection is dead
        set(CURLOPT_LOW_SPEED_TIME, 60L);
        set(CURLOPT_ERRORBUFFER, message_.data());
        set(CURLOPT_NOSIGNAL, 1L);
        if (!request.token.empty()) {
            // libcurl keeps a bearer token from other hosts unless told otherwise.
            set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
            set(CURLOPT_XOAUTH2_BEARER, request.token.c_str());
        }
    }

    template <typename Value>
    void set(CURLoption option, Value value) {
        if (curl_easy_setopt(handle_.get(), option, value) != CURLE_OK) fail("libcurl refuses an option");
    }

    // Gives the status; fails with a sentence when there is no answer.
    long run(const std::function<bool(const char*, size_t)>& sink) {
        sink_ = &sink;
        set(CURLOPT_WRITEFUNCTION, &Transfer::on_bytes);
        set(CURLOPT_WRITEDATA, this);
        const CURLcode code = curl_easy_perform(handle_.get());
        if (code == CURLE_WRITE_ERROR && interrupted()) fail("stopped; the same command goes on where it was");
        if (code != CURLE_OK)
            fail(url_, ": the transfer failed (", message_[0] != '\0' ? message_.data() : curl_easy_strerror(code),
                 "); check the network, then the same command goes on where it was");
        return status();
    }
    long status() const {
        long status = 0;
        curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
        return status;
    }

private:
    static size_t on_bytes(char* bytes, size_t size, size_t count, void* self) {
        auto* transfer = static_cast<Transfer*>(self);
        const long status = transfer->status();
        if (status >= 300) return size * count;  // an error's page is not the file
        return !interrupted() && (*transfer->sink_)(bytes, size * count) ? size * count : 0;
    }

    std::string url_;
    std::unique_ptr<CURL, CloseHandle> handle_;
    std::array<char, CURL_ERROR_SIZE> message_{};
    const std::function<bool(const char*, size_t)>* sink_ = nullptr;
};

[[noreturn]] void refuse(const std::string& url, long status) {
    if (status == 401 || status == 403)
        fail(url, ": the server wants to know who asks (", status,
             "): accept the model's licence on its page, then set HF_TOKEN to a token of your account");
    if (status == 404) fail(url, ": there is no such repository, revision or file (404)");
    fail(url, ": expected the file, found an answer with status ", status);
}

// What came of the file so far, and its hash.
struct Partial {
    std::ofstream file;
    Sha256 hash;
    uint64_t bytes = 0;
};

void read_earlier(Partial& partial, const std::string& path) {
    std::ifstream earlier(path, std::ios::binary);
    std::array<char, 65536> buffer{};
    while (earlier.read(buffer.data(), buffer.size()) || earlier.gcount() > 0) {
        partial.hash.add(buffer.data(), static_cast<size_t>(earlier.gcount()));
        partial.bytes += static_cast<uint64_t>(earlier.gcount());
    }
}

void check_sums(const FileRequest& request, Partial& partial, const std::string& part) {
    std::string expected = request.sha256, found;
    if (!expected.empty()) {
        found = partial.hash.hex();
    } else if (!request.git_sha1.empty()) {
        expected = request.git_sha1;
        std::string content = partial.bytes == 0 ? "" : [&] {
            const std::vector<uint8_t> bytes = read_file(part);
            return std::string(bytes.begin(), bytes.end());
        }();
        found = sha1_hex(str("blob ", content.size()) + '\0' + content);
    }
    if (found == expected) return;
    fs::remove(part);
    fail(request.path, ": the file that came is damaged (checksum ", found, ", expected ", expected,
         "); it was removed, try again");
}

void transfer_rest(const FileRequest& request, Partial& partial, const std::string& part) {
    Transfer transfer(request.request);
    if (partial.bytes > 0) transfer.set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(partial.bytes));
    const bool resumes = partial.bytes > 0;
    partial.file.open(part, std::ios::binary | std::ios::app);
    bool too_long = false;
    const auto sink = [&](const char* bytes, size_t count) {
        // A server that does not know ranges begins again with the first byte.
        if (resumes && transfer.status() == 200) return false;
        too_long = partial.bytes + count > request.bytes;
        if (too_long) return false;
        partial.file.write(bytes, static_cast<std::streamsize>(count));
        partial.hash.add(bytes, count);
        partial.bytes += count;
        if (request.on_progress) request.on_progress(partial.bytes);
        return partial.file.good();
    };
    long status = 0;
    try {
        status = transfer.run(sink);
    } catch (const Error&) {
        partial.file.close();
        if (too_long) {
            fs::remove(part);
            fail(request.path, ": the server sends more than the ", request.bytes, " bytes that it announced");
        }
        if (!interrupted() && resumes && transfer.status() == 200) {
            fs::remove(part);
            return fetch_file(request);
        }
        throw;
    }
    partial.file.close();
    if (status >= 300) refuse(request.request.url, status);
    if (!partial.file) fail(part, ": writing failed; is the disk full?");
    if (partial.bytes != request.bytes)
        fail(request.path, ": expected ", request.bytes, " bytes, found ", partial.bytes,
             "; the same command goes on where it was");
}

}  // namespace

bool can_download() { return true; }

std::string fetch_text(const Request& request) {
    constexpr size_t kMost = size_t{64} << 20;
    std::string text;
    Transfer transfer(request);
    const long status = transfer.run([&](const char* bytes, size_t count) {
        text.append(bytes, count);
        return text.size() <= kMost;
    });
    if (status >= 300) refuse(request.url, status);
    return text;
}

void fetch_file(const FileRequest& request) {
    const std::string part = request.path + ".part";
    Partial partial;
    read_earlier(partial, part);
    if (partial.bytes > request.bytes) {
        fs::remove(part);
        partial = {};
    }
    if (partial.bytes < request.bytes || request.bytes == 0) transfer_rest(request, partial, part);
    if (!fs::exists(part)) return;  // it was fetched from the start, by another call
    check_sums(request, partial, part);
    fs::rename(part, request.path);
}

#endif

}  // namespace sam3::cli
