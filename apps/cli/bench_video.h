#pragma once

#include "bench_tasks.h"

#include <memory>

namespace sam3::cli {

// Frames of a video with objects that were clicked on the first.
std::unique_ptr<BenchRunner> make_click_video_runner(const std::shared_ptr<ImageSession>& session, const BenchJob& job);

// Frames of a video on each of which the phrase is looked for, and exactly `objects` things are found and followed,
// whatever their scores: time must not depend on what a network thinks of a picture.
std::unique_ptr<BenchRunner> make_concept_video_runner(const std::shared_ptr<ImageSession>& session,
                                                       const BenchJob& job);

}  // namespace sam3::cli
