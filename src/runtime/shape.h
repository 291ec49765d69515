#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace sam3 {

// Up to six dimensions, outermost first. A feature map is [N, H, W, C], a token list [N, T, C].
class Shape {
public:
    static constexpr int kMaxRank = 6;

    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) {
        assert(dims.size() <= kMaxRank);
        for (int64_t d : dims) dims_[rank_++] = d;
    }

    int rank() const { return rank_; }
    // Negative indices count from the end.
    int64_t operator[](int i) const { return dims_[index(i)]; }
    int64_t& operator[](int i) { return dims_[index(i)]; }
    void push_back(int64_t d) {
        assert(rank_ < kMaxRank);
        dims_[rank_++] = d;
    }
    const int64_t* begin() const { return dims_.data(); }
    const int64_t* end() const { return dims_.data() + rank_; }

    int64_t numel() const {
        int64_t n = 1;
        for (int64_t d : *this) n *= d;
        return n;
    }
    friend bool operator==(const Shape& a, const Shape& b) {
        if (a.rank_ != b.rank_) return false;
        for (int i = 0; i < a.rank_; ++i)
            if (a.dims_[i] != b.dims_[i]) return false;
        return true;
    }

private:
    int index(int i) const {
        const int k = i < 0 ? i + rank_ : i;
        assert(k >= 0 && k < rank_);
        return k;
    }
    std::array<int64_t, kMaxRank> dims_{};
    int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[1, 72, 72, 256]"

}  // namespace sam3
