#pragma once

#include "shard.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

// The list of what a run has finished, kept in its output folder while it works:
//
//     {"journal":1,"settings":{...},"model":{...},"inputs":{"count":2,"names":"9f2a..."}}
//     {"input":"a.jpg","stem":"a","files":["a.json"],"image":{...},"prompts":[...],"detections":[...]}
//     {"input":"b.jpg","error":"b.jpg: the JPEG image is cut off"}
//
// A line is added when everything else about its input is on the disk; so a run that was killed at any moment can go on
// after the last whole line. The lines are native records (formats/segmentation.h) with some fields more.
namespace sam3::cli {

// journal.jsonl, or journal-2-of-8.jsonl for a shard.
std::string journal_name(const Shard& shard);

struct JournalHeader {
    nlohmann::ordered_json settings;  // whatever changes a result
    nlohmann::ordered_json model;     // which weights
    uint64_t inputs = 0;              // of all shards together
    std::string names;                // fingerprint of their list
    Shard shard;

    bool same_job(const JournalHeader& other) const { return settings == other.settings && model == other.model; }
    std::string line() const;
};

struct JournalEntry {
    std::string journal;  // path of the file that the line is in
    uint64_t offset = 0, length = 0;
    std::string stem{};
    std::vector<std::string> files{};  // relative to the folder of the journal
    std::string error{};               // empty: the input is done
};

struct JournalContents {
    JournalHeader header;
    std::map<std::string, JournalEntry> entries;  // by input; of several lines about one, the last counts
    uint64_t whole_bytes = 0;                     // behind this is a line that was cut off
};

// Fails with a sentence for a file that is no journal, or has a damaged line before its end.
JournalContents read_journal(const std::string& path);
std::string read_line(const JournalEntry& entry);

// One process writes a journal; a second one is refused while the first is at work.
class JournalWriter {
public:
    // Begins a new journal with its header, or goes on after `keep_bytes` of the one that is there.
    JournalWriter(std::string path, const JournalHeader& header, uint64_t keep_bytes = 0);
    JournalWriter(const JournalWriter&) = delete;
    JournalWriter& operator=(const JournalWriter&) = delete;
    ~JournalWriter();

    void add_header(const JournalHeader& header);  // the list of inputs has grown
    void add_done(const std::string& input, const std::string& stem, const std::vector<std::string>& files,
                  const std::string& record);
    void add_error(const std::string& input, const std::string& error);
    void add_line(const std::string& line);  // of another journal, without its end
    void sync();                             // lines reach the disk at least once a second, and here

private:
    void append(const std::string& line);

    std::string path_;
    int file_ = -1;
    bool dirty_ = false;
    std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

}  // namespace sam3::cli
