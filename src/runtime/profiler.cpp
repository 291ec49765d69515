#include "runtime/profiler.h"

#include <algorithm>
#include <iomanip>
#include <locale>
#include <sstream>
#include <utility>

namespace sam3 {

namespace {

using Entries = std::map<std::string, Profiler::Entry>;

void add(Profiler::Entry& entry, double seconds, double flops) {
    entry.calls += 1;
    entry.seconds += seconds;
    entry.flops += flops;
}

double total_seconds(const Entries& entries) {
    double total = 0;
    for (const auto& [name, entry] : entries) total += entry.seconds;
    return total;
}

std::vector<std::pair<std::string, Profiler::Entry>> largest_first(const Entries& entries) {
    std::vector<std::pair<std::string, Profiler::Entry>> sorted(entries.begin(), entries.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    return sorted;
}

double gflops(const Profiler::Entry& entry) { return entry.seconds > 0 ? entry.flops / entry.seconds * 1e-9 : 0.0; }

// A number in at least `width` columns, with a decimal point whatever the program's locale says.
template <typename Number>
std::string number(Number value, int width, int decimals) {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream << std::setw(width) << std::fixed << std::setprecision(decimals) << value;
    return stream.str();
}

void append_rows(std::string& text, const char* title, const Entries& entries) {
    if (entries.empty()) return;
    size_t width = 20;
    for (const auto& [name, entry] : entries) width = std::max(width, name.size());
    const auto pad = [width](const std::string& name) { return name + std::string(width - name.size(), ' '); };

    text += pad(title) + "      calls          ms   share   GFLOP/s\n";
    const double total = total_seconds(entries);
    for (const auto& [name, entry] : largest_first(entries)) {
        const double share = total > 0 ? 100.0 * entry.seconds / total : 0.0;
        text += pad(name) + number(entry.calls, 11, 0) + number(entry.seconds * 1e3, 12, 2) + number(share, 7, 1) +
                "%" + (entry.flops > 0 ? number(gflops(entry), 10, 1) : "         -") + "\n";
    }
}

std::string quoted(const std::string& text) {
    constexpr const char* kHex = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += std::string("\\") + c;
        else if (code < 0x20)
            out += std::string("\\u00") + kHex[code >> 4] + kHex[code & 15];
        else
            out += c;
    }
    return out + "\"";
}

std::string json_list(const Entries& entries) {
    std::string text = "[";
    for (const auto& [name, entry] : largest_first(entries)) {
        if (text.size() > 1) text += ",";
        text += "\n    {\"name\": " + quoted(name) + ", \"calls\": " + number(entry.calls, 0, 0) +
                ", \"ms\": " + number(entry.seconds * 1e3, 0, 6) + ", \"gflop\": " + number(entry.flops * 1e-9, 0, 6) +
                ", \"gflops\": " + number(gflops(entry), 0, 3) + "}";
    }
    return text + (entries.empty() ? "]" : "\n  ]");
}

}  // namespace

void Profiler::record_operator(const std::string& name, const std::string& shape, double seconds, double flops) {
    add(operators_[name], seconds, flops);
    add(shapes_[name + " " + shape], seconds, flops);
}

void Profiler::record_stage(const std::string& name, double seconds) { add(stages_[name], seconds, 0); }

void Profiler::clear() {
    stages_.clear();
    operators_.clear();
    shapes_.clear();
}

std::string Profiler::table() const {
    std::string text;
    append_rows(text, "stage", stages_);
    if (!stages_.empty() && !operators_.empty()) text += "\n";
    append_rows(text, "operator", operators_);
    return text;
}

std::string Profiler::json() const {
    return "{\n  \"stages\": " + json_list(stages_) + ",\n  \"operators\": " + json_list(operators_) +
           ",\n  \"shapes\": " + json_list(shapes_) + "\n}\n";
}

}  // namespace sam3
