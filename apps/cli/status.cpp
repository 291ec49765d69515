#include "status.h"

#include "command.h"
#include "values.h"

#include <unistd.h>

#include <iostream>

namespace sam3::cli {

namespace {

constexpr size_t kMostColumns = 78;
constexpr const char* kEraseLine = "\r\x1b[K";

bool is_terminal() {
    const std::string kind = environment("TERM");
    return isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
}

}  // namespace

Status::Status(bool quiet) : active_(!quiet && is_terminal()) {}

void Status::show(const std::string& text) {
    if (!active_) return;
    const std::string line = printable(text);
    std::cerr << kEraseLine << line.substr(0, kMostColumns) << (line.size() > kMostColumns ? "..." : " ...")
              << std::flush;
    shown_ = true;
}

void Status::clear() {
    if (shown_) std::cerr << kEraseLine << std::flush;
    shown_ = false;
}

}  // namespace sam3::cli
