#include "report.h"

#include "command.h"
#include "util/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

namespace sam3::cli {

namespace {

// Failures as they happen, and how far the work is: a line that moves on a terminal, else one now and then.
class ProgressReport : public Report {
public:
    explicit ProgressReport(bool quiet) : status_(quiet), quiet_(quiet) {}

    void start(const RunTotals& totals) override {
        pace_.emplace("images");
        if (totals.inputs > 1 && totals.skipped > 0 && !quiet_)
            std::cerr << "sam3: " << totals.skipped << " of " << totals.inputs << " inputs are done already\n";
    }

    void finished(const Finished& item, const RunTotals& totals) override {
        status_.clear();
        if (item.error.empty())
            show(item);
        else if (totals.inputs > 1)  // of a single one it is the error of the whole
            std::cerr << "sam3: failed: " << printable(item.error) << "\n" << std::flush;
        if (totals.inputs < 2) return;
        const auto done = static_cast<int64_t>(totals.done + totals.failed);
        const auto all = static_cast<int64_t>(totals.inputs - totals.skipped);
        std::string text = str(done, " of ", all, " images, ", pace_->next(done, all));
        if (totals.failed > 0) text += str(", ", totals.failed, " failed");
        status_.show(text);
        if (!quiet_ && !status_.active()) say_now_and_then(text);
    }

    void end(const RunTotals& /*totals*/, const std::vector<std::string>& /*files*/) override { status_.clear(); }

protected:
    virtual void show(const Finished& /*item*/) {}

private:
    void say_now_and_then(const std::string& text) {
        constexpr auto kEvery = std::chrono::seconds(30);
        const auto now = std::chrono::steady_clock::now();
        if (now - said_ < kEvery) return;
        said_ = now;
        std::cerr << "sam3: " << text << "\n" << std::flush;
    }

    Status status_;
    bool quiet_;
    std::optional<Pace> pace_;
    std::chrono::steady_clock::time_point said_ = std::chrono::steady_clock::now();
};

// "2 dog, 1 cat"
std::string describe(const Segmentation& segmentation) {
    std::vector<std::pair<std::string, size_t>> counts;
    for (const auto& prompt : segmentation.prompts) counts.emplace_back(prompt.label, 0);
    for (const auto& instance : segmentation.instances)
        for (auto& [label, count] : counts)
            if (label == instance.label) {
                ++count;
                break;
            }
    std::string text;
    for (const auto& [label, count] : counts) text += str(text.empty() ? "" : ", ", count, " ", label);
    return printable(text);
}

void print_table(const Segmentation& segmentation) {
    size_t width = 5;
    for (const auto& instance : segmentation.instances) width = std::max(width, printable(instance.label).size());
    std::cout << std::left << std::setw(static_cast<int>(width)) << "label" << std::right
              << "  score      x0      y0      x1      y1      area\n"
              << std::fixed;
    for (const auto& instance : segmentation.instances) {
        std::cout << std::left << std::setw(static_cast<int>(width)) << printable(instance.label) << std::right
                  << std::setprecision(3) << std::setw(7) << instance.score << std::setprecision(1);
        for (const float value : {instance.x0, instance.y0, instance.x1, instance.y1})
            std::cout << std::setw(8) << value;
        std::cout << std::setw(10) << mask_area(instance.mask) << "\n";
    }
    for (const auto& prompt : segmentation.prompts) {
        const bool found = std::any_of(segmentation.instances.begin(), segmentation.instances.end(),
                                       [&](const auto& instance) { return instance.label == prompt.label; });
        if (!found)
            std::cout << "nothing found for '" << printable(prompt.label) << "' (presence " << std::setprecision(3)
                      << prompt.presence << ")\n";
    }
}

class TableReport : public ProgressReport {
public:
    TableReport(bool quiet, std::string folder) : ProgressReport(quiet), folder_(std::move(folder)) {}

protected:
    void show(const Finished& item) override {
        constexpr size_t kMostNames = 8;
        print_table(item.segmentation);
        if (item.files.size() > kMostNames)
            std::cout << item.files.size() << " files in " << printable(folder_) << "\n";
        else
            for (const std::string& file : item.files)
                std::cout << printable((std::filesystem::path(folder_) / file).string()) << "\n";
    }

private:
    std::string folder_;
};

class LinesReport : public ProgressReport {
public:
    LinesReport(bool quiet, std::string folder) : ProgressReport(quiet), folder_(std::move(folder)) {}
    void end(const RunTotals& totals, const std::vector<std::string>& files) override {
        ProgressReport::end(totals, files);
        std::cout << totals.done << (totals.done == 1 ? " image done" : " images done");
        if (totals.skipped > 0) std::cout << ", " << totals.skipped << " were done before";
        if (totals.failed > 0) std::cout << ", " << totals.failed << " failed";
        std::cout << "; " << totals.objects << " objects";
        if (!folder_.empty()) std::cout << "; results are in " << printable(folder_);
        std::cout << "\n";
        for (const std::string& file : files) std::cout << file << "\n";
    }

protected:
    void show(const Finished& item) override {
        std::cout << printable(item.input->name) << ": " << describe(item.segmentation) << "\n";
    }

private:
    std::string folder_;
};

class JsonReport : public ProgressReport {
public:
    JsonReport(bool quiet, bool lines) : ProgressReport(quiet), lines_(lines) {}

protected:
    void show(const Finished& item) override {
        std::cout << (lines_ ? item.record : to_json(item.segmentation)) << std::flush;
    }

private:
    bool lines_;
};

class EventReport : public Report {
public:
    void start(const RunTotals& totals) override {
        say({{"event", "start"}, {"inputs", totals.inputs}, {"skipped", totals.skipped}});
    }
    void finished(const Finished& item, const RunTotals& totals) override {
        Json event = {{"event", item.error.empty() ? "done" : "failed"}, {"input", item.input->name}};
        if (item.error.empty()) {
            Json& objects = event["objects"] = Json::object();
            for (const auto& prompt : item.segmentation.prompts) objects[prompt.label] = 0;
            for (const auto& instance : item.segmentation.instances)
                objects[instance.label] = objects.value(instance.label, 0) + 1;
            event["files"] = item.files;
            event["seconds"] = item.segmentation.seconds;
        } else {
            event["error"] = item.error;
        }
        event["finished"] = totals.done + totals.failed + totals.skipped;
        say(event);
    }
    void end(const RunTotals& totals, const std::vector<std::string>& files) override {
        say({{"event", totals.stopped ? "stopped" : "end"},
             {"done", totals.done},
             {"failed", totals.failed},
             {"skipped", totals.skipped},
             {"left", totals.left()},
             {"objects", totals.objects},
             {"files", files}});
    }

private:
    using Json = nlohmann::ordered_json;
    static void say(const Json& event) {
        std::cout << event.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
    }
};

}  // namespace

std::unique_ptr<Report> make_report(ReportKind kind, bool quiet, const std::string& folder) {
    switch (kind) {
        case ReportKind::table: return std::make_unique<TableReport>(quiet, folder);
        case ReportKind::lines: return std::make_unique<LinesReport>(quiet, folder);
        case ReportKind::json: return std::make_unique<JsonReport>(quiet, false);
        case ReportKind::jsonl: return std::make_unique<JsonReport>(quiet, true);
        case ReportKind::events: return std::make_unique<EventReport>();
        case ReportKind::quiet: break;
    }
    return std::make_unique<ProgressReport>(quiet);
}

}  // namespace sam3::cli
