// Saving and restoring an ObjectTracker: the section "objects" of a session file, and its tensors.
#include "engine/object_tracker.h"
#include "util/error.h"

namespace sam3 {

namespace {

using Json = nlohmann::json;

constexpr const char* kObjectsSection = "objects";

Json to_json(const VisualPrompt& prompt) {
    Json points = Json::array();
    for (const VisualPrompt::Point& point : prompt.points) points.push_back({point.x, point.y, point.positive});
    Json json = {{"points", points}};
    if (prompt.box) json["box"] = {prompt.box->x0, prompt.box->y0, prompt.box->x1, prompt.box->y1};
    return json;
}

VisualPrompt prompt_from(const Json& json) {
    VisualPrompt prompt;
    for (const Json& point : json.at("points"))
        prompt.points.push_back({point.at(0).get<float>(), point.at(1).get<float>(), point.at(2).get<bool>()});
    if (json.contains("box")) {
        const Json& box = json.at("box");
        prompt.box = {box.at(0).get<float>(), box.at(1).get<float>(), box.at(2).get<float>(), box.at(3).get<float>()};
    }
    return prompt;
}

// A frame's number as it can occur; a damaged file may hold any.
int64_t frame_from(const Json& json) {
    constexpr int64_t kMost = int64_t{1} << 40;
    const auto frame = json.get<int64_t>();
    if (frame < -kMost || frame > kMost) fail("the frame number ", frame, " in the session file is impossible");
    return frame;
}

std::string tensor_name(int id, int64_t frame, const char* what) {
    return str(kObjectsSection, ".", id, ".", frame, ".", what);
}

}  // namespace

void ObjectTracker::save(SessionWriter& writer, Ops& ops) const {
    // Whether there is one; a tensor that is not there is not written.
    const auto put = [&](int id, int64_t frame, const char* what, const Tensor& tensor) {
        if (tensor) writer.put(tensor_name(id, frame, what), tensor.device() ? ops.download_raw(tensor) : tensor);
        return tensor.defined();
    };
    Json objects = Json::array();
    for (const int id : ids_) {
        const Object& object = objects_.at(id);
        Json entries = Json::array();
        for (const auto& [frame, entry] : object.bank.entries())
            entries.push_back({{"frame", frame},
                               {"tokens", put(id, frame, "tokens", entry.tokens)},
                               {"pointer", put(id, frame, "pointer", entry.pointer)},
                               {"masks", put(id, frame, "masks", entry.masks)},
                               {"object_score", entry.object_score},
                               {"quality", entry.quality},
                               {"conditioning", entry.conditioning},
                               {"by_person", entry.by_person}});
        Json said = Json::array();
        for (const auto& [frame, where] : object.said) said.push_back({{"frame", frame}, {"where", to_json(where)}});
        Json pending = Json::array();
        for (const auto& [frame, prompt] : object.pending)
            pending.push_back({{"frame", frame},
                               {"where", to_json(prompt.where)},
                               {"mask", put(id, frame, "prompt", prompt.mask)},
                               {"by_person", prompt.by_person}});
        Json tracked = Json::array();
        for (const auto& [first, last] : object.tracked.intervals()) tracked.push_back({first, last});
        objects.push_back(
            {{"id", id}, {"entries", entries}, {"said", said}, {"pending", pending}, {"tracked", tracked}});
    }
    writer.put(kObjectsSection, Json{{"objects", objects},
                                     {"last_frame", last_frame_ ? Json(*last_frame_) : Json()},
                                     {"last_reverse", last_reverse_},
                                     {"pass_start", pass_start_}});
}

void ObjectTracker::restore(const SessionReader& reader, Ops& ops) {
    reset();
    const auto get = [&](const Json& json, int id, int64_t frame, const char* what, bool on_device) {
        if (!json.at(what == std::string("prompt") ? "mask" : what).get<bool>()) return Tensor();
        const Tensor host = reader.tensor(tensor_name(id, frame, what));
        return on_device ? ops.upload(host) : host;
    };
    try {
        const Json& state = reader.state(kObjectsSection);
        for (const Json& saved : state.at("objects")) {
            const int id = saved.at("id").get<int>();
            if (has(id)) fail(reader.path(), ": the session file is damaged: object ", id, " stands there twice");
            ids_.push_back(id);
            Object& object = objects_[id];
            for (const Json& item : saved.at("entries")) {
                const auto frame = frame_from(item.at("frame"));
                MemoryBank::Entry entry;
                entry.tokens = get(item, id, frame, "tokens", true);
                entry.pointer = get(item, id, frame, "pointer", true);
                entry.masks = get(item, id, frame, "masks", true);
                entry.object_score = item.at("object_score").get<float>();
                entry.quality = item.at("quality").get<float>();
                entry.conditioning = item.at("conditioning").get<bool>();
                entry.by_person = item.at("by_person").get<bool>();
                object.bank.put(frame, std::move(entry));
            }
            for (const Json& item : saved.at("said"))
                object.said[frame_from(item.at("frame"))] = prompt_from(item.at("where"));
            for (const Json& item : saved.at("pending")) {
                const auto frame = frame_from(item.at("frame"));
                object.pending[frame] = {prompt_from(item.at("where")), get(item, id, frame, "prompt", false),
                                         item.at("by_person").get<bool>()};
            }
            for (const Json& item : saved.at("tracked"))
                object.tracked.add(frame_from(item.at(0)), frame_from(item.at(1)));
        }
        if (!state.at("last_frame").is_null()) last_frame_ = frame_from(state.at("last_frame"));
        last_reverse_ = state.at("last_reverse").get<bool>();
        pass_start_ = frame_from(state.at("pass_start"));
    } catch (const Json::exception& error) {
        reset();
        fail(reader.path(), ": the session file is damaged: ", error.what());
    }
}

}  // namespace sam3
