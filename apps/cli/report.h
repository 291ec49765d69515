#pragma once

#include "batch.h"
#include "progress.h"
#include "status.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

// What a run over pictures says: tables and summaries for people, lines of JSON for programs.
namespace sam3::cli {

struct RunTotals {
    size_t inputs = 0;   // of this shard
    size_t skipped = 0;  // done by an earlier run
    size_t done = 0, failed = 0;
    size_t objects = 0;
    bool stopped = false;  // by Ctrl-C
    std::vector<std::string> first_errors{};

    size_t left() const { return inputs - skipped - done - failed; }
};

class Report {
public:
    virtual ~Report() = default;
    virtual void start(const RunTotals& /*totals*/) {}
    virtual void finished(const Finished& item, const RunTotals& totals) = 0;
    virtual void end(const RunTotals& /*totals*/, const std::vector<std::string>& /*files*/) {}
};

enum class ReportKind {
    quiet,
    table,   // of one picture
    lines,   // one a picture: "a.jpg: 2 dog, 1 cat"
    json,    // the record of one picture
    jsonl,   // a record a line
    events,  // what happens, for programs
};
// Results go to stdout, progress and failures to stderr. `folder` is where result files are.
std::unique_ptr<Report> make_report(ReportKind kind, bool quiet, const std::string& folder);

}  // namespace sam3::cli
