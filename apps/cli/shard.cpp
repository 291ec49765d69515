#include "shard.h"

#include "util/error.h"
#include "values.h"

#include <charconv>
#include <optional>

namespace sam3::cli {

namespace {

constexpr int64_t kMostShards = 1000000;

std::optional<int64_t> number_in(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

// A variable that is set must hold a number: a wrong one must not quietly make this the only shard.
std::optional<int64_t> variable(const char* name) {
    const std::string text = environment(name);
    if (text.empty()) return std::nullopt;
    const std::optional<int64_t> value = number_in(text);
    if (!value) throw UsageError(str("--shard auto: expected a number in ", name, ", found '", text, "'"));
    return value;
}

Shard checked(int64_t index, int64_t count, const std::string& where) {
    if (count < 1 || count > kMostShards || index < 0 || index >= count)
        throw UsageError(str(where, " is shard ", index + 1, " of ", count,
                             ": expected one from 1 to the count, and at most ", kMostShards));
    return {static_cast<size_t>(index), static_cast<size_t>(count)};
}

// What a launcher sets for each of the processes that it starts.
struct Launcher {
    const char* index;
    const char* count;
    const char* what;
};
constexpr Launcher kLaunchers[] = {
    {"JOB_COMPLETION_INDEX", "SAM3_SHARD_COUNT", "the Kubernetes job"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
    {"PMI_RANK", "PMI_SIZE", "MPI"},
    {"SLURM_PROCID", "SLURM_NTASKS", "Slurm's srun"},
};

std::optional<Shard> from_slurm_array() {
    const std::optional<int64_t> id = variable("SLURM_ARRAY_TASK_ID"), count = variable("SLURM_ARRAY_TASK_COUNT");
    if (!id) return std::nullopt;
    if (!count) throw UsageError("--shard auto: SLURM_ARRAY_TASK_ID is set, but SLURM_ARRAY_TASK_COUNT is not");
    const int64_t first = variable("SLURM_ARRAY_TASK_MIN").value_or(0);
    const int64_t step = variable("SLURM_ARRAY_TASK_STEP").value_or(1);
    // A list such as --array=1,7,9 has no step from one number to the next, so its tasks cannot be told apart.
    const int64_t last = variable("SLURM_ARRAY_TASK_MAX").value_or(first + (*count - 1) * step);
    if (step < 1 || (*id - first) % step != 0 || (last - first) / step + 1 != *count)
        throw UsageError("--shard auto: expected a job array without gaps, such as --array=0-7");
    return checked((*id - first) / step, *count, "the Slurm job array");
}

Shard from_environment() {
    if (const std::optional<Shard> shard = from_slurm_array()) return *shard;
    for (const Launcher& launcher : kLaunchers) {
        const std::optional<int64_t> index = variable(launcher.index), count = variable(launcher.count);
        if (index && count) return checked(*index, *count, launcher.what);
        if (index && std::string_view(launcher.count) == "SAM3_SHARD_COUNT")
            throw UsageError(
                "--shard auto: JOB_COMPLETION_INDEX is set, but Kubernetes does not tell the number of completions: "
                "set "
                "SAM3_SHARD_COUNT to it");
    }
    throw UsageError(
        "--shard auto: found no SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, OMPI_COMM_WORLD_RANK, PMI_RANK or "
        "SLURM_PROCID with a count in the environment; give --shard I/N");
}

}  // namespace

std::string Shard::text() const { return str(index + 1, "/", count); }

Shard parse_shard(const std::string& text) {
    if (text.empty()) return {};
    if (text == "auto") return from_environment();
    const size_t slash = text.find('/');
    const std::string_view view = text;
    const std::optional<int64_t> index = number_in(view.substr(0, slash));
    const std::optional<int64_t> count = slash == std::string::npos ? std::nullopt : number_in(view.substr(slash + 1));
    if (!index || !count) throw UsageError(str("--shard expects I/N, such as 2/8, or auto, found '", text, "'"));
    return checked(*index - 1, *count, "--shard " + text);
}

}  // namespace sam3::cli
