#include "util/folders.h"

#include "util/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace sam3 {

namespace fs = std::filesystem;

void make_folder(const std::string& path) {
    if (path.empty()) return;
    std::error_code error;
    fs::create_directories(path, error);
    if (!fs::is_directory(path)) {
        if (fs::exists(path)) fail(path, ": expected a folder to write results into, found a file");
        fail(path, ": the folder cannot be made (", error.message(), "); name another one, or check its permissions");
    }
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
        fail(path, ": nothing can be written into this folder (", std::strerror(errno),
             "); name another one, or check its permissions");
}

void make_folder_of(const std::string& file) { make_folder(fs::path(file).parent_path().string()); }

}  // namespace sam3
