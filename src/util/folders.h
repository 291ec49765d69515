#pragma once

#include <string>

namespace sam3 {

// Makes the folder `path` with those above it, where they are missing; an empty path is the current one. Fails with a
// sentence when that cannot be, or when nothing can be written into it: before hours of work, not after.
void make_folder(const std::string& path);

// The same for the folder that a file is to be written into.
void make_folder_of(const std::string& file);

}  // namespace sam3
