#include "mask/polygon.h"

#include <algorithm>

namespace sam3 {
namespace {

constexpr size_t kMostPairs = size_t{1} << 22;  // of corners that are compared for one slit

struct Slit {
    size_t from = 0, to = 0;
};

// The nearest corners of the two; of long rings any two, since a slit may run anywhere.
Slit shortest_slit(const Ring& ring, const Ring& other) {
    Slit best;
    if (ring.size() > kMostPairs / std::max<size_t>(other.size(), 1)) return {ring.size() - 1, 0};
    float least = -1;
    for (size_t i = 0; i < ring.size(); ++i)
        for (size_t j = 0; j < other.size(); ++j) {
            const float dx = ring[i].x - other[j].x, dy = ring[i].y - other[j].y;
            const float distance = dx * dx + dy * dy;
            if (least >= 0 && distance >= least) continue;
            least = distance;
            best = {i, j};
        }
    return best;
}

// Goes from the ring to the other, once around it, and back the same way.
void join(Ring& ring, const Ring& other) {
    if (other.empty()) return;
    if (ring.empty()) {
        ring = other;
        return;
    }
    const Slit slit = shortest_slit(ring, other);
    Ring detour(other.begin() + static_cast<std::ptrdiff_t>(slit.to), other.end());
    detour.insert(detour.end(), other.begin(), other.begin() + static_cast<std::ptrdiff_t>(slit.to) + 1);
    detour.push_back(ring[slit.from]);
    ring.insert(ring.begin() + static_cast<std::ptrdiff_t>(slit.from) + 1, detour.begin(), detour.end());
}

}  // namespace

Ring joined_ring(std::span<const Polygon> polygons) {
    Ring ring;
    for (const Polygon& polygon : polygons) {
        join(ring, polygon.outer);
        for (const Ring& hole : polygon.holes) join(ring, hole);
    }
    return ring;
}

}  // namespace sam3
