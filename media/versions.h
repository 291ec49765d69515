#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sam3 {

// {"libjpeg-turbo", "2.1.5"}, ...: the codecs that this build uses.
std::vector<std::pair<std::string, std::string>> media_library_versions();

std::string ffmpeg_version();  // "none" where it is left out

}  // namespace sam3
