// Runs a fuzz target without libFuzzer: every seed as it is, then seeded random changes of it for some seconds. Finds
// the crashes that a change brings back, with any compiler; real searching is fuzz/run's.
//
//   replay_NAME SECONDS FILE...
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void mutate(Bytes& bytes, std::mt19937& random) {
    const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
        if (bytes.empty()) {
            bytes.push_back(static_cast<uint8_t>(below(256)));
            continue;
        }
        const size_t at = below(bytes.size());
        switch (below(5)) {
            case 0: bytes[at] = static_cast<uint8_t>(below(256)); break;
            case 1: bytes[at] ^= static_cast<uint8_t>(1U << below(8)); break;
            case 2: bytes.resize(at); break;
            case 3:
                bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<uint8_t>(below(256)));
                break;
            default: bytes[at] = below(2) == 0 ? 0 : 255; break;
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s SECONDS FILE...\n", argv[0]);
        return 2;
    }
    std::vector<Bytes> seeds;
    for (int i = 2; i < argc; ++i) seeds.push_back(read(argv[i]));
    if (seeds.empty()) seeds.emplace_back();
    for (const Bytes& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());

    std::mt19937 random(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[1]));
    size_t runs = seeds.size();
    for (; std::chrono::steady_clock::now() < end; ++runs) {
        Bytes bytes = seeds[runs % seeds.size()];
        mutate(bytes, random);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    std::printf("%zu inputs, no crash\n", runs);
    return 0;
}
