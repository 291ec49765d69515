#pragma once

#include "mask/geometry.h"

#include <span>
#include <vector>

namespace sam3 {

using Ring = std::vector<Point>;  // closed: the last point joins the first, which is not repeated

struct Polygon {
    Ring outer;               // clockwise on the screen
    std::vector<Ring> holes;  // counter-clockwise
};

// The outlines of the mask's 4-connected regions along the edges of its pixels, corners only: pixel (x, y) is the
// square from (x, y) to (x + 1, y + 1). With tolerance 0 rasterize() gives the mask back exactly; otherwise corners are
// left out as long as the line stays within `tolerance` pixels of the outline (Douglas-Peucker), and holes that vanish
// are dropped.
std::vector<Polygon> mask_to_polygons(const Mask& mask, float tolerance = 0.0F);

// Pixels whose centre lies inside a polygon and outside of its holes (even-odd rule); several polygons are united.
// Coordinates may lie outside of the mask but must be finite.
Mask rasterize(std::span<const Polygon> polygons, int width, int height);

// One ring for all of them, holes included, joined by slits without width, for formats that know nothing else. Under
// the even-odd rule it covers the same pixels as long as the polygons do not overlap.
Ring joined_ring(std::span<const Polygon> polygons);

double ring_area(const Ring& ring);  // positive when clockwise on the screen

}  // namespace sam3
