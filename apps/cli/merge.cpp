#include "command.h"
#include "format_names.h"
#include "journal.h"
#include "media/image_names.h"
#include "outputs.h"
#include "util/error.h"
#include "util/folders.h"
#include "values.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace sam3::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
    std::string output;
    std::vector<std::string> folders, formats;
    bool overwrite = false, partial = false, quiet = false;
};

struct Part {
    std::string path;
    JournalContents contents;
};

std::vector<std::string> journals_in(const std::string& folder, bool shards_only) {
    std::vector<std::string> paths;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with(shards_only ? "journal-" : "journal") && name.ends_with(".jsonl"))
            paths.push_back(entry->path().string());
    }
    if (error) fail(folder, ": the folder cannot be read (", error.message(), ")");
    if (paths.empty())
        fail(folder,
             ": expected journals of shards (journal-1-of-2.jsonl, ...), found none; give the folders that "
             "`sam3 segment --shard` wrote");
    std::sort(paths.begin(), paths.end(), natural_less);
    return paths;
}

std::vector<Part> read_parts(const Options& options) {
    std::vector<Part> parts;
    std::vector<std::string> folders = options.folders;
    if (folders.empty()) folders.push_back(options.output);
    for (const std::string& folder : folders)
        for (const std::string& path : journals_in(folder, options.folders.empty()))
            parts.push_back({path, read_journal(path)});
    return parts;
}

// All shards of one job must be there, each once, each complete.
void check(const std::vector<Part>& parts, bool partial) {
    const JournalHeader& first = parts.front().contents.header;
    std::map<size_t, const Part*> shards;
    for (const Part& part : parts) {
        const JournalHeader& header = part.contents.header;
        if (!first.same_job(header) || first.names != header.names || first.shard.count != header.shard.count)
            fail(part.path, ": this is of another job than ", parts.front().path,
                 ": options, model, inputs and number of shards must be the same");
        const auto [place, fresh] = shards.emplace(header.shard.index, &part);
        if (!fresh) fail(part.path, ": shard ", header.shard.text(), " is also in ", place->second->path);
    }
    for (size_t i = 0; i < first.shard.count && !partial; ++i) {
        const Shard shard{i, first.shard.count};
        if (shards.count(i) == 0)
            fail("shard ", shard.text(), " is missing: wait for it or run it; --partial merges what is there");
        const size_t expected = (first.inputs + shard.count - 1 - i) / shard.count;
        const size_t found = shards[i]->contents.entries.size();
        if (found < expected)
            fail(shards[i]->path, ": shard ", shard.text(), " has finished ", found, " of ", expected,
                 " inputs: run it again with --resume; --partial merges what is there");
    }
}

using Lines = std::vector<std::pair<std::string, const JournalEntry*>>;

Lines lines_of(const std::vector<Part>& parts) {
    Lines lines;
    for (const Part& part : parts)
        for (const auto& [input, entry] : part.contents.entries) lines.emplace_back(input, &entry);
    std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return natural_less(a.first, b.first); });
    return lines;
}

void merge(const Options& options) {
    const std::vector<Part> parts = read_parts(options);
    check(parts, options.partial);
    JournalHeader header = parts.front().contents.header;
    header.shard = {};
    const std::string journal = (fs::path(options.output) / journal_name({})).string();
    if (fs::exists(journal) && !options.overwrite)
        fail(journal, ": there are results already; --overwrite replaces them");
    Outputs outputs = Outputs::as_before(options.output, header.settings.at("output"), options.formats);
    if (options.overwrite) outputs.set_existing(Outputs::Existing::replace);
    outputs.check_free({});
    make_folder(options.output);

    const Lines lines = lines_of(parts);
    std::vector<const JournalEntry*> done;
    size_t failed = 0;
    JournalWriter writer(journal, header);
    for (const auto& [input, entry] : lines) {
        const fs::path from = fs::path(entry->journal).parent_path();
        if (!fs::equivalent(from.empty() ? fs::path(".") : from, options.output)) outputs.copy(*entry, from.string());
        writer.add_line(read_line(*entry));
        if (entry->error.empty())
            done.push_back(entry);
        else
            ++failed;
    }
    writer.sync();
    const std::vector<std::string> files = outputs.write_datasets(done);
    // What the shards' journals in this folder say, the new one says too.
    if (!options.partial) outputs.remove_leftovers();
    for (const Part& part : parts)
        if (fs::equivalent(fs::path(part.path).parent_path(), options.output)) fs::remove(part.path);
    if (!options.quiet) {
        std::cout << done.size() << " images of " << parts.size() << " journals\n";
        for (const std::string& file : files) std::cout << file << "\n";
    }
    if (failed > 0) fail(failed, " of ", lines.size(), " inputs had failed (see ", journal, ")");
}

}  // namespace

void add_merge(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("merge", "Join the results of shards into one");
    command->add_option("OUT", options->output, "Folder for the joined results")->required();
    command->add_option("FOLDER", options->folders, "Folders that shards wrote (default: OUT itself)");
    command
        ->add_option("-f,--format", options->formats,
                     "Files about all pictures to write besides those that the shards were asked for")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LIST:{" +
                    format_names([](const FormatInfo& info) { return info.dataset != nullptr && info.stills; }) + "}");
    command->add_flag("--partial", options->partial, "Join what is there, though shards or inputs are missing");
    command->add_flag("--overwrite", options->overwrite, "Replace results that are there");
    command->add_flag("-q,--quiet", options->quiet, "No summary");
    command->footer(
        "Examples:\n"
        "  sam3 segment -m sam3 photos -t dog -o out -f coco --shard 1/2     # on one machine\n"
        "  sam3 segment -m sam3 photos -t dog -o out -f coco --shard 2/2     # on another one\n"
        "  sam3 merge out                                # shards that wrote into one shared folder\n"
        "  sam3 merge all part1 part2 -f csv             # shards that wrote into folders of their own\n"
        "The result is that of a single run, byte for byte.");
    command->callback([options, &chosen] { chosen = [options] { merge(*options); }; });
}

}  // namespace sam3::cli
