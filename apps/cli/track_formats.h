#pragma once

#include <set>
#include <string>
#include <vector>

// What `sam3 track` writes besides its lines, its label maps and its overlay: formats for clips, made from the lines.
namespace sam3::cli {

// The names, each once; a UsageError for one that is not there, not for clips, or needs a ground truth and has none.
std::set<std::string> checked_track_formats(const std::vector<std::string>& names, const std::string& truth);

// Writes those that are made from the lines beside them, as NAME_mots, NAME_ytvis.json, NAME_davis, ...; gives their
// paths. `stem` is the path of the lines without its ending.
std::vector<std::string> write_track_formats(const std::string& stem, const std::set<std::string>& names,
                                             const std::string& truth);

}  // namespace sam3::cli
