#include "segment_job.h"

#include "command.h"
#include "dump.h"
#include "interrupt.h"
#include "media/video_reader.h"
#include "model_identity.h"
#include "preview.h"
#include "util/error.h"
#include "util/folders.h"
#include "util/output_names.h"
#include "util/sha256.h"
#include "values.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

// One picture that was named, be it there or not: neither a folder nor a pattern nor a list.
bool is_one_picture(const std::string& given, const Input& input) {
    std::error_code error;
    return input.image || is_camera(given) || (given == input.path && !fs::is_directory(given, error));
}

std::string fingerprint_of(const std::vector<Input>& inputs) {
    Sha256 hash;
    for (const Input& input : inputs) {
        hash.add(input.name.data(), input.name.size());
        hash.add("\n", 1);
    }
    return hash.hex();
}

// The inputs of this shard.
std::vector<Input> part_of(std::vector<Input> inputs, const Shard& shard) {
    if (shard.whole()) return inputs;
    std::vector<Input> part;
    for (size_t i = 0; i < inputs.size(); ++i)
        if (shard.has(i)) part.push_back(std::move(inputs[i]));
    return part;
}

// Stems that are the paths of the pictures themselves; of two that differ in their endings only, with those.
void put_beside(std::vector<Input>& inputs) {
    const auto stem_of = [](const Input& input) { return fs::path(input.path).replace_extension().string(); };
    std::map<std::string, int> times;
    for (const Input& input : inputs) ++times[stem_of(input)];
    for (Input& input : inputs)
        if (!input.image && !is_camera(input.path))
            input.stem = times[stem_of(input)] == 1 ? stem_of(input) : input.path;
}

// A journal that is about to be replaced may be missing or damaged.
std::optional<JournalContents> read_if_whole(const std::string& path) {
    if (!fs::exists(path)) return std::nullopt;
    try {
        return read_journal(path);
    } catch (const Error&) {
        return std::nullopt;
    }
}

struct RemoveAtEnd {
    explicit RemoveAtEnd(std::string file) : path(std::move(file)) {}
    RemoveAtEnd(const RemoveAtEnd&) = delete;
    RemoveAtEnd& operator=(const RemoveAtEnd&) = delete;
    ~RemoveAtEnd() {
        std::error_code ignored;
        if (!path.empty()) fs::remove(path, ignored);
    }
    std::string path;
};

}  // namespace

SegmentJob::SegmentJob(const SegmentOptions& options) : options_(options), shard_(parse_shard(options.shard)) {
    if (options.resume && options.overwrite) throw UsageError("--resume and --overwrite exclude each other");
    if (options.output.empty() && (options.resume || !options.shard.empty()))
        throw UsageError("--resume and --shard need --output DIR, where the journal of finished inputs is");
    list(options);
    for (const ImageTask& task : tasks_)
        if (task.empty())
            throw UsageError("there is nothing to look for: give --text, --exemplar, --point, --box or --mask");
    choose_outputs();
    inputs_ = part_of(std::move(inputs_), shard_);
    if (options.show && (!single_ || outputs_->names().find("overlay") == std::string::npos))
        throw UsageError("--show is for a single picture whose overlay is written: leave --format out, or add overlay");
    look_for_earlier_work();
    if (!options.dump.empty() && todo_.size() > 1)
        throw UsageError("--dump writes the intermediates of one picture: give a single input");
}

void SegmentJob::list(const SegmentOptions& options) {
    std::vector<Input> all;
    if (!options.prompts_file.empty()) {
        if (!options.inputs.empty()) throw UsageError("--prompts names the inputs itself: leave the others out");
        PromptedInputs read = read_prompts(options.prompts_file, options.prompts);
        all = std::move(read.inputs);
        tasks_ = std::move(read.tasks);
        prompts_fingerprint_ = read.fingerprint;
    } else {
        tasks_.push_back(options.prompts.task());
        all = list_inputs({.given = options.inputs, .recursive = options.recursive, .output = options.output});
        single_ = all.size() == 1 && is_one_picture(options.inputs.front(), all.front());
    }
    for (ImageTask& task : tasks_) load_masks(task);
    name_results(all);
    all_inputs_ = all.size();
    names_fingerprint_ = fingerprint_of(all);
    inputs_ = std::move(all);
    single_ = single_ && !options.resume && options.shard.empty();
}

void SegmentJob::choose_outputs() {
    std::vector<std::string> formats = options_.formats;
    if (formats == std::vector<std::string>{"none"}) formats.clear();
    const bool named = !formats.empty();
    beside_ = options_.output.empty() && options_.formats.empty() && options_.dump.empty();
    if (beside_) formats = {"overlay"};
    if (!options_.output.empty() && options_.formats.empty()) formats = {"json", "overlay"};
    WriteOptions write = options_.write;
    std::vector<std::string> names;
    for (const Input& input : inputs_) names.push_back(input.name);
    write.folder = shared_folder(names);
    outputs_.emplace(options_.output, formats, write);
    printed_ = named && options_.output.empty();
    if (printed_) {
        if (formats.size() > 1 || (formats.front() != "json" && formats.front() != "jsonl"))
            throw UsageError("these formats need --output DIR; without it json or jsonl is printed");
        if (formats.front() == "json" && inputs_.size() > 1)
            throw UsageError("--format json prints one picture's result: use jsonl for several, or give --output DIR");
        outputs_.emplace("", std::vector<std::string>(), write);
    }
    outputs_->check_names(names);
    outputs_->protect(inputs_);
    if (options_.overwrite) outputs_->set_existing(Outputs::Existing::replace);
    if (beside_) put_beside(inputs_);
}

std::string SegmentJob::journal_path() const {
    // A single picture needs none, but for the formats that are made from it.
    const std::string name = single_ ? str(".journal-", ::getpid(), ".jsonl") : journal_name(shard_);
    return (fs::path(options_.output) / name).string();
}

JournalHeader SegmentJob::header() const {
    nlohmann::ordered_json settings = {{"command", "segment"},
                                       {"prompts", options_.prompts.settings()},
                                       {"prompts_file", prompts_fingerprint_},
                                       {"behaviour", options_.model.behaviour},
                                       {"image_size", options_.model.image_size},
                                       {"device", options_.model.device},
                                       {"precision", options_.model.precision}};
    settings["output"] = outputs_->settings();
    return {settings, model_identity(options_.model.resolved_path()), all_inputs_, names_fingerprint_, shard_};
}

void SegmentJob::look_for_earlier_work() {
    totals_.inputs = inputs_.size();
    const bool journal = !options_.output.empty() && !single_ && fs::exists(journal_path());
    if (!journal) {
        outputs_->check_free(inputs_);
        todo_ = inputs_;
        return;
    }
    if (options_.overwrite) {
        todo_ = inputs_;
        return;
    }
    if (!options_.resume)
        fail(journal_path(), ": there are results already; --resume goes on, --overwrite starts again");
    earlier_ = read_journal(journal_path());
    if (earlier_->whole_bytes == 0) {  // killed before the first line was whole: nothing was done
        earlier_.reset();
        todo_ = inputs_;
        return;
    }
    outputs_->set_existing(Outputs::Existing::replace);
    const JournalHeader now = header();
    if (!earlier_->header.same_job(now))
        fail(journal_path(),
             ": the run to be resumed had other options or another model: repeat its command line with --resume, or "
             "start again with --overwrite");
    if (!shard_.whole() && earlier_->header.names != now.names)
        fail(journal_path(), ": the run to be resumed had other inputs (", earlier_->header.inputs, ", now ",
             now.inputs, "), so that its shard had others too: start all shards again with --overwrite");
    for (const Input& input : inputs_) {
        const auto found = earlier_->entries.find(input.name);
        const bool done = found != earlier_->entries.end() && found->second.error.empty();
        if (!done)
            todo_.push_back(input);
        else if (found->second.stem != input.stem)
            fail(journal_path(), ": with the inputs of now, results of ", input.name, " would be called ", input.stem,
                 " instead of ", found->second.stem, ": start again with --overwrite, or give the same inputs");
    }
    totals_.skipped = inputs_.size() - todo_.size();
}

std::shared_ptr<const Model> SegmentJob::load_model() const {
    const auto any = [&](const auto& test) { return std::any_of(tasks_.begin(), tasks_.end(), test); };
    const bool concepts = any([](const ImageTask& task) { return !task.concepts.empty(); });
    const bool clicks = any([](const ImageTask& task) { return task.needs_clicks(); });
    auto model = options_.model.load({.concepts = concepts, .clicks = clicks, .video = false});
    if (concepts) model->detector();
    if (clicks) model->interactive_head();
    return model;
}

ReportKind SegmentJob::report_kind() const {
    if (options_.json) return ReportKind::events;
    if (printed_) return options_.formats.front() == "json" ? ReportKind::json : ReportKind::jsonl;
    if (options_.quiet) return ReportKind::quiet;
    return single_ ? ReportKind::table : ReportKind::lines;
}

void SegmentJob::describe() const {
    std::cout << "model    " << printable(options_.model.resolved_path()) << "\n"
              << "inputs   " << all_inputs_;
    if (!shard_.whole()) std::cout << ", of which shard " << shard_.text() << " has " << inputs_.size();
    if (totals_.skipped > 0) std::cout << ", " << totals_.skipped << " done already";
    std::cout << "\n"
              << "output   "
              << (printed_              ? "stdout"
                  : beside_             ? "an overlay beside each picture"
                  : outputs_->nothing() ? "none"
                                        : printable(options_.output) + ": " + outputs_->names())
              << "\n";
    for (const Input& input : todo_) std::cout << "to do    " << printable(input.name) << "\n";
}

std::vector<std::string> SegmentJob::write_datasets() const {
    if (!outputs_->has_datasets() || !shard_.whole()) return {};
    const JournalContents journal = read_journal(journal_path());
    std::vector<const JournalEntry*> entries;
    for (const Input& input : inputs_) {
        const auto found = journal.entries.find(input.name);
        if (found != journal.entries.end() && found->second.error.empty()) entries.push_back(&found->second);
    }
    return outputs_->write_datasets(entries);
}

void SegmentJob::finish(Report& report) {
    totals_.stopped = totals_.left() > 0;
    std::vector<std::string> files;
    if (!totals_.stopped) files = write_datasets();
    report.end(totals_, files);
    const bool journal = !options_.output.empty() && !single_;
    if (totals_.stopped)
        fail("stopped after ", totals_.skipped + totals_.done + totals_.failed, " of ", totals_.inputs, " inputs",
             journal ? "; their results are in " + options_.output + ", and the same command with --resume goes on"
                     : "");
    if (totals_.failed == 0) return;
    if (single_) fail(totals_.first_errors.front());
    fail(totals_.failed, " of ", totals_.inputs, " inputs failed, the first: ", totals_.first_errors.front(),
         journal ? " (all are in " + journal_path() + "; --resume tries them again)" : "");
}

// For a single picture, on a terminal that can, or in a viewer.
void SegmentJob::look_at(const Finished& item) const {
    if (!single_ || !item.error.empty()) return;
    if (!options_.json && !options_.quiet && !printed_) {
        const Preview preview = choose_preview(options_.preview);
        if (preview != Preview::none) print_preview(draw_overlay(item.image, item.segmentation), preview);
    }
    if (!options_.show) return;
    const auto is_overlay = [](const std::string& name) { return name.find("_overlay.") != std::string::npos; };
    const auto overlay = std::find_if(item.files.begin(), item.files.end(), is_overlay);
    show_file((fs::path(options_.output) / *overlay).string());
}

void SegmentJob::run() {
    const bool journal = !options_.output.empty() && (!single_ || outputs_->has_datasets());
    Status status(options_.quiet);
    const RemoveAtEnd temporary(journal && single_ ? journal_path() : "");
    make_folder(options_.output);
    if (single_) {  // what is wrong with it is found before the model is loaded
        status.show("reading " + inputs_.front().name);
        todo_.front().image = std::make_shared<Image>(read_input(todo_.front()));
    }
    std::optional<ImageSession> session;
    if (!todo_.empty()) {
        status.show("loading " + options_.model.path);
        session.emplace(load_model(), options_.model.threads);
        if (!options_.dump.empty()) dump_tensors(session->ops(), options_.dump);
    }
    std::optional<JournalWriter> writer;
    if (journal) {
        const std::optional<JournalContents> replaced =
            options_.overwrite ? read_if_whole(journal_path()) : std::nullopt;
        const JournalHeader now = header();
        writer.emplace(journal_path(), now, earlier_ ? earlier_->whole_bytes : 0);
        if (replaced) outputs_->remove_earlier(*replaced);  // not before the lock: another run may be at work
        if (shard_.whole() && earlier_) outputs_->remove_leftovers();  // of other shards they may be at work
        if (earlier_ && earlier_->header.names != now.names) writer->add_header(now);
    }
    const std::unique_ptr<Report> report = make_report(report_kind(), options_.quiet, options_.output);
    catch_interrupts();
    status.show("segmenting");
    report->start(totals_);
    const auto on_finished = [&](const Finished& item) {
        status.clear();
        ++(item.error.empty() ? totals_.done : totals_.failed);
        totals_.objects += item.segmentation.instances.size();
        if (!item.error.empty() && totals_.first_errors.empty()) totals_.first_errors.push_back(item.error);
        report->finished(item, totals_);
        look_at(item);
    };
    if (!todo_.empty()) run_batch({todo_, tasks_, *session, *outputs_, writer ? &*writer : nullptr, on_finished});
    finish(*report);
}

}  // namespace sam3::cli
