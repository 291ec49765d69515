#include "track_prompts.h"

#include "util/error.h"
#include "values.h"

#include <charconv>
#include <utility>

namespace sam3::cli {

namespace {

// "FRAME:ID:REST"
struct Place {
    int64_t frame = 0;
    int id = 0;
    std::string rest;
};

template <typename T>
bool parse_whole(const std::string& text, T& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

Place parse_place(const std::string& option, const std::string& text) {
    const size_t first = text.find(':');
    const size_t second = first == std::string::npos ? first : text.find(':', first + 1);
    Place place;
    if (second == std::string::npos || !parse_whole(text.substr(0, first), place.frame) ||
        !parse_whole(text.substr(first + 1, second - first - 1), place.id))
        throw UsageError(str(option, " needs FRAME:ID:..., for example 0:1:210,130, found '", text, "'"));
    place.rest = text.substr(second + 1);
    return place;
}

}  // namespace

void TrackPromptOptions::add_to(CLI::App& command) {
    const auto add = [&](const char* name, std::vector<std::string>& values, const char* help) {
        command.add_option(name, values, help)
            ->type_name("PLACE")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->group("Point at objects");
    };
    add("--point", points_, "FRAME:ID:X,Y on object ID; frames are counted from 0");
    add("--neg-point", negatives_, "FRAME:ID:X,Y that does not belong to it");
    add("--box", boxes_, "FRAME:ID:X0,Y0,X1,Y1 around it");
    add("--mask", masks_, "FRAME:ID:FILE, an image of the frame's size: what is above half is the object");
}

std::vector<std::string> TrackPromptOptions::words() const {
    std::vector<std::string> all;
    for (const auto& [name, values] : {std::pair{"point", &points_}, std::pair{"neg-point", &negatives_},
                                       std::pair{"box", &boxes_}, std::pair{"mask", &masks_}})
        for (const std::string& value : *values) all.push_back(str(name, " ", value));
    return all;
}

std::vector<VideoPrompt> TrackPromptOptions::prompts() const {
    std::map<std::pair<int64_t, int>, VideoPrompt> all;
    const auto at = [&](const Place& place) -> VideoPrompt& {
        VideoPrompt& prompt = all[{place.frame, place.id}];
        prompt.frame = place.frame;
        prompt.id = place.id;
        return prompt;
    };
    for (const bool positive : {true, false}) {
        const char* option = positive ? "--point" : "--neg-point";
        for (const std::string& text : positive ? points_ : negatives_) {
            const Place place = parse_place(option, text);
            const std::vector<float> n = parse_numbers(option, place.rest, 2);
            at(place).query.points.push_back({n[0], n[1], positive});
        }
    }
    for (const std::string& text : boxes_) {
        const Place place = parse_place("--box", text);
        VideoPrompt& prompt = at(place);
        if (prompt.query.box) throw UsageError(str("--box gives object ", place.id, " two boxes on one frame"));
        prompt.query.box = parse_box("--box", place.rest);
    }
    for (const std::string& text : masks_) {
        const Place place = parse_place("--mask", text);
        VideoPrompt& prompt = at(place);
        if (!prompt.mask_file.empty())
            throw UsageError(str("--mask gives object ", place.id, " two masks on one frame"));
        if (!prompt.query.points.empty() || prompt.query.box)
            throw UsageError(str("object ", place.id, " has a mask and points or a box on frame ", place.frame,
                                 ": give one or the other"));
        prompt.mask_file = place.rest;
    }
    std::vector<VideoPrompt> list;
    for (auto& [place, prompt] : all) list.push_back(std::move(prompt));
    return list;
}

}  // namespace sam3::cli
