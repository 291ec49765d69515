#include "engine/concept_heuristics.h"

#include "mask/geometry.h"
#include "util/error.h"
#include "util/sigmoid.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

namespace sam3 {

namespace {

constexpr float kSuppressed = -10.0F;                             // logits of a mask that gives way
constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();  // hidden for good: later than any frame

bool contains(const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

void split_unmatched(std::span<const Mask> tracks, std::span<const int> ids, const std::vector<bool>& matched,
                     Association& out) {
    for (size_t m = 0; m < tracks.size(); ++m) {
        if (mask_area(tracks[m]) == 0)
            out.empty.push_back(ids[m]);
        else if (!matched[m])
            out.unmatched.push_back(ids[m]);
    }
}

Tensor copy_of(std::span<const float> logits, const Tensor& stack) {
    Tensor copy = Tensor::host({stack.dim(1), stack.dim(2)});
    std::memcpy(copy.raw(), logits.data(), logits.size_bytes());
    return copy;
}

// Keeps the best `room` of the new detections, best first; all of them in their order when there is room.
std::vector<int> within_limit(std::vector<int> candidates, const std::vector<float>& scores, int64_t room) {
    if (static_cast<int64_t>(candidates.size()) <= room) return candidates;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](int a, int b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
    candidates.resize(static_cast<size_t>(std::max<int64_t>(room, 0)));
    return candidates;
}

// Whether mask i gives way to mask j, which overlaps it: the one hidden last does. Backwards in time that is the one
// with the lower frame, and one never hidden counts as lowest.
bool gives_way(int64_t hidden_i, int64_t hidden_j, bool reverse) {
    const bool later = reverse ? hidden_i < hidden_j : hidden_i > hidden_j;
    return later && hidden_j > ConceptBook::kNever;
}

}  // namespace

void append_detections(const ConceptVideoConfig& rules, int phrase, std::span<const float> scores, const Tensor& stack,
                       FrameDetections& out) {
    const std::vector<int> kept = kept_detections(scores, stack, rules.score_threshold_detection, rules.det_nms_thresh);
    if (kept.empty()) return;
    const int64_t before = stack_size(out.masks);
    if (before == 0 && kept.size() == scores.size()) {  // all of the first phrase: as they are
        out.masks = stack;
        out.scores.assign(scores.begin(), scores.end());
        out.phrases.assign(scores.size(), phrase);
        return;
    }
    Tensor joined = Tensor::host({before + static_cast<int64_t>(kept.size()), stack.dim(1), stack.dim(2)});
    if (before > 0) std::memcpy(joined.raw(), out.masks.raw(), static_cast<size_t>(out.masks.numel()) * sizeof(float));
    for (size_t i = 0; i < kept.size(); ++i) {
        std::ranges::copy(stack_row(stack, kept[i]), stack_row(joined, before + static_cast<int64_t>(i)).begin());
        out.scores.push_back(scores[static_cast<size_t>(kept[i])]);
        out.phrases.push_back(phrase);
    }
    out.masks = joined;
}

Association associate(const ConceptVideoConfig& rules, const FrameDetections& detections, std::span<const Mask> tracks,
                      std::span<const int> ids, std::span<const int> phrases, int threads) {
    Association out;
    const size_t rows = detections.scores.size();
    const size_t columns = tracks.size();
    if (columns == 0) {  // no score is too low for the first objects
        for (size_t n = 0; n < rows; ++n) out.new_detections.push_back(static_cast<int>(n));
        return out;
    }
    std::vector<bool> track_matched(columns, false);
    const std::vector<float> overlaps = mask_overlaps(inside(detections.masks, threads), tracks, Overlap::iou, threads);
    for (size_t n = 0; n < rows; ++n) {
        float best = 0;
        size_t best_track = 0;
        std::vector<int> matches;
        for (size_t m = 0; m < columns; ++m) {
            const float overlap = phrases[m] == detections.phrases[n] ? overlaps[n * columns + m] : 0.0F;
            if (overlap > best) best_track = m;
            best = std::max(best, overlap);
            if (overlap >= rules.assoc_iou_thresh) matches.push_back(ids[m]);
            if (overlap >= rules.trk_assoc_iou_thresh) track_matched[m] = true;
        }
        const float score = detections.scores[n];
        const bool is_new = score >= rules.new_det_thresh && matches.empty();
        if (is_new) out.new_detections.push_back(static_cast<int>(n));
        if (!is_new && score >= rules.high_conf_thresh && best >= rules.high_iou_thresh)
            out.confirmed[ids[best_track]] = static_cast<int>(n);
        out.matches.push_back(std::move(matches));
    }
    split_unmatched(tracks, ids, track_matched, out);
    return out;
}

ConceptBook::ConceptBook(const ConceptVideoConfig& rules, bool shift_on_removal)
    : rules_(rules), shift_on_removal_(shift_on_removal) {
    rules_.validate("the rules of the video");
}

ConceptBook::Track* ConceptBook::find(int id) {
    const auto found = std::find_if(tracks_.begin(), tracks_.end(), [&](const Track& t) { return t.id == id; });
    return found == tracks_.end() ? nullptr : &*found;
}

std::vector<int> ConceptBook::ids() const {
    std::vector<int> ids;
    for (const Track& track : tracks_) ids.push_back(track.id);
    return ids;
}

std::vector<int> ConceptBook::phrases() const {
    std::vector<int> phrases;
    for (const Track& track : tracks_) phrases.push_back(track.phrase);
    return phrases;
}

FramePlan ConceptBook::plan(const FrameMoment& when, const FrameDetections& detections, FrameTracks& tracks,
                            int threads) {
    FramePlan plan;
    plan.ids = ids();
    const size_t count = plan.ids.size();
    if (static_cast<int64_t>(count) != stack_size(tracks.masks) || count != tracks.object_scores.size())
        fail("expected a mask and a score for each of ", count, " tracks, found ", stack_size(tracks.masks), " and ",
             tracks.object_scores.size());
    const std::vector<Mask> shapes = inside(tracks.masks, threads);
    const Association association = associate(rules_, detections, shapes, plan.ids, phrases(), threads);
    plan.new_detections = within_limit(association.new_detections, detections.scores,
                                       rules_.max_num_objects - static_cast<int64_t>(count));
    add_tracks(when, detections, plan);
    count_matches(association, when.reverse);
    judge(when, plan);
    const int period = rules_.recondition_every_nth_frame;
    if (period > 0 && when.frame % period == 0)
        for (const auto& [id, detection] : association.confirmed) {
            const auto place = std::find(plan.ids.begin(), plan.ids.end(), id) - plan.ids.begin();
            if (tracks.object_scores[static_cast<size_t>(place)] > rules_.high_conf_thresh)
                plan.reconditioned[id] = detection;
        }
    if (count > 0) {
        if (rules_.suppress_overlapping_based_on_recent_occlusion_threshold > 0)
            suppress_recently_hidden(when, plan, shapes, tracks.masks, threads);
        write_memories(detections, plan, tracks.masks, threads);
    }
    for (const int id : plan.removed) remove(id);
    return plan;
}

void ConceptBook::add_tracks(const FrameMoment& when, const FrameDetections& detections, FramePlan& plan) {
    for (const int detection : plan.new_detections) {
        const auto n = static_cast<size_t>(detection);
        plan.new_ids.push_back(next_id_);
        tracks_.push_back({.id = next_id_++,
                           .phrase = detections.phrases[n],
                           .score = detections.scores[n],
                           .first_frame = when.frame,
                           .keep_alive = rules_.init_trk_keep_alive});
    }
}

void ConceptBook::count_matches(const Association& association, bool reverse) {
    std::set<int> matched;
    for (const std::vector<int>& ids : association.matches) matched.insert(ids.begin(), ids.end());
    for (const int id : matched) {
        Track* track = find(id);
        track->keep_alive = std::min(rules_.max_trk_keep_alive, track->keep_alive + 1);
    }
    const auto lower = [&](Track* track) {
        track->keep_alive = std::max(rules_.min_trk_keep_alive, track->keep_alive - 1);
    };
    for (const int id : association.unmatched) {
        ++find(id)->unmatched;
        lower(find(id));
    }
    if (rules_.decrease_trk_keep_alive_for_empty_masklets)
        for (const int id : association.empty) lower(find(id));

    for (const std::vector<int>& ids : association.matches) {
        if (ids.size() < 2) continue;
        const auto earlier = [&](int a, int b) {
            return reverse ? find(a)->first_frame > find(b)->first_frame : find(a)->first_frame < find(b)->first_frame;
        };
        const int oldest = *std::min_element(ids.begin(), ids.end(), earlier);
        for (const int id : ids)
            if (id != oldest) ++shared_[{oldest, id}];
    }
}

// Which tracks go because they were unmatched or a duplicate in their first frames, and which are hidden because they
// were unmatched for too long.
void ConceptBook::judge(const FrameMoment& when, FramePlan& plan) const {
    if (when.streaming) return;
    const auto in_hot_start = [&](const Track& track) {
        return when.reverse ? track.first_frame < when.frame + rules_.hotstart_delay
                            : track.first_frame > when.frame - rules_.hotstart_delay;
    };
    for (const Track& track : tracks_) {
        if (track.unmatched == 0) continue;
        if (track.unmatched >= rules_.hotstart_unmatch_thresh && in_hot_start(track))
            plan.removed.push_back(track.id);
        else if (track.keep_alive <= 0 && !rules_.suppress_unmatched_only_within_hotstart)
            plan.hidden.push_back(track.id);
    }
    for (const Track& track : tracks_) {
        if (contains(plan.removed, track.id) || !in_hot_start(track)) continue;
        const bool duplicate = std::any_of(shared_.begin(), shared_.end(), [&](const auto& entry) {
            return entry.first.second == track.id && entry.second >= rules_.hotstart_dup_thresh;
        });
        if (duplicate) plan.removed.push_back(track.id);
    }
    std::sort(plan.removed.begin(), plan.removed.end());
}

void ConceptBook::suppress_recently_hidden(const FrameMoment& when, const FramePlan& plan, std::span<const Mask> shapes,
                                           const Tensor& masks, int threads) {
    const size_t count = plan.ids.size();
    std::vector<float> overlaps;  // made when the first is asked for, which on most frames none is
    const auto overlap = [&](size_t i, size_t j) {
        if (overlaps.empty()) overlaps = mask_overlaps(shapes, shapes, Overlap::iou, threads);
        return overlaps[i * count + j];
    };
    std::vector<int64_t> hidden;
    for (size_t i = 0; i < count; ++i)
        hidden.push_back(tracks_[i].last_hidden.value_or(contains(plan.removed, plan.ids[i]) ? kAlways : kNever));
    for (size_t i = 0; i < count; ++i) {
        bool suppressed = false;
        for (size_t j = 0; j < count; ++j)
            suppressed |= i != j && tracks_[i].phrase == tracks_[j].phrase &&
                          gives_way(hidden[i], hidden[j], when.reverse) &&
                          overlap(i, j) >= rules_.suppress_overlapping_based_on_recent_occlusion_threshold;
        const bool absent = mask_area(shapes[i]) == 0;
        tracks_[i].last_hidden = suppressed || absent ? when.frame : hidden[i];
        if (suppressed) std::ranges::fill(stack_row(masks, static_cast<int64_t>(i)), kSuppressed);
    }
}

void ConceptBook::write_memories(const FrameDetections& detections, FramePlan& plan, const Tensor& masks,
                                 int threads) const {
    std::vector<int> groups;
    for (size_t i = 0; i < plan.ids.size(); ++i) {
        groups.push_back(tracks_[i].phrase);
        const auto found = plan.reconditioned.find(plan.ids[i]);
        if (found == plan.reconditioned.end() || rules_.recondition_on_trk_masks) continue;
        const std::span<const float> detection = stack_row(detections.masks, found->second);
        std::transform(detection.begin(), detection.end(), stack_row(masks, static_cast<int64_t>(i)).begin(),
                       [](float logit) { return logit >= kDetectionInside ? 1.0F : 0.0F; });
    }
    plan.memory_masks = without_shrunken(masks, groups, threads);
    for (int64_t i = 0; i < stack_size(plan.memory_masks); ++i)
        plan.seen.push_back(any_inside(stack_row(plan.memory_masks, i)));
}

std::vector<FrameObject> ConceptBook::visible(const FramePlan& plan, const FrameDetections& detections,
                                              const FrameTracks& tracks, int threads) const {
    std::map<int, FrameObject> objects;
    for (size_t n = 0; n < plan.new_ids.size(); ++n)
        objects[plan.new_ids[n]].tracker_score = detections.scores[static_cast<size_t>(plan.new_detections[n])];
    const std::vector<int> owners = shift_on_removal_ ? ids() : plan.ids;
    std::vector<FrameObject*> tracked;
    for (size_t i = 0; i < std::min(owners.size(), plan.ids.size()); ++i) tracked.push_back(&objects[owners[i]]);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < tracked.size(); ++i) {
        tracked[i]->tracker_score = sigmoid(tracks.object_scores[i]);
        tracked[i]->logits = copy_of(stack_row(tracks.masks, static_cast<int64_t>(i)), tracks.masks);
    }
    const auto take_detection = [&](int id, int detection) -> Tensor& {
        return objects[id].logits = copy_of(stack_row(detections.masks, detection), detections.masks);
    };
    for (size_t n = 0; n < plan.new_ids.size(); ++n)
        clean_up(take_detection(plan.new_ids[n], plan.new_detections[n]).unsqueeze(0), rules_.fill_hole_area);
    for (const auto& [id, detection] : plan.reconditioned) take_detection(id, detection);

    std::vector<FrameObject> shown;
    for (const Track& track : tracks_) {  // leaves out what was removed
        FrameObject object = objects.at(track.id);
        const std::span<const float> logits(object.logits.data<float>(), static_cast<size_t>(object.logits.numel()));
        if (contains(plan.hidden, track.id) || !any_inside(logits)) continue;
        object.id = track.id;
        object.phrase = track.phrase;
        object.score = track.score;
        shown.push_back(std::move(object));
    }
    std::sort(shown.begin(), shown.end(), [](const FrameObject& a, const FrameObject& b) { return a.id < b.id; });
    return shown;
}

void ConceptBook::forget_shared(int id) {
    std::erase_if(shared_, [&](const auto& entry) { return entry.first.second == id; });
}

void ConceptBook::vouch_for(int id) {
    forget_shared(id);
    if (Track* track = find(id)) {
        track->unmatched = 0;
        track->keep_alive = rules_.max_trk_keep_alive;
    }
}

void ConceptBook::remove(int id) {
    std::erase_if(tracks_, [&](const Track& track) { return track.id == id; });
    forget_shared(id);
}

void ConceptBook::clear() {
    tracks_.clear();
    shared_.clear();
    next_id_ = 0;
}

nlohmann::json ConceptBook::to_json() const {
    nlohmann::json json = {
        {"next_id", next_id_}, {"tracks", nlohmann::json::array()}, {"shared", nlohmann::json::array()}};
    for (const Track& track : tracks_)
        json["tracks"].push_back({{"id", track.id},
                                  {"phrase", track.phrase},
                                  {"score", track.score},
                                  {"first_frame", track.first_frame},
                                  {"unmatched", track.unmatched},
                                  {"keep_alive", track.keep_alive},
                                  {"last_hidden", track.last_hidden ? nlohmann::json(*track.last_hidden) : nullptr}});
    for (const auto& [pair, frames] : shared_) json["shared"].push_back({pair.first, pair.second, frames});
    return json;
}

void ConceptBook::from_json(const nlohmann::json& json) {
    ConceptBook read(rules_, shift_on_removal_);
    try {
        read.next_id_ = json.at("next_id").get<int>();
        for (const auto& entry : json.at("tracks")) {
            Track track{.id = entry.at("id").get<int>(),
                        .phrase = entry.at("phrase").get<int>(),
                        .score = entry.at("score").get<float>(),
                        .first_frame = entry.at("first_frame").get<int64_t>(),
                        .unmatched = entry.at("unmatched").get<int64_t>(),
                        .keep_alive = entry.at("keep_alive").get<int>()};
            if (!entry.at("last_hidden").is_null()) track.last_hidden = entry.at("last_hidden").get<int64_t>();
            if (read.find(track.id) != nullptr || track.id >= read.next_id_)
                fail("the saved session has an object with the id ", track.id, ", which is taken or still to come");
            read.tracks_.push_back(track);
        }
        for (const auto& entry : json.at("shared"))
            read.shared_[{entry.at(0).get<int>(), entry.at(1).get<int>()}] = entry.at(2).get<int64_t>();
    } catch (const nlohmann::json::exception& error) {
        fail("the saved session's tracks cannot be read: ", error.what());
    }
    *this = std::move(read);
}

}  // namespace sam3
