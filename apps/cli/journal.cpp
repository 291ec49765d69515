#include "journal.h"

#include "util/error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace sam3::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr auto kSyncEvery = std::chrono::seconds(1);

std::string to_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

JournalHeader header_from(const Json& json) {
    if (json.at("journal").get<int>() != kVersion)
        fail("expected a journal of version ", kVersion, ", found ", json.at("journal").dump());
    JournalHeader header;
    header.settings = json.at("settings");
    header.model = json.at("model");
    header.inputs = json.at("inputs").at("count").get<uint64_t>();
    header.names = json.at("inputs").at("names").get<std::string>();
    if (json.contains("shard")) header.shard = parse_shard(json["shard"].get<std::string>());
    return header;
}

void add_entry(const Json& json, JournalEntry entry, JournalContents& contents) {
    const std::string input = json.at("input").get<std::string>();
    if (json.contains("error")) {
        entry.error = json["error"].get<std::string>();
    } else {
        entry.stem = json.at("stem").get<std::string>();
        entry.files = json.at("files").get<std::vector<std::string>>();
        json.at("image");
    }
    contents.entries[input] = std::move(entry);
}

void add_line(const std::string& line, JournalEntry place, JournalContents& contents) {
    const Json json = Json::parse(line);
    if (json.contains("journal"))
        contents.header = header_from(json);
    else
        add_entry(json, std::move(place), contents);
}

}  // namespace

std::string journal_name(const Shard& shard) {
    return shard.whole() ? "journal.jsonl" : str("journal-", shard.index + 1, "-of-", shard.count, ".jsonl");
}

std::string JournalHeader::line() const {
    Json json = {{"journal", kVersion}, {"settings", settings}, {"model", model}};
    json["inputs"] = {{"count", inputs}, {"names", names}};
    if (!shard.whole()) json["shard"] = shard.text();
    return to_line(json);
}

JournalContents read_journal(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(path, ": the journal cannot be opened; check the path and its permissions");
    JournalContents contents;
    std::string line;
    for (uint64_t number = 1; std::getline(file, line); ++number) {
        if (file.eof()) break;  // no end of line: cut off while it was written
        try {
            add_line(line, {.journal = path, .offset = contents.whole_bytes, .length = line.size()}, contents);
        } catch (const std::exception& error) {
            if (file.peek() == std::ifstream::traits_type::eof() && number > 1) break;  // nothing stands behind it
            fail(path, ": line ", number, " is not of a journal (", error.what(),
                 "); start again with --overwrite, or remove the line");
        }
        contents.whole_bytes += line.size() + 1;
    }
    if (file.bad()) fail(path, ": reading the journal failed");
    return contents;
}

std::string read_line(const JournalEntry& entry) {
    std::ifstream file(entry.journal, std::ios::binary);
    std::string line(entry.length, '\0');
    file.seekg(static_cast<std::streamoff>(entry.offset));
    file.read(line.data(), static_cast<std::streamsize>(line.size()));
    if (!file) fail(entry.journal, ": reading the journal failed; was it changed?");
    return line;
}

JournalWriter::JournalWriter(std::string path, const JournalHeader& header, uint64_t keep_bytes)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail(path_, ": the journal cannot be written (", std::strerror(errno), ")");
    // Some network file systems have no locks: then there is no protection, and no failure either.
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        fail(path_, ": another run is writing this journal; wait for it, or write into another folder");
    if (::ftruncate(file_, static_cast<off_t>(keep_bytes)) != 0 || ::lseek(file_, 0, SEEK_END) < 0)
        fail(path_, ": the journal cannot be written (", std::strerror(errno), ")");
    if (keep_bytes == 0) add_header(header);
}

JournalWriter::~JournalWriter() {
    if (file_ >= 0) ::close(file_);
}

void JournalWriter::add_header(const JournalHeader& header) {
    append(header.line());
    sync();
}

void JournalWriter::add_done(const std::string& input, const std::string& stem, const std::vector<std::string>& files,
                             const std::string& record) {
    std::string line = to_line({{"input", input}, {"stem", stem}, {"files", files}});
    line.resize(line.size() - 2);           // "}\n"
    append(line + "," + record.substr(1));  // the record is "{...}\n"
}

void JournalWriter::add_error(const std::string& input, const std::string& error) {
    append(to_line({{"input", input}, {"error", error}}));
}

void JournalWriter::add_line(const std::string& line) { append(line + "\n"); }

void JournalWriter::append(const std::string& line) {
    size_t written = 0;
    while (written < line.size()) {
        const ssize_t part = ::write(file_, line.data() + written, line.size() - written);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0)
            fail(path_, ": writing the journal failed (", std::strerror(errno),
                 "); make room, then the same command with --resume goes on");
        written += static_cast<size_t>(part);
    }
    dirty_ = true;
    if (std::chrono::steady_clock::now() - synced_ >= kSyncEvery) sync();
}

void JournalWriter::sync() {
    if (dirty_ && ::fdatasync(file_) != 0 && errno != EINVAL && errno != EROFS)
        fail(path_, ": the journal cannot be brought to the disk (", std::strerror(errno), ")");
    dirty_ = false;
    synced_ = std::chrono::steady_clock::now();
}

}  // namespace sam3::cli
