#include "engine/concept_tracker.h"
#include "util/error.h"

#include <algorithm>
#include <cstring>

// Saving and restoring of ConceptTracker: its own state as JSON, the masks of frames that are held back as tensors.
namespace sam3 {

namespace {

using Json = nlohmann::json;

constexpr const char* kKind = "text video";
constexpr const char* kConceptsSection = "concepts";
constexpr int kLargestSide = 1 << 16;

std::string mask_name(size_t frame, size_t object) { return str("pending.", frame, ".", object); }

Json frame_state(const PendingFrame& frame) {
    Json objects = Json::array();
    for (const FrameObject& object : frame.objects)
        objects.push_back({object.id, object.phrase, object.score, object.tracker_score});
    return {{"frame", frame.frame}, {"width", frame.width}, {"height", frame.height}, {"objects", objects}};
}

Tensor read_mask(const SessionReader& reader, const std::string& name) {
    const Tensor stored = reader.tensor(name);
    if (stored.rank() != 2 || stored.dtype() != DType::f32)
        fail(reader.path(), ": expected '", name, "' to be a mask [h, w], found ", to_string(stored.shape()));
    Tensor mask = Tensor::host(stored.shape());
    std::memcpy(mask.raw(), stored.raw(), static_cast<size_t>(stored.numel()) * sizeof(float));
    return mask;
}

PendingFrame read_frame(const SessionReader& reader, const Json& state, size_t index, size_t phrases) {
    PendingFrame frame{
        state.at("frame").get<int64_t>(), state.at("width").get<int>(), state.at("height").get<int>(), {}};
    if (std::min(frame.width, frame.height) < 1 || std::max(frame.width, frame.height) > kLargestSide)
        fail(reader.path(), ": frame ", frame.frame, " has the impossible size ", frame.width, " x ", frame.height);
    for (const Json& entry : state.at("objects")) {
        FrameObject object{entry.at(0).get<int>(), entry.at(1).get<int>(), entry.at(2).get<float>(),
                           entry.at(3).get<float>(), read_mask(reader, mask_name(index, frame.objects.size()))};
        if (object.phrase < 0 || static_cast<size_t>(object.phrase) >= phrases)
            fail(reader.path(), ": object ", object.id, " has the phrase ", object.phrase, " of ", phrases);
        frame.objects.push_back(std::move(object));
    }
    return frame;
}

void check_phrases(const ConceptBook& book, size_t phrases, const std::string& path) {
    for (const ConceptBook::Track& track : book.tracks())
        if (track.phrase < 0 || static_cast<size_t>(track.phrase) >= phrases)
            fail(path, ": object ", track.id, " has the phrase ", track.phrase, " of ", phrases);
}

}  // namespace

void ConceptTracker::save(const std::string& path) const {
    Json state = {{"rules", rules().to_json()},
                  {"total_frames", options_.total_frames},
                  {"reverse", options_.reverse},
                  {"delayed", options_.delayed},
                  {"last", last_ ? Json(*last_) : Json()},
                  {"pushed", pushed_},
                  {"book", book_.to_json()},
                  {"phrases", Json::array()},
                  {"pending", Json::array()}};
    for (const Phrase& phrase : phrases_) state["phrases"].push_back({phrase.text, phrase.active});
    SessionWriter writer(model(), kKind);
    for (const PendingFrame& frame : queue_.frames()) {
        for (size_t i = 0; i < frame.objects.size(); ++i)
            writer.put(mask_name(state["pending"].size(), i), frame.objects[i].logits);
        state["pending"].push_back(frame_state(frame));
    }
    writer.put(kConceptsSection, state);
    tracker_.save(writer, session_->ops());
    writer.save(path);
}

void ConceptTracker::restore(const std::string& path) {
    const SessionReader reader(path, model(), kKind);
    const Json& state = reader.state(kConceptsSection);
    try {
        const auto rules = ConceptVideoConfig::from_json(state.at("rules"), path);
        std::vector<Phrase> phrases;
        for (const Json& entry : state.at("phrases"))
            phrases.push_back({entry.at(0).get<std::string>(), entry.at(1).get<bool>()});
        ConceptBook book(rules, model().behaviour().shift_on_removal);
        book.from_json(state.at("book"));
        check_phrases(book, phrases.size(), path);
        ConceptVideoOptions options = options_;
        options.total_frames = state.at("total_frames").get<int64_t>();
        options.reverse = state.at("reverse").get<bool>();
        options.delayed = state.at("delayed").get<bool>();
        OutputQueue queue(options.delayed ? rules.hotstart_delay : 0);
        for (const Json& entry : state.at("pending"))
            queue.push(read_frame(reader, entry, queue.frames().size(), phrases.size()));
        const Json& last = state.at("last");
        const auto last_frame = last.is_null() ? std::nullopt : std::optional(last.get<int64_t>());
        const auto pushed = state.at("pushed").get<int64_t>();

        tracker_.restore(reader, session_->ops());
        book_ = std::move(book);
        queue_ = std::move(queue);
        phrases_ = std::move(phrases);
        options_ = std::move(options);
        last_ = last_frame;
        pushed_ = pushed;
        encoding_ = 0;
        latest_ = {};
    } catch (const Json::exception& error) {
        fail(path, ": the saved session cannot be read: ", error.what());
    }
}

}  // namespace sam3
