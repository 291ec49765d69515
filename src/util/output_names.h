#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What result files are called. A name is relative, stays inside the folder it is put into and can be read.
namespace sam3 {

// "../photos/a b.jpg" -> "photos/a b.jpg": no leading slash, no "." or "..", no control characters, backslashes,
// colons or other characters that some file systems refuse (each becomes "_"); parts of at most 200 bytes. Sub-folders
// stay. Never empty.
std::string safe_output_name(std::string_view input);

// The same without the ending of the last part: "photos/a b".
std::string output_stem(std::string_view input);

// One stem for each input, all different: the folders that all inputs share are left out, other folders stay; where two
// inputs differ in nothing but what a stem leaves out, they get their ending ("a_jpg", "a_png") or, at last, a number.
// Depends on the whole list, so every shard must be given the whole list.
std::vector<std::string> output_stems(std::span<const std::string> inputs);

// The folder that all of them lie in, as far as their names tell: "/data/set/" of "/data/set/a/1.jpg" and
// "/data/set/2.jpg".
std::string shared_folder(std::span<const std::string> inputs);
// The name relative to that folder; as it is when it does not lie there.
std::string name_in_folder(const std::string& name, const std::string& folder);

// A frame of a clip: "street/00012".
std::string frame_stem(std::string_view clip, int64_t frame);

}  // namespace sam3
