#include "track_files.h"

#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/folders.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

void write_text(const std::string& path, const std::string& text) {
    write_file(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

TrackFiles::TrackFiles(std::string stem, bool label_maps) : stem_(std::move(stem)), label_maps_(label_maps) {
    make_folder_of(stem_);
}

bool TrackFiles::exist() const { return fs::exists(lines_path()) || fs::exists(checkpoint_path()); }

void TrackFiles::start() {
    for (const std::string& path : {checkpoint_path(), overlay_path()}) fs::remove(path);
    fs::remove_all(masks_path());
    if (label_maps_) make_folder(masks_path());
    keep_lines(0);
}

// Opens the list of frames with its first lines kept.
void TrackFiles::keep_lines(int64_t count) {
    out_.close();
    std::string text;
    {
        std::ifstream in(lines_path());
        std::string line;
        int64_t kept = 0;
        for (; kept < count && std::getline(in, line); ++kept) text += line + "\n";
        if (kept < count)
            fail(lines_path(), ": expected the ", count, " frames that were finished, found ", kept,
                 ": it was changed since; start again without --resume");
    }
    if (text.empty())
        std::ofstream(lines_path(), std::ios::trunc);
    else
        write_text(lines_path(), text);
    out_.open(lines_path(), std::ios::app | std::ios::binary);
    if (!out_) fail(lines_path(), ": cannot be written");
    lines_ = count;
}

std::string TrackFiles::mask_path(int64_t frame) const {
    char name[32];
    std::snprintf(name, sizeof name, "%06lld.png", static_cast<long long>(frame));
    return masks_path() + "/" + name;
}

void TrackFiles::add(const TrackedObjects& tracked) {
    if (label_maps_) write_file(mask_path(tracked.frame), to_label_map(tracked));
    out_ << to_json_line(tracked) << std::flush;
    if (!out_) fail(lines_path(), ": writing failed; is the disk full?");
    ++lines_;
}

std::string TrackFiles::session_path(int64_t position) const { return str(stem_, ".session-", position); }

void TrackFiles::checkpoint(const Checkpoint& checkpoint, const std::function<void(const std::string&)>& save_session) {
    // The small file names the session it belongs to; it is replaced in one step, so the two always fit.
    save_session(session_path(checkpoint.position));
    const nlohmann::json json = {{"position", checkpoint.position}, {"lines", lines_}, {"job", checkpoint.job}};
    write_text(checkpoint_path(), json.dump(1) + "\n");
    if (session_at_ >= 0 && session_at_ != checkpoint.position) fs::remove(session_path(session_at_));
    session_at_ = checkpoint.position;
}

std::optional<TrackFiles::Checkpoint> TrackFiles::resume() {
    if (!fs::exists(checkpoint_path())) return std::nullopt;
    const std::vector<uint8_t> bytes = read_file(checkpoint_path());
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("position") || !json["position"].is_number_unsigned() ||
        !json.contains("lines") || !json["lines"].is_number_unsigned() || !json.contains("job"))
        fail(checkpoint_path(), ": not a checkpoint of this program; start again without --resume");
    session_at_ = json["position"].get<int64_t>();
    if (label_maps_) make_folder(masks_path());
    keep_lines(json["lines"].get<int64_t>());
    return Checkpoint{session_at_, json["job"]};
}

void TrackFiles::remove_leftovers() const {
    const fs::path stem(stem_);
    const std::string session = stem.filename().string() + ".session-";
    const auto ours = [&](const std::string& name) {
        const bool known = stem.parent_path() / name == fs::path(checkpoint_path()) ||
                           stem.parent_path() / name == fs::path(lines_path());
        return known || name.compare(0, session.size(), session) == 0;
    };
    std::vector<fs::path> leftovers;
    std::error_code ignored;
    const auto look_into = [&](const fs::path& folder, const auto& is_left) {
        for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored))
            if (is_left(entry->path())) leftovers.push_back(entry->path());
    };
    look_into(stem.has_parent_path() ? stem.parent_path() : fs::path("."), [&](const fs::path& path) {
        const std::string name = path.filename().string();
        const std::string behind = name_behind_leftover(name);
        if (!behind.empty()) return ours(behind);
        return name.compare(0, session.size(), session) == 0 && name != fs::path(session_path(session_at_)).filename();
    });
    look_into(masks_path(),
              [](const fs::path& path) { return !name_behind_leftover(path.filename().string()).empty(); });
    for (const fs::path& path : leftovers) fs::remove(path, ignored);
}

bool TrackFiles::next_line(std::ifstream& file, int64_t& number, TrackedObjects& tracked) const {
    std::string line;
    if (!std::getline(file, line)) return false;
    tracked = from_json_line(line, str(lines_path(), ": line ", ++number));
    return true;
}

void TrackFiles::finish(bool in_order) {
    out_.close();
    // First the checkpoint, whose count of lines holds only in the order they were written in.
    fs::remove(checkpoint_path());
    if (session_at_ >= 0) fs::remove(session_path(session_at_));
    if (!in_order) sort_lines();
    if (label_maps_) add_missing_masks();
}

void TrackFiles::sort_lines() const {
    std::vector<std::pair<int64_t, std::string>> all;
    std::ifstream in(lines_path());
    std::string line;
    while (std::getline(in, line)) all.emplace_back(from_json_line(line, lines_path()).frame, line + "\n");
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (const auto& [frame, words] : all) text += words;
    write_text(lines_path(), text);
}

// A run that is resumed may ask for label maps that the one before it did not.
void TrackFiles::add_missing_masks() const {
    make_folder(masks_path());
    std::ifstream in(lines_path());
    TrackedObjects tracked;
    for (int64_t number = 0; next_line(in, number, tracked);)
        if (const std::string path = mask_path(tracked.frame); !fs::exists(path))
            write_file(path, to_label_map(tracked));
}

int64_t TrackFiles::complete_lines() const {
    std::ifstream in(lines_path());
    return std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
}

}  // namespace sam3::cli
