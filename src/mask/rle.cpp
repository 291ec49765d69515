#include "mask/rle.h"

#include "util/error.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace sam3 {
namespace {

constexpr char kFirstCharacter = 48;   // '0': six bits a character
constexpr uint32_t kContinues = 0x20;  // another character follows
constexpr uint32_t kSign = 0x10;       // of the last character: the number is negative

void check_size(int width, int height) {
    if (width < 0 || height < 0) fail("expected a mask of non-negative size, found ", width, " x ", height);
    if (static_cast<int64_t>(width) * height > std::numeric_limits<uint32_t>::max())
        fail("expected a mask of at most 2^32 - 1 pixels, found ", width, " x ", height);
}

void check_counts(const std::vector<uint32_t>& counts, int width, int height) {
    check_size(width, height);
    uint64_t total = 0;
    for (const uint32_t count : counts) total += count;
    if (total != static_cast<uint64_t>(width) * static_cast<uint64_t>(height))
        fail("expected RLE runs that sum to ", width, " x ", height, " pixels, found ", total);
}

// Rows of `from` (width x height) become columns, bytes become 0 or 1; in tiles, which stay in the cache.
std::vector<uint8_t> transposed(const std::vector<uint8_t>& from, int width, int height) {
    constexpr int kTile = 32;
    std::vector<uint8_t> to(from.size());
    const auto stride = static_cast<size_t>(width);
    for (int top = 0; top < height; top += kTile)
        for (int left = 0; left < width; left += kTile)
            for (int x = left; x < std::min(left + kTile, width); ++x) {
                uint8_t* column = to.data() + static_cast<size_t>(x) * static_cast<size_t>(height);
                for (int y = top; y < std::min(top + kTile, height); ++y)
                    column[y] = from[static_cast<size_t>(y) * stride + static_cast<size_t>(x)] != 0 ? 1 : 0;
            }
    return to;
}

void check_same_size(const Rle& a, const Rle& b) {
    if (a.width != b.width || a.height != b.height)
        fail("expected two masks of one size, found ", a.width, " x ", a.height, " and ", b.width, " x ", b.height);
}

void append_number(std::string& text, int64_t value) {
    for (bool more = true; more;) {
        uint32_t bits = static_cast<uint32_t>(value) & 0x1F;
        value >>= 5;
        more = (bits & kSign) != 0 ? value != -1 : value != 0;
        if (more) bits |= kContinues;
        text.push_back(static_cast<char>(kFirstCharacter + static_cast<char>(bits)));
    }
}

int64_t read_number(std::string_view text, size_t& at) {
    int64_t value = 0;
    for (int shift = 0;; shift += 5) {
        if (at >= text.size())
            fail("expected an RLE string, found one that ends inside a number (", text.size(), " characters)");
        const int bits = static_cast<unsigned char>(text[at]) - kFirstCharacter;
        if (bits < 0 || bits >= 64)
            fail("expected an RLE string of characters '0' to 'o', found code ", bits + kFirstCharacter,
                 " at position ", at);
        if (shift > 30) fail("expected RLE numbers of at most 7 characters, found a longer one at position ", at);
        ++at;
        value |= static_cast<int64_t>(bits & 0x1F) << shift;
        if ((static_cast<uint32_t>(bits) & kContinues) != 0) continue;
        if ((static_cast<uint32_t>(bits) & kSign) != 0) value |= -(int64_t{1} << (shift + 5));
        return value;
    }
}

// Steps through the runs of one mask, skipping empty ones.
class RunReader {
public:
    explicit RunReader(const Rle& rle) : counts_(rle.counts) { settle(); }

    bool done() const { return at_ >= counts_.size(); }
    bool value() const { return (at_ & 1) != 0; }
    uint32_t left() const { return left_; }
    void take(uint32_t length) {
        left_ -= length;
        if (left_ == 0) {
            ++at_;
            settle();
        }
    }

private:
    void settle() {
        while (at_ < counts_.size() && counts_[at_] == 0) ++at_;
        left_ = done() ? 0 : counts_[at_];
    }

    const std::vector<uint32_t>& counts_;
    size_t at_ = 0;
    uint32_t left_ = 0;
};

// Calls visit(length, in_a, in_b) for the pieces on which both masks are constant.
template <typename Visit>
void for_each_piece(const Rle& a, const Rle& b, Visit visit) {
    check_same_size(a, b);
    RunReader left(a);
    RunReader right(b);
    while (!left.done() && !right.done()) {
        const uint32_t length = std::min(left.left(), right.left());
        visit(length, left.value(), right.value());
        left.take(length);
        right.take(length);
    }
}

template <typename Combine>
Rle combine(const Rle& a, const Rle& b, Combine inside) {
    Rle out{a.width, a.height, {0}};
    bool current = false;
    for_each_piece(a, b, [&](uint32_t length, bool in_a, bool in_b) {
        if (inside(in_a, in_b) != current) {
            out.counts.push_back(0);
            current = !current;
        }
        out.counts.back() += length;
    });
    return out;
}

}  // namespace

Rle rle_encode(const Mask& mask) {
    check_mask(mask);
    check_size(mask.width, mask.height);
    Rle rle{mask.width, mask.height, {}};
    const std::vector<uint8_t> columns = transposed(mask.data, mask.width, mask.height);
    const uint8_t* at = columns.data();
    const uint8_t* const end = at + columns.size();
    for (uint8_t value = 0; at != end; value ^= 1) {
        const void* change = std::memchr(at, value ^ 1, static_cast<size_t>(end - at));
        const uint8_t* next = change == nullptr ? end : static_cast<const uint8_t*>(change);
        rle.counts.push_back(static_cast<uint32_t>(next - at));
        at = next;
    }
    if (rle.counts.empty()) rle.counts.push_back(0);
    return rle;
}

Mask rle_decode(const Rle& rle) {
    check_counts(rle.counts, rle.width, rle.height);
    Mask mask(rle.width, rle.height);
    size_t at = 0;
    for (size_t i = 0; i < rle.counts.size(); at += rle.counts[i], ++i)
        if ((i & 1) != 0) std::fill_n(mask.data.begin() + static_cast<std::ptrdiff_t>(at), rle.counts[i], uint8_t{1});
    mask.data = transposed(mask.data, rle.height, rle.width);
    return mask;
}

std::string rle_to_string(const Rle& rle) {
    std::string text;
    for (size_t i = 0; i < rle.counts.size(); ++i) {
        // From the fourth run on, the difference to the run two before it is stored.
        const int64_t before = i > 2 ? rle.counts[i - 2] : 0;
        append_number(text, static_cast<int64_t>(rle.counts[i]) - before);
    }
    return text;
}

Rle rle_from_string(std::string_view text, int width, int height) {
    check_size(width, height);
    std::vector<uint32_t> counts;
    for (size_t at = 0; at < text.size();) {
        int64_t value = read_number(text, at);
        if (counts.size() > 2) value += counts[counts.size() - 2];
        if (value < 0 || value > std::numeric_limits<uint32_t>::max())
            fail("expected RLE runs of 0 or more pixels, found a run of ", value, " at position ", at);
        counts.push_back(static_cast<uint32_t>(value));
    }
    return rle_from_counts(std::move(counts), width, height);
}

Rle rle_from_counts(std::vector<uint32_t> counts, int width, int height) {
    check_counts(counts, width, height);
    return {width, height, std::move(counts)};
}

int64_t rle_area(const Rle& rle) {
    int64_t area = 0;
    for (size_t i = 1; i < rle.counts.size(); i += 2) area += rle.counts[i];
    return area;
}

CocoBox rle_box(const Rle& rle) {
    if (rle.height == 0) return {};
    int64_t left = rle.width, right = -1, top = rle.height, bottom = -1;
    int64_t at = 0;
    for (size_t i = 0; i < rle.counts.size(); at += rle.counts[i], ++i) {
        if ((i & 1) == 0 || rle.counts[i] == 0) continue;
        const int64_t last = at + rle.counts[i] - 1;
        const bool one_column = at / rle.height == last / rle.height;
        left = std::min(left, at / rle.height);
        right = std::max(right, last / rle.height);
        top = std::min(top, one_column ? at % rle.height : 0);  // a run over a column's end touches top and bottom
        bottom = std::max(bottom, one_column ? last % rle.height : rle.height - 1);
    }
    if (right < 0) return {};
    return {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right - left + 1),
            static_cast<int>(bottom - top + 1)};
}

Rle rle_union(const Rle& a, const Rle& b) {
    return combine(a, b, [](bool in_a, bool in_b) { return in_a || in_b; });
}

Rle rle_intersection(const Rle& a, const Rle& b) {
    return combine(a, b, [](bool in_a, bool in_b) { return in_a && in_b; });
}

int64_t rle_intersection_area(const Rle& a, const Rle& b) {
    int64_t area = 0;
    for_each_piece(a, b, [&](uint32_t length, bool in_a, bool in_b) { area += in_a && in_b ? length : 0; });
    return area;
}

double rle_iou(const Rle& a, const Rle& b) {
    const int64_t intersection = rle_intersection_area(a, b);
    const int64_t either = rle_area(a) + rle_area(b) - intersection;
    return either == 0 ? 0.0 : static_cast<double>(intersection) / static_cast<double>(either);
}

double rle_iou_crowd(const Rle& detection, const Rle& crowd) {
    const int64_t area = rle_area(detection);
    return area == 0 ? 0.0 : static_cast<double>(rle_intersection_area(detection, crowd)) / static_cast<double>(area);
}

}  // namespace sam3
