#pragma once

#include "mask/mask.h"

#include <optional>

// Where a person who knows the truth would click, as the SAM papers simulate it.
namespace sam3 {

struct SimulatedClick {
    int x = 0, y = 0;
    bool positive = true;
};

// The middle of the object: the centre of its largest inner circle. Nothing for an empty mask.
std::optional<SimulatedClick> first_click(const Mask& truth);

// The middle of the largest error, measured by its inner circle: positive where something is missing, negative where
// there is too much (also when both are as large). Nothing when the mask is right.
std::optional<SimulatedClick> correcting_click(const Mask& mask, const Mask& truth);

}  // namespace sam3
