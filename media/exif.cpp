#include "media/exif.h"

#include <algorithm>
#include <array>

namespace sam3 {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShortType = 3;

// Reads numbers in the block's byte order; outside the block everything is 0.
class TiffReader {
public:
    explicit TiffReader(std::span<const uint8_t> block) : block_(block) {}

    bool open() {
        if (block_.size() < 8) return false;
        little_ = block_[0] == 'I' && block_[1] == 'I';
        const bool big = block_[0] == 'M' && block_[1] == 'M';
        return (little_ || big) && number(2, 2) == 42;
    }

    uint32_t number(size_t offset, size_t bytes) const {
        if (offset > block_.size() || bytes > block_.size() - offset) return 0;
        uint32_t value = 0;
        for (size_t i = 0; i < bytes; ++i) value = value << 8 | block_[offset + (little_ ? bytes - 1 - i : i)];
        return value;
    }

private:
    std::span<const uint8_t> block_;
    bool little_ = false;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> block) {
    static constexpr std::array<uint8_t, 6> kMark = {'E', 'x', 'i', 'f', 0, 0};
    if (block.size() > kMark.size() && std::equal(kMark.begin(), kMark.end(), block.begin()))
        block = block.subspan(kMark.size());
    TiffReader tiff(block);
    if (!tiff.open()) return 1;
    const size_t directory = tiff.number(4, 4);
    const size_t entries = tiff.number(directory, 2);
    for (size_t i = 0; i < entries; ++i) {
        const size_t entry = directory + 2 + i * 12;
        if (tiff.number(entry, 2) != kOrientationTag || tiff.number(entry + 2, 2) != kShortType) continue;
        const uint32_t value = tiff.number(entry + 8, 2);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
}

Image apply_orientation(Image image, int orientation) {
    if (orientation <= 1 || orientation > 8) return image;
    Image upright;
    apply_orientation(image, orientation, upright);
    return upright;
}

void apply_orientation(const Image& stored, int orientation, Image& upright) {
    const bool swap = orientation >= 5;  // rows become columns
    const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    upright.width = swap ? stored.height : stored.width;
    upright.height = swap ? stored.width : stored.height;
    upright.channels = stored.channels;
    upright.pixels.resize(stored.pixels.size());
    constexpr int kTile = 32;  // rows that become columns stay in the cache
    for (int top = 0; top < upright.height; top += kTile)
        for (int left = 0; left < upright.width; left += kTile)
            for (int y = top; y < std::min(top + kTile, upright.height); ++y)
                for (int x = left; x < std::min(left + kTile, upright.width); ++x) {
                    const int u = swap ? y : x;
                    const int v = swap ? x : y;
                    const int from_x = mirror_x ? stored.width - 1 - u : u;
                    const int from_y = mirror_y ? stored.height - 1 - v : v;
                    std::copy_n(stored.at(from_x, from_y), stored.channels, upright.at(x, y));
                }
}

}  // namespace sam3
