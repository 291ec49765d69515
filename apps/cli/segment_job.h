#pragma once

#include "image_prompts.h"
#include "model_options.h"
#include "outputs.h"
#include "report.h"
#include "shard.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

// One run of `sam3 segment`: what its options ask for, worked out and checked before the model is loaded.
namespace sam3::cli {

struct SegmentOptions {
    ModelOptions model;
    ImagePromptOptions prompts;
    std::vector<std::string> inputs, formats;
    std::string prompts_file, output, dump, shard;
    WriteOptions write;
    bool recursive = false;
    bool resume = false, overwrite = false, dry_run = false;
    bool quiet = false, json = false, show = false;
    std::string preview = "auto";
};

class SegmentJob {
public:
    // Fails with a UsageError, or with a sentence about an input or an earlier run.
    explicit SegmentJob(const SegmentOptions& options);

    void describe() const;  // what run() would do
    void run();

private:
    void list(const SegmentOptions& options);
    void choose_outputs();
    void look_for_earlier_work();
    std::shared_ptr<const Model> load_model() const;
    void look_at(const Finished& item) const;
    void finish(Report& report);
    std::vector<std::string> write_datasets() const;
    ReportKind report_kind() const;
    JournalHeader header() const;
    std::string journal_path() const;

    const SegmentOptions& options_;
    Shard shard_;
    std::vector<Input> inputs_;  // of this shard, once the outputs are chosen
    std::vector<Input> todo_;    // those that no earlier run has done
    std::vector<ImageTask> tasks_;
    std::string prompts_fingerprint_;
    uint64_t all_inputs_ = 0;
    std::string names_fingerprint_;
    bool single_ = false;   // one file that was named: no journal stays
    bool beside_ = false;   // overlays go beside the pictures
    bool printed_ = false;  // results go to stdout
    std::optional<Outputs> outputs_;
    std::optional<JournalContents> earlier_;
    RunTotals totals_;
};

}  // namespace sam3::cli
