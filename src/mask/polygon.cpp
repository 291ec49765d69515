#include "mask/polygon.h"

#include "mask/components.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>

namespace sam3 {
namespace {

// Walks with the mask on the right-hand side: right along the top of a pixel, down along its right side, and so on.
enum Direction { kRight, kDown, kLeft, kUp };
constexpr int kStepX[4] = {1, 0, -1, 0};
constexpr int kStepY[4] = {0, 1, 0, -1};
// The pixels ahead of a corner, relative to it, by direction: on the right hand and on the left hand.
constexpr int kRightAhead[4][2] = {{0, 0}, {-1, 0}, {-1, -1}, {0, -1}};
constexpr int kLeftAhead[4][2] = {{0, -1}, {0, 0}, {-1, 0}, {-1, -1}};

class Tracer {
public:
    explicit Tracer(const Mask& mask) : mask_(mask), seen_(mask.data.size(), 0) {}

    // Whether an outline that was not walked yet runs along the top of this pixel.
    bool starts_at(int x, int y) const { return inside(x, y) && !inside(x, y - 1) && seen_[mask_.index(x, y)] == 0; }

    Ring walk(int start_x, int start_y) {
        Ring ring;
        int x = start_x;
        int y = start_y;
        int direction = kRight;
        do {
            if (direction == kRight) seen_[mask_.index(x, y)] = 1;
            x += kStepX[direction];
            y += kStepY[direction];
            const int turned = turn(x, y, direction);
            if (turned != direction) ring.push_back({static_cast<float>(x), static_cast<float>(y)});
            direction = turned;
        } while (x != start_x || y != start_y || direction != kRight);
        return ring;
    }

private:
    bool inside(int x, int y) const {
        return x >= 0 && y >= 0 && x < mask_.width && y < mask_.height && mask_.at(x, y) != 0;
    }

    // Right turns come first: pixels that touch by a corner only belong to different outlines.
    int turn(int x, int y, int direction) const {
        if (!inside(x + kRightAhead[direction][0], y + kRightAhead[direction][1])) return (direction + 1) & 3;
        if (!inside(x + kLeftAhead[direction][0], y + kLeftAhead[direction][1])) return direction;
        return (direction + 3) & 3;
    }

    const Mask& mask_;
    std::vector<uint8_t> seen_;
};

double distance_to_segment(const Point& p, const Point& a, const Point& b) {
    const double dx = static_cast<double>(b.x) - static_cast<double>(a.x);
    const double dy = static_cast<double>(b.y) - static_cast<double>(a.y);
    const double px = static_cast<double>(p.x) - static_cast<double>(a.x);
    const double py = static_cast<double>(p.y) - static_cast<double>(a.y);
    const double length = dx * dx + dy * dy;
    const double t = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.0, 1.0) : 0.0;
    return std::hypot(px - t * dx, py - t * dy);
}

// Keeps the points of [first, last] that are needed; an own stack, since outlines can be long.
void mark_needed(const Ring& ring, size_t first, size_t last, double tolerance, std::vector<char>& needed) {
    std::vector<std::pair<size_t, size_t>> stack{{first, last}};
    while (!stack.empty()) {
        const auto [from, to] = stack.back();
        stack.pop_back();
        double worst = tolerance;
        size_t at = 0;
        for (size_t i = from + 1; i < to; ++i) {
            const double distance = distance_to_segment(ring[i], ring[from], ring[to % ring.size()]);
            if (distance > worst) {
                worst = distance;
                at = i;
            }
        }
        if (at == 0) continue;
        needed[at] = 1;
        stack.emplace_back(from, at);
        stack.emplace_back(at, to);
    }
}

Ring simplify(const Ring& ring, double tolerance) {
    if (tolerance <= 0 || ring.size() <= 4) return ring;
    size_t farthest = 0;
    double distance = -1;
    for (size_t i = 1; i < ring.size(); ++i) {
        const double d = distance_to_segment(ring[i], ring[0], ring[0]);
        if (d > distance) {
            distance = d;
            farthest = i;
        }
    }
    std::vector<char> needed(ring.size(), 0);
    needed[0] = needed[farthest] = 1;
    mark_needed(ring, 0, farthest, tolerance, needed);
    mark_needed(ring, farthest, ring.size(), tolerance, needed);
    Ring out;
    for (size_t i = 0; i < ring.size(); ++i)
        if (needed[i] != 0) out.push_back(ring[i]);
    return out;
}

// The first pixel whose centre is not left of `position`, inside [0, size].
int first_center(double position, int size) {
    return static_cast<int>(std::clamp(std::ceil(position - 0.5), 0.0, static_cast<double>(size)));
}

// Flips every pixel to the right of the edges' crossings; a running exclusive-or along the row then tells inside.
void flip_ring(const Ring& ring, Mask& flips) {
    for (size_t i = 0; i < ring.size(); ++i) {
        Point a = ring[i];
        Point b = ring[(i + 1) % ring.size()];
        if (a.y == b.y) continue;
        if (a.y > b.y) std::swap(a, b);
        const double ax = static_cast<double>(a.x), ay = static_cast<double>(a.y);
        const double slope = (static_cast<double>(b.x) - ax) / (static_cast<double>(b.y) - ay);
        const int end = first_center(static_cast<double>(b.y), flips.height);
        for (int y = first_center(ay, flips.height); y < end; ++y) {
            const int x = first_center(ax + (y + 0.5 - ay) * slope, flips.width);
            if (x < flips.width) flips.at(x, y) ^= 1;
        }
    }
}

void check_ring(const Ring& ring) {
    for (const Point& point : ring)
        if (!std::isfinite(point.x) || !std::isfinite(point.y))
            fail("expected polygon corners with finite coordinates, found (", point.x, ", ", point.y, ")");
}

}  // namespace

double ring_area(const Ring& ring) {
    double twice = 0;
    for (size_t i = 0; i < ring.size(); ++i) {
        const Point& a = ring[i];
        const Point& b = ring[(i + 1) % ring.size()];
        twice +=
            static_cast<double>(a.x) * static_cast<double>(b.y) - static_cast<double>(b.x) * static_cast<double>(a.y);
    }
    return twice / 2;
}

std::vector<Polygon> mask_to_polygons(const Mask& mask, float tolerance) {
    const Components regions = label_components(mask, Connectivity::four);
    std::vector<Polygon> polygons(static_cast<size_t>(regions.count()));
    Tracer tracer(mask);
    for (int y = 0; y < mask.height; ++y)
        for (int x = 0; x < mask.width; ++x) {
            if (!tracer.starts_at(x, y)) continue;
            const Ring ring = tracer.walk(x, y);
            Polygon& polygon = polygons[static_cast<size_t>(regions.labels[mask.index(x, y)] - 1)];
            const Ring simple = simplify(ring, static_cast<double>(tolerance));
            if (polygon.outer.empty())  // a region's first pixel lies on its outer ring
                polygon.outer = simple.size() >= 3 ? simple : ring;
            else if (simple.size() >= 3)
                polygon.holes.push_back(simple);
        }
    return polygons;
}

Mask rasterize(std::span<const Polygon> polygons, int width, int height) {
    if (width < 0 || height < 0) fail("expected a mask of non-negative size, found ", width, " x ", height);
    Mask mask(width, height);
    Mask flips(width, height);
    for (const Polygon& polygon : polygons) {
        check_ring(polygon.outer);
        for (const Ring& hole : polygon.holes) check_ring(hole);
        if (polygon.outer.size() < 3) continue;
        const auto by_y = [](const Point& a, const Point& b) { return a.y < b.y; };
        const auto [top, bottom] = std::minmax_element(polygon.outer.begin(), polygon.outer.end(), by_y);
        flip_ring(polygon.outer, flips);
        int first = first_center(static_cast<double>(top->y), height);
        int last = first_center(static_cast<double>(bottom->y), height);
        for (const Ring& hole : polygon.holes) {
            if (hole.size() < 3) continue;
            flip_ring(hole, flips);
            const auto [hole_top, hole_bottom] = std::minmax_element(hole.begin(), hole.end(), by_y);
            first = std::min(first, first_center(static_cast<double>(hole_top->y), height));
            last = std::max(last, first_center(static_cast<double>(hole_bottom->y), height));
        }
        for (int y = first; y < last; ++y) {
            uint8_t in = 0;
            for (int x = 0; x < width; ++x) {
                in ^= flips.at(x, y);
                flips.at(x, y) = 0;
                mask.at(x, y) |= in;
            }
        }
    }
    return mask;
}

}  // namespace sam3
