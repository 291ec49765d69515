#pragma once

#include "mask/track.h"

#include <span>

// The measures of DAVIS for objects that are followed through a clip. docs/eval.md has the formulas.
namespace sam3 {

// J: intersection over union of the two masks of one frame; 1 when both are empty.
double region_similarity(const Rle& predicted, const Rle& truth);

// F: precision and recall of the predicted contour as one figure; a contour pixel is right when the other contour is no
// further than 0.008 of the picture's diagonal, rounded up to whole pixels. 1 when neither mask has a contour.
double contour_accuracy(const Rle& predicted, const Rle& truth);

struct ClipFigures {
    double j = 0, f = 0;  // means over the frames
    double last_j = 0;    // on the last frame
};

// From frame `first` on: the frame that was pointed at is not counted.
double mean_j(const Track& predicted, const Track& truth, size_t first = 0);
ClipFigures score_track(const Track& predicted, const Track& truth, size_t first = 0);

struct IdentityFigures {
    int switches = 0;         // how often another prediction takes over an object
    int switched_tracks = 0;  // objects to which that happens
};

// On every frame predictions and objects are paired one to one for the greatest sum of IoU; a pair counts from 0.5 on.
IdentityFigures count_switches(std::span<const Track* const> predicted, std::span<const Track* const> truth);

}  // namespace sam3
