#include "formats/own_predictions.h"

#include "formats/json_masks.h"
#include "formats/tracks.h"
#include "formats/truth_names.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace sam3 {

namespace {

namespace fs = std::filesystem;

class OwnPredictions {
public:
    explicit OwnPredictions(const GroundTruth& truth) : truth_(truth), names_(truth) {}

    void add(const std::string& path) { truth_.video ? add_lines(path) : add_picture(path); }

    std::vector<Prediction> finish(const std::string& path) {
        for (size_t i = 0; i < truth_.media.size(); ++i)
            if (seen_.count(i) == 0)
                fail(path, ": nothing was predicted for ", truth_.media[i].name, " (", seen_.size(), " of ",
                     truth_.media.size(), " were)");
        return std::move(predictions_);
    }

private:
    void begin(size_t media) {
        if (!seen_.insert(media).second) fail("a second file for ", truth_.media[media].name);
    }

    void add_picture(const std::string& path) {
        use_json(read_file(path), path, [&](const Json& json, std::string& where) {
            const size_t media = names_.media(json.at("image").at("file").get<std::string>());
            begin(media);
            std::set<std::string> asked;
            for (const Json& prompt : json.at("prompts")) asked.insert(prompt.at("label").get<std::string>());
            for (const GroundTruth::Prompt& prompt : truth_.prompts)
                if (prompt.media == media && asked.count(prompt.phrase) == 0)
                    fail("was not asked for '", prompt.phrase, "', which is to be scored");
            const GroundTruth::Media& picture = truth_.media[media];
            for (const Json& item : json.at("detections")) {
                where = str("detection ", id_from_json(item.at("id")));
                const Track track = {mask_from_json(item.at("mask"), picture.width, picture.height)};
                for (const size_t prompt : names_.prompts(media, item.at("label").get<std::string>()))
                    predictions_.push_back({prompt, 0, item.at("score").get<float>(), track});
            }
        });
    }

    // Which phrases a track list was asked for it does not say: those that found nothing count as asked. Lines of
    // several runs, one for each phrase, may stand in one file.
    void add_lines(const std::string& path) {
        const size_t media = names_.media(path);
        begin(media);
        const GroundTruth::Media& clip = truth_.media[media];
        std::map<std::pair<std::string, int>, Prediction> objects;  // by phrase and number
        std::ifstream file(path);
        std::string line;
        for (int64_t number = 1; std::getline(file, line); ++number) {
            const std::string where = str(path, ": line ", number);
            const TrackedObjects tracked = from_json_line(line, where);
            if (tracked.width != clip.width || tracked.height != clip.height)
                fail(where, ": expected frames of ", clip.width, " x ", clip.height, " pixels, found ", tracked.width,
                     " x ", tracked.height);
            if (tracked.frame < 0 || tracked.frame >= static_cast<int64_t>(clip.files.size()))
                fail(where, ": frame ", tracked.frame, " is outside of the clip's ", clip.files.size());
            for (const TrackedObjects::Object& object : tracked.objects) {
                Prediction& prediction = objects[{object.label, object.id}];
                prediction.score = object.score;
                prediction.track.resize(clip.files.size());
                prediction.track[static_cast<size_t>(tracked.frame)] = rle_encode(object.mask);
            }
        }
        for (const auto& [object, prediction] : objects)
            for (const size_t prompt : names_.prompts(media, object.first))
                predictions_.push_back({prompt, 0, prediction.score, prediction.track});
    }

    const GroundTruth& truth_;
    TruthNames names_;
    std::set<size_t> seen_;
    std::vector<Prediction> predictions_;
};

}  // namespace

bool is_own_prediction(const std::string& path) {
    if (fs::is_directory(path) || fs::path(path).extension() == ".jsonl") return true;
    const std::vector<uint8_t> bytes = read_file(path);
    const auto first = std::find_if(bytes.begin(), bytes.end(), [](uint8_t c) { return c > ' '; });
    return first != bytes.end() && *first == '{';
}

std::vector<Prediction> read_own_predictions(const std::string& path, const GroundTruth& truth) {
    OwnPredictions predictions(truth);
    if (!fs::is_directory(path)) {
        predictions.add(path);
        return predictions.finish(path);
    }
    std::set<std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
        if (entry.path().extension() == (truth.video ? ".jsonl" : ".json")) files.insert(entry.path().string());
    for (const std::string& file : files) predictions.add(file);
    return predictions.finish(path);
}

}  // namespace sam3
