#pragma once

#include "formats/result_formats.h"

#include <functional>
#include <string>

namespace sam3::cli {

// The names of the formats that `take` accepts, for help and completions.
inline std::string format_names(const std::function<bool(const FormatInfo&)>& take, const std::string& between = ",") {
    std::string names;
    for (const FormatInfo& info : result_formats())
        if (take(info)) names += (names.empty() ? "" : between) + std::string(info.name);
    return names;
}

}  // namespace sam3::cli
