#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sam3 {

// Time and arithmetic per operator and per stage. One per session; not thread-safe.
class Profiler {
public:
    struct Entry {
        int64_t calls = 0;
        double seconds = 0;
        double flops = 0;
    };
    void record_operator(const std::string& name, const std::string& shape, double seconds, double flops);
    void record_stage(const std::string& name, double seconds);
    void clear();

    const std::map<std::string, Entry>& stages() const { return stages_; }
    const std::map<std::string, Entry>& operators() const { return operators_; }  // by name
    const std::map<std::string, Entry>& shapes() const { return shapes_; }        // by name and shape

    std::string table() const;  // for people, largest share first
    std::string json() const;

private:
    std::map<std::string, Entry> stages_, operators_, shapes_;
};

}  // namespace sam3
