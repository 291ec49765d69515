#pragma once

#include <string>
#include <vector>

namespace sam3 {

// Runs of digits compare as numbers of any length (2.jpg before 10.jpg), everything else byte by byte; of names that
// are equal so, byte by byte: a strict order of all names.
bool natural_less(const std::string& first, const std::string& second);

// .jpg, .jpeg, .png or .webp, in either case, and not hidden.
bool is_image_name(const std::string& path);

// The images of a folder, as names inside it ("10.jpg", "sub/2.png"), in natural order. Links to folders are not
// followed. Fails with a sentence when the folder cannot be read or has none.
std::vector<std::string> image_names(const std::string& folder, bool recursive);

}  // namespace sam3
