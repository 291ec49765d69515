#pragma once

#include "runtime/cuda/attention_few_keys.cuh"
#include "runtime/cuda/few_tokens_block.cuh"

// The rows of a linear layer for few_tokens_kernel.cu: what a block has of them goes to its shared memory, as it is,
// normalised, or after attention.
namespace sam3::cuda::few_tokens {

constexpr int kMostPieces = kMostUnits * kSlice / 256;  // of 16 bytes, of a lane and a row

// Rows in memory, or handed over.
struct Source {
    const unsigned char* rows;
    int64_t stride;  // bytes
    int last;
    bool handed_over;

    __device__ Source(const TokenStep& step, const unsigned char* handover, int element)
        : rows(step.takes_over ? handover : static_cast<const unsigned char*>(step.x)),
          stride(static_cast<int64_t>(step.takes_over ? step.depth * (step.attends ? 3 : 1) : step.x_stride) * element),
          last(step.rows - 1),
          handed_over(step.takes_over) {}
    __device__ const unsigned char* row(int number) const { return rows + min(number, last) * stride; }
};

// All at once; where they are handed over, until all are there.
template <int kCount, typename Way>
__device__ inline void take(uint4 (&bits)[kCount], const Way& way) {
    unsigned top;
    do {
        top = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) bits[i] = load_shown(way.from(i));
#pragma unroll
        for (int i = 0; i < kCount; ++i) top = max(max(top, max(bits[i].x, bits[i].y)), max(bits[i].z, bits[i].w));
    } while (way.source.handed_over && top == kMissing);
    __syncwarp();
}

// As they are: a warp a row.
template <int kHalves>
struct Plain {
    static constexpr int kCount = kHalves * kMostPieces;
    static constexpr int kOfUnit = kSlice / 256;

    const Source source;
    const Place& place;
    const int pieces;

    __device__ Plain(const TokenStep& step, const unsigned char* handover, const Place& where)
        : source(step, handover, 2), place(where), pieces(step.depth / kUnit * kOfUnit) {}
    __device__ static int unit(int i) { return i % kMostPieces / kOfUnit; }
    __device__ int in_slice(int i) const { return (i % kOfUnit * 32 + place.lane) * 16; }
    __device__ const unsigned char* from(int i) const {
        const int piece = i % kMostPieces < pieces ? i : i % kOfUnit;
        return source.row(place.warp + i / kMostPieces * 8) + unit(piece) * kUnit * 2 + place.rank * kSlice * 2 +
               in_slice(piece);
    }
    __device__ void gather(Shared<kHalves>& shared) const {
        uint4 bits[kCount];
        take(bits, *this);
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            if (i % kMostPieces < pieces)
                *reinterpret_cast<uint4*>(
                    &shared.rows[place.warp + i / kMostPieces * 8][unit(i) * kSlice * 2 + in_slice(i)]) = bits[i];
    }
};

// Normalised: the same.
template <int kHalves>
struct Normed {
    static constexpr int kPieces = kSlice / 128;
    static constexpr int kCount = kHalves * kPieces;

    const TokenStep& step;
    const Source source;
    const Place& place;

    __device__ Normed(const TokenStep& of, const unsigned char* handover, const Place& where)
        : step(of), source(of, handover, 4), place(where) {}
    __device__ int channel(int i) const { return place.rank * kSlice + (i % kPieces * 32 + place.lane) * 4; }
    __device__ const unsigned char* from(int i) const {
        return source.row(place.warp + i / kPieces * 8) + channel(i) * 4;
    }
    __device__ void gather(const Turn<2>& turn, Shared<kHalves>& shared) const {
        const unsigned measured = shared_address(&shared.measured[turn.stage]);
        if (place.thread == 0) arrive_expecting(measured, sizeof(shared.moments[0]));
        float4 gamma[kPieces], beta[kPieces];
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            gamma[i] = load4(static_cast<const float*>(step.gamma) + channel(i));
            beta[i] = load4(static_cast<const float*>(step.beta) + channel(i));
        }
        uint4 bits[kCount];
        take(bits, *this);
        const auto value = [&](int i) {
            return float4{__uint_as_float(bits[i].x), __uint_as_float(bits[i].y), __uint_as_float(bits[i].z),
                          __uint_as_float(bits[i].w)};
        };
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            float mean = 0;
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const float4 v = value(half * kPieces + i);
                mean += ((v.x + v.y) + (v.z + v.w)) * (0.25F / kPieces);
            }
            float squares = 0;
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const float4 v = value(half * kPieces + i);
                const float4 d{v.x - mean, v.y - mean, v.z - mean, v.w - mean};
                squares += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
            }
            // Equal parts are joined, two and two.
#pragma unroll
            for (int lanes = 1; lanes < 32; lanes *= 2) {
                const float other = __shfl_xor_sync(0xffffffffU, mean, lanes);
                squares += __shfl_xor_sync(0xffffffffU, squares, lanes);
                squares += (other - mean) * (other - mean) * static_cast<float>(lanes * kPieces * 2);
                mean = (mean + other) * 0.5F;
            }
            const unsigned moments = shared_address(&shared.moments[turn.stage][place.rank][place.warp + half * 8]);
            if (place.lane < kCluster)
                send_pair(address_in(moments, place.lane), address_in(measured, place.lane), mean, squares);
        }
        wait_barrier(measured, turn.parity);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const int row = place.warp + half * 8;
            float mean = 0;
            float squares = 0;
            float2 parts[kCluster];
#pragma unroll
            for (int i = 0; i < kCluster; ++i) {
                parts[i] = shared.moments[turn.stage][i][row];
                mean += parts[i].x * (1.0F / kCluster);
            }
#pragma unroll
            for (int i = 0; i < kCluster; ++i)
                squares += parts[i].y * (1.0F / kSlice) + (parts[i].x - mean) * (parts[i].x - mean);
            const float scale = rsqrtf(squares * (1.0F / kCluster) + step.number);
            const auto normed = [&](float x, float by, float plus) { return (x - mean) * scale * by + plus; };
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const float4 v = value(half * kPieces + i);
                *reinterpret_cast<uint2*>(&shared.rows[row][(i * 32 + place.lane) * 8]) = {
                    pack(normed(v.x, gamma[i].x, beta[i].x), normed(v.y, gamma[i].y, beta[i].y)),
                    pack(normed(v.z, gamma[i].z, beta[i].z), normed(v.w, gamma[i].w, beta[i].w))};
            }
        }
    }
};

// After attention: a warp a head. Registers are divided as in attention_few_keys.cuh.
template <int kHalves>
struct Attended {
    static constexpr int kPieces = 6;  // two of queries, two of keys, two of values
    static constexpr int kCount = kHalves * kPieces;
    static constexpr int kWords = kHeadSize / 8;  // of a lane's quarter
    static_assert(kSlice == kWarps * kHeadSize);

    const TokenStep& step;
    const Source source;
    const Place& place;

    __device__ Attended(const TokenStep& of, const unsigned char* handover, const Place& where)
        : step(of), source(of, handover, 2), place(where) {}
    __device__ const unsigned char* from(int i) const {
        const int g = place.lane / 4;
        const int t = place.lane % 4;
        const int of = i % kPieces / 2;
        const int row = i / kPieces * 8 + (of < 2 ? g : t * 2 + i % 2);
        const int channel = of < 2 ? t * (kHeadSize / 4) + i % 2 * 8 : g * (kHeadSize / 8);
        return source.row(row) + (of * kUnit + place.rank * kSlice + place.warp * kHeadSize + channel) * 2;
    }
    __device__ void gather(Shared<kHalves>& shared) const {
        const int g = place.lane / 4;
        const int t = place.lane % 4;
        bool sees = place.lane < step.rows;
        if (sees && step.mask != nullptr) sees = static_cast<const uint8_t*>(step.mask)[place.lane] != 0;
        const uint64_t seen = __ballot_sync(0xffffffffU, sees);
        uint4 bits[kCount];
        take(bits, *this);
        const auto word = [&](int half, int of, int i) {
            if (half >= kHalves) return 0U;
            const uint4 piece = bits[half * kPieces + of * 2 + i / 4];
            return i % 4 == 0 ? piece.x : i % 4 == 1 ? piece.y : i % 4 == 2 ? piece.z : piece.w;
        };
        float score[kHalves][4] = {};
        float others[kHalves][4] = {};
#pragma unroll
        for (int s = 0; s < kWords; s += 2) {
            const unsigned rows[4] = {word(0, 0, s), word(1, 0, s), word(0, 0, s + 1), word(1, 0, s + 1)};
#pragma unroll
            for (int n = 0; n < kHalves; ++n)
                multiply_add(s % 4 == 0 ? score[n] : others[n], rows, word(n, 1, s), word(n, 1, s + 1));
        }
#pragma unroll
        for (int i = 0; i < kHalves * 4; ++i) score[i / 4][i % 4] += others[i / 4][i % 4];
        float factor[kHalves];
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const uint64_t up_to_row = step.causal ? (uint64_t{2} << (g + 8 * half)) - 1 : ~uint64_t{0};
            factor[half] = few_keys::weigh_row(score, half, (seen & up_to_row) >> (2 * t), step.number);
        }
        unsigned weights[4] = {};
#pragma unroll
        for (int n = 0; n < kHalves; ++n)
#pragma unroll
            for (int half = 0; half < kHalves; ++half)
                weights[n * 2 + half] = pack(score[n][half * 2], score[n][half * 2 + 1]);
        float sums[kWords][4] = {};
#pragma unroll
        for (int i = 0; i < kWords / 2; ++i) {
            constexpr unsigned kLow = 0x5410;  // of two pairs of channels, the first ones, or the second ones
            constexpr unsigned kHigh = 0x7632;
            const unsigned v[4] = {word(0, 2, i), word(0, 2, i + 4), word(1, 2, i), word(1, 2, i + 4)};
            multiply_add(sums[2 * i], weights, __byte_perm(v[0], v[1], kLow), __byte_perm(v[2], v[3], kLow));
            multiply_add(sums[2 * i + 1], weights, __byte_perm(v[0], v[1], kHigh), __byte_perm(v[2], v[3], kHigh));
        }
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const auto two = [&](int j) {
                    return pack(sums[j][half * 2 + i] * factor[half], sums[j + 1][half * 2 + i] * factor[half]);
                };
                *reinterpret_cast<uint4*>(&shared.rows[g + half * 8][(place.warp * kHeadSize + t * 16 + i * 8) * 2]) = {
                    two(0), two(2), two(4), two(6)};
            }
    }
};

}  // namespace sam3::cuda::few_tokens
