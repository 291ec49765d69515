#pragma once

#include "formats/predictions.h"

#include <map>
#include <string>

namespace sam3::cli {

// What `sam3 eval` asks a model, and so how its answers are scored.
enum class EvalTask { text, exemplar, click, clicks3, video_text, video_click };

inline const std::map<std::string, EvalTask> kEvalTasks = {
    {"text", EvalTask::text},       {"exemplar", EvalTask::exemplar},     {"click", EvalTask::click},
    {"clicks3", EvalTask::clicks3}, {"video-text", EvalTask::video_text}, {"video-click", EvalTask::video_click},
};

inline bool is_video(EvalTask task) { return task == EvalTask::video_text || task == EvalTask::video_click; }
inline bool is_concept(EvalTask task) {
    return task == EvalTask::text || task == EvalTask::exemplar || task == EvalTask::video_text;
}
inline int clicks_of(EvalTask task) { return is_concept(task) ? 0 : (task == EvalTask::clicks3 ? 3 : 1); }

inline Asked asked_by(EvalTask task) {
    if (task == EvalTask::exemplar) return Asked::exemplars;
    return is_concept(task) ? Asked::phrases : Asked::objects;
}

}  // namespace sam3::cli
