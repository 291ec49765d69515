#pragma once

#include "mask/track.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

// The cases of tests/goldens/eval.py.
namespace sam3::test {

inline const nlohmann::json& golden() {
    static const nlohmann::json json =
        nlohmann::json::parse(std::ifstream(std::string(SAM3_TEST_DATA) + "/eval/metrics.json"));
    return json;
}

inline Rle golden_mask(const nlohmann::json& counts) {
    return rle_from_counts(counts.get<std::vector<uint32_t>>(), golden()["width"].get<int>(),
                           golden()["height"].get<int>());
}

// Of images a list of masks, each a track of one frame; of clips a list of tracks.
inline std::vector<Track> golden_tracks(const nlohmann::json& list, bool clips) {
    std::vector<Track> out;
    for (const nlohmann::json& item : list) {
        Track track;
        if (clips)
            for (const nlohmann::json& mask : item) track.push_back(golden_mask(mask));
        else
            track.push_back(golden_mask(item));
        out.push_back(std::move(track));
    }
    return out;
}

inline std::vector<const Track*> pointers(const std::vector<Track>& tracks) {
    std::vector<const Track*> out;
    for (const Track& track : tracks) out.push_back(&track);
    return out;
}

}  // namespace sam3::test
