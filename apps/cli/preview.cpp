#include "preview.h"

#include "image/resize.h"
#include "media/image_io.h"
#include "util/base64.h"
#include "util/error.h"
#include "values.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>
#include <vector>

extern char** environ;

namespace sam3::cli {

namespace {

constexpr int kMostWidth = 800, kMostHeight = 600;  // pixels

// Asks the terminal what it is (DA1) and looks for 4, sixel graphics, in the answer. Terminals answer at once; one that
// does not is given a tenth of a second.
bool terminal_knows_sixel() {
    termios before{};
    if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &before) != 0) return false;
    termios raw = before;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::cout << "\x1b[c" << std::flush;
    std::string answer;
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    while (answer.find('c') == std::string::npos && answer.size() < 256 && poll(&waiting, 1, 100) > 0) {
        std::array<char, 64> buffer{};
        const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
        if (count <= 0) break;
        answer.append(buffer.data(), static_cast<size_t>(count));
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return answer.find(";4;") != std::string::npos || answer.find(";4c") != std::string::npos;
}

Preview detect() {
    if (isatty(STDOUT_FILENO) != 1) return Preview::none;
    const std::string term = environment("TERM"), program = environment("TERM_PROGRAM");
    if (!environment("TMUX").empty() || term.starts_with("screen") || term == "dumb") return Preview::none;
    if (term == "xterm-kitty" || !environment("KITTY_WINDOW_ID").empty() || program == "ghostty") return Preview::kitty;
    if (program == "iTerm.app" || program == "WezTerm" || environment("LC_TERMINAL") == "iTerm2") return Preview::iterm;
    if (term == "foot" || term == "mlterm" || terminal_knows_sixel()) return Preview::sixel;
    return Preview::none;
}

// https://sw.kovidgoyal.net/kitty/graphics-protocol: PNG in pieces of 4096 letters
void print_kitty(const std::string& letters) {
    constexpr size_t kPiece = 4096;
    for (size_t at = 0; at < letters.size(); at += kPiece) {
        const bool more = at + kPiece < letters.size();
        std::cout << "\x1b_G" << (at == 0 ? "a=T,f=100," : "") << "m=" << (more ? 1 : 0) << ";"
                  << letters.substr(at, kPiece) << "\x1b\\";
    }
    std::cout << "\n";
}

// Sixel: colours of a 6 x 6 x 6 cube, dithered; six rows at a time, one pass a colour, runs shortened.
class SixelPrinter {
public:
    explicit SixelPrinter(const Image& image) : image_(image) {
        indices_.resize(static_cast<size_t>(image.width) * static_cast<size_t>(image.height));
        for (int y = 0; y < image.height; ++y)
            for (int x = 0; x < image.width; ++x) indices_[place(x, y)] = color_of(x, y);
    }

    void print() const {
        std::cout << "\x1bPq\"1;1;" << image_.width << ";" << image_.height;
        for (int i = 0; i < kColors; ++i)
            std::cout << "#" << i << ";2;" << i / 36 * 20 << ";" << i / 6 % 6 * 20 << ";" << i % 6 * 20;
        for (int top = 0; top < image_.height; top += 6) {
            for (int color = 0; color < kColors; ++color) print_band(top, color);
            std::cout << "-";
        }
        std::cout << "\x1b\\\n";
    }

private:
    static constexpr int kColors = 216;

    size_t place(int x, int y) const {
        return static_cast<size_t>(y) * static_cast<size_t>(image_.width) + static_cast<size_t>(x);
    }

    uint8_t color_of(int x, int y) const {
        constexpr std::array<int, 16> kBayer = {0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5};
        const int offset = kBayer[static_cast<size_t>(y % 4 * 4 + x % 4)] * 51 / 16;  // 51: from one level to the next
        const uint8_t* pixel = image_.at(x, y);
        int index = 0;
        for (int channel = 0; channel < 3; ++channel) index = index * 6 + std::min(5, (pixel[channel] + offset) / 51);
        return static_cast<uint8_t>(index);
    }

    void print_band(int top, int color) const {
        const int bottom = std::min(top + 6, image_.height);
        std::string line;
        bool used = false;
        char last = 0;
        int run = 0;
        const auto flush = [&] {
            if (run > 3) line += "!" + std::to_string(run) + last;
            if (run <= 3) line.append(static_cast<size_t>(run), last);
        };
        for (int x = 0; x < image_.width; ++x) {
            int bits = 0;
            for (int y = top; y < bottom; ++y)
                if (indices_[place(x, y)] == color) bits |= 1 << (y - top);
            used = used || bits != 0;
            const char letter = static_cast<char>('?' + bits);
            if (letter != last) {
                flush();
                run = 0;
                last = letter;
            }
            ++run;
        }
        flush();
        if (used) std::cout << "#" << color << line << "$";
    }

    const Image& image_;
    std::vector<uint8_t> indices_;
};

Image fitted(const Image& image) {
    const float scale = std::min(static_cast<float>(kMostWidth) / static_cast<float>(image.width),
                                 static_cast<float>(kMostHeight) / static_cast<float>(image.height));
    if (scale >= 1) return image;
    const auto side = [&](int length) { return std::max(1, static_cast<int>(static_cast<float>(length) * scale)); };
    return resize(image, side(image.width), side(image.height));
}

}  // namespace

Preview choose_preview(const std::string& name) {
    if (name == "kitty") return Preview::kitty;
    if (name == "iterm") return Preview::iterm;
    if (name == "sixel") return Preview::sixel;
    return name == "auto" ? detect() : Preview::none;
}

void print_preview(const Image& image, Preview preview) {
    if (preview == Preview::none) return;
    const Image small = fitted(image);
    if (preview == Preview::sixel) {
        SixelPrinter(small).print();
    } else {
        const std::vector<uint8_t> png = encode_png(small);
        if (preview == Preview::kitty)
            print_kitty(base64_encode(png));
        else
            std::cout << "\x1b]1337;File=inline=1;size=" << png.size() << ":" << base64_encode(png) << "\a\n";
    }
    std::cout << std::flush;
}

void show_file(const std::string& path) {
    std::string program = "xdg-open", file = path;
    char* arguments[] = {program.data(), file.data(), nullptr};
    pid_t child = 0;
    int status = 0;
    if (posix_spawnp(&child, "xdg-open", nullptr, nullptr, arguments, environ) != 0)
        fail("--show: no viewer was found (xdg-open, Debian: xdg-utils); the picture is ", path);
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("--show: xdg-open could not show ", path);
}

}  // namespace sam3::cli
