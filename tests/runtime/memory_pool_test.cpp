#include "runtime/cpu/memory_pool.h"

#include "util/error.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sam3::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(MemoryPool, ReusesWhatCameBack) {
    MemoryPool pool;
    void* first = pool.allocate(10 * kMiB);
    pool.release(first);
    const size_t reserved = pool.stats().reserved;
    for (int frame = 0; frame < 10; ++frame) {
        void* again = pool.allocate(10 * kMiB);
        EXPECT_EQ(again, first);
        pool.release(again);
    }
    EXPECT_EQ(pool.stats().reserved, reserved);
}

TEST(MemoryPool, AlignsEveryBlock) {
    MemoryPool pool;
    std::vector<void*> blocks;
    for (const size_t bytes : {0U, 1U, 3U, 63U, 64U, 65U, 1000U, 100000U}) {
        blocks.push_back(pool.allocate(bytes));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % MemoryPool::kAlignment, 0U);
    }
    for (void* block : blocks) pool.release(block);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(MemoryPool, ReportsUseAndPeak) {
    MemoryPool pool;
    void* a = pool.allocate(4 * kMiB);
    void* b = pool.allocate(6 * kMiB);
    EXPECT_GE(pool.stats().in_use, 10 * kMiB);
    EXPECT_LT(pool.stats().in_use, 10 * kMiB + 1024);
    pool.release(a);
    EXPECT_LT(pool.stats().in_use, 6 * kMiB + 1024);
    EXPECT_GE(pool.stats().peak, 10 * kMiB);
    pool.reset_peak();
    EXPECT_EQ(pool.stats().peak, pool.stats().in_use);
    pool.release(b);
}

TEST(MemoryPool, JoinsNeighboursIntoLargerBlocks) {
    MemoryPool pool;
    std::vector<void*> blocks;
    for (int i = 0; i < 24; ++i) blocks.push_back(pool.allocate(kMiB));
    const size_t reserved = pool.stats().reserved;
    for (size_t i = 0; i < blocks.size(); i += 2) pool.release(blocks[i]);
    for (size_t i = 1; i < blocks.size(); i += 2) pool.release(blocks[i]);
    void* whole = pool.allocate(24 * kMiB);
    EXPECT_EQ(pool.stats().reserved, reserved);
    pool.release(whole);
}

TEST(MemoryPool, GrowsInOnePiece) {
    MemoryPool pool;
    void* weights = pool.allocate(90 * kMiB);
    void* first = pool.allocate(70 * kMiB);
    void* second = pool.allocate(100 * kMiB);
    pool.release(first);
    pool.release(second);
    const size_t reserved = pool.stats().reserved;
    void* larger = pool.allocate(170 * kMiB);
    EXPECT_EQ(pool.stats().reserved, reserved);
    pool.release(larger);
    void* largest = pool.allocate(180 * kMiB);
    EXPECT_LT(pool.stats().reserved, reserved + 70 * kMiB);
    pool.release(largest);
    pool.release(weights);
}

TEST(MemoryPool, GrowsAgainAfterATrim) {
    MemoryPool pool;
    void* kept = pool.allocate(3 * kMiB);
    for (int round = 0; round < 3; ++round) {
        void* block = pool.allocate(100 * kMiB);
        std::memset(block, round, 100 * kMiB);
        pool.release(block);
        pool.trim();
        EXPECT_LE(pool.stats().reserved, 6 * kMiB);
    }
    pool.release(kept);
}

TEST(MemoryPool, TrimGivesUnusedChunksBack) {
    MemoryPool pool;
    void* kept = pool.allocate(40 * kMiB);
    void* dropped = pool.allocate(200 * kMiB);
    std::memset(kept, 7, 40 * kMiB);
    pool.release(dropped);
    pool.trim();
    EXPECT_LT(pool.stats().reserved, 100 * kMiB);
    EXPECT_EQ(static_cast<char*>(kept)[40 * kMiB - 1], 7);
    pool.release(kept);
    pool.trim();
    EXPECT_EQ(pool.stats().reserved, 0U);
}

TEST(MemoryPool, FailsWithTheSizesWhenMemoryIsExhausted) {
    MemoryPool pool;
    void* used = pool.allocate(3 * kMiB);
    for (const size_t absurd : {size_t{1} << 50, size_t{1} << 62, ~size_t{0}}) {
        try {
            pool.allocate(absurd);
            FAIL() << "allocated " << absurd << " bytes";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos);
            EXPECT_NE(std::string(error.what()).find("in use"), std::string::npos);
        }
    }
    pool.release(used);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(MemoryPool, NeverHandsOutTheSameMemoryTwice) {
    MemoryPool pool;
    const auto work = [&pool](unsigned seed) {
        std::mt19937 generator(seed);
        std::vector<std::pair<unsigned char*, size_t>> held;
        const auto drop = [&](size_t i) {
            const auto [data, bytes] = held[i];
            for (size_t b = 0; b < bytes; ++b) ASSERT_EQ(data[b], static_cast<unsigned char>(seed + bytes));
            pool.release(data);
            held[i] = held.back();
            held.pop_back();
        };
        for (int step = 0; step < 2000; ++step) {
            if (held.size() > 20 || (!held.empty() && generator() % 3 == 0)) {
                drop(generator() % held.size());
            } else {
                const size_t bytes = generator() % 4000;
                auto* data = static_cast<unsigned char*>(pool.allocate(bytes));
                std::memset(data, static_cast<unsigned char>(seed + bytes), bytes);
                held.emplace_back(data, bytes);
            }
        }
        while (!held.empty()) drop(0);
    };
    std::thread other(work, 2U);
    work(1U);
    other.join();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
}  // namespace sam3::cpu
