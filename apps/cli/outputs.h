#pragma once

#include "formats/result_formats.h"
#include "inputs.h"
#include "journal.h"

#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

// Where results go: files for each picture as it is finished, and files about all of them at the end, from the journal.
namespace sam3::cli {

class Outputs {
public:
    enum class Existing { refuse, replace };

    // folder: empty for stems that are paths. Fails with a UsageError for formats that do not exist or need what is not
    // there.
    Outputs(std::string folder, const std::vector<std::string>& formats, const WriteOptions& options);

    // As an earlier run had them; `settings` are those of its journal. More formats may be added.
    static Outputs as_before(std::string folder, const nlohmann::ordered_json& settings,
                             const std::vector<std::string>& more_formats);

    // Files that must never be written over, and what to do about others.
    void protect(std::span<const Input> inputs);
    void set_existing(Existing existing) { existing_ = existing; }

    const std::string& folder() const { return folder_; }
    bool nothing() const { return items_.empty() && datasets_.empty(); }
    std::string names() const;                // "json, overlay"
    nlohmann::ordered_json settings() const;  // whatever changes a file
    bool has_datasets() const { return !datasets_.empty(); }
    // Fails when results are there already, as far as names can be told before there are any.
    void check_free(std::span<const Input> inputs) const;
    // Fails when a format cannot tell two of the pictures apart: before the work, not when its files are made.
    void check_names(std::span<const std::string> names) const;

    // Names are relative to the folder.
    std::vector<OutputFile> encode(const Segmentation& record, const std::string& stem, const Image& image) const;
    std::vector<std::string> write(const std::vector<OutputFile>& files) const;

    // Takes the files of a journal's entry over from another folder.
    void copy(const JournalEntry& entry, const std::string& from) const;

    // The files about all pictures, of records in this order; gives their paths.
    std::vector<std::string> write_datasets(std::span<const JournalEntry* const> entries) const;
    // Removes the files of an earlier run, which may be more than this one writes.
    void remove_earlier(const JournalContents& earlier) const;
    // What runs that were killed had begun to write. Only while no other run writes into the folder.
    void remove_leftovers() const;

private:
    std::string path_of(const std::string& name) const;
    void check_replaceable(const std::string& path) const;

    std::string folder_;
    WriteOptions options_;
    std::vector<std::string> formats_;
    std::vector<const FormatInfo*> items_, datasets_;
    std::unordered_set<std::string> inputs_;  // canonical paths
    Existing existing_ = Existing::refuse;
};

}  // namespace sam3::cli
