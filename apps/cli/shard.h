#pragma once

#include <cstddef>
#include <string>

namespace sam3::cli {

// A part of a list of inputs, for several machines that share one job: every count-th input from the index-th on.
struct Shard {
    size_t index = 0;  // from 0; people count from 1
    size_t count = 1;

    bool whole() const { return count == 1; }
    bool has(size_t position) const { return position % count == index; }
    std::string text() const;  // "2/8"
    bool operator==(const Shard&) const = default;
};

// "" is everything; "2/8" the second of eight; "auto" what Slurm's job arrays, Kubernetes' indexed jobs or MPI say in
// the environment. Anything else is a UsageError.
Shard parse_shard(const std::string& text);

}  // namespace sam3::cli
