#pragma once

#include "formats/tracks.h"
#include "media/video_reader.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

// The files of a video job: NAME.jsonl with a line a frame, NAME_masks/FRAME.png, NAME_overlay.mp4, and while the job
// is not finished NAME.resume.json with the session beside it.
namespace sam3::cli {

class TrackFiles {
public:
    // stem: the folder and the name in front of the endings. The folder is made when it is missing.
    TrackFiles(std::string stem, bool label_maps);

    bool exist() const;              // results of an earlier run
    int64_t complete_lines() const;  // of the list on disk
    void start();                    // an empty list of frames; results of an earlier run go

    void add(const TrackedObjects& tracked);
    int64_t lines() const { return lines_; }

    // Where a job stands: everything before `position` steps is in the files.
    struct Checkpoint {
        int64_t position = 0;
        nlohmann::json job;  // what must be the same in the run that goes on
    };
    // `save_session` writes the state to the path it is given.
    void checkpoint(const Checkpoint& checkpoint, const std::function<void(const std::string&)>& save_session);
    // Back to the last checkpoint: frames after it are dropped. Nothing when there is none.
    std::optional<Checkpoint> resume();
    // Of runs that were killed: files that were being written, sessions that no checkpoint speaks of.
    void remove_leftovers() const;
    std::string session_path(int64_t position) const;

    // No more frames: the checkpoint goes, lines are brought into the order of the frames, label maps are completed.
    void finish(bool in_order);

    // Reads the lines one after the other; false at the end.
    bool next_line(std::ifstream& file, int64_t& number, TrackedObjects& tracked) const;
    std::string lines_path() const { return stem_ + ".jsonl"; }
    std::string masks_path() const { return stem_ + "_masks"; }
    std::string overlay_path() const { return stem_ + "_overlay.mp4"; }

private:
    std::string checkpoint_path() const { return stem_ + ".resume.json"; }
    std::string mask_path(int64_t frame) const;
    void keep_lines(int64_t count);
    void sort_lines() const;
    void add_missing_masks() const;

    std::string stem_;
    bool label_maps_;
    std::ofstream out_;
    int64_t lines_ = 0;
    int64_t session_at_ = -1;  // the position of the session that is on disk
};

}  // namespace sam3::cli
