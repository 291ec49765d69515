#pragma once

#include "image/image.h"

#include <string>

// Pictures in the terminal, and in a viewer beside it.
namespace sam3::cli {

enum class Preview { none, kitty, iterm, sixel };

// "auto" asks the environment and, where that does not tell, the terminal itself; it is `none` unless stdout is a
// terminal. A named one is taken as it is.
Preview choose_preview(const std::string& name);

// Writes the picture to stdout, made smaller where it would not fit.
void print_preview(const Image& image, Preview preview);

// Opens a file with the desktop's viewer. Fails with a sentence when there is none.
void show_file(const std::string& path);

}  // namespace sam3::cli
