#include "image/normalize.h"

#include "util/error.h"

#include <omp.h>

#include <algorithm>

namespace sam3 {
namespace {

using Table = std::array<std::array<float, 3>, 256>;

// A sample has 256 values, so the division is done once for each of them.
Table make_table(const Normalization& normalization) {
    Table table;
    for (size_t c = 0; c < 3; ++c) {
        const float mean = normalization.mean[c] * 255.0F;
        const float std = normalization.std[c] * 255.0F;
        if (!(std > 0.0F))
            fail("expected a positive standard deviation to normalise with, found ", normalization.std[c]);
        for (size_t x = 0; x < 256; ++x) table[x][c] = (static_cast<float>(x) - mean) / std;
    }
    return table;
}

}  // namespace

void normalize_image(const Image& image, const Normalization& normalization, const Size& out_size, float* out,
                     int threads) {
    check_image(image);
    if (image.channels != 3) fail("expected an RGB image to normalise, found ", image.channels, " channel(s)");
    if (out_size.width < image.width || out_size.height < image.height)
        fail("expected a size of at least ", image.width, " x ", image.height, " to pad the image to, found ",
             out_size.width, " x ", out_size.height);
    const Table table = make_table(normalization);
    const size_t row_floats = static_cast<size_t>(out_size.width) * 3;
    const int team = threads > 0 ? threads : omp_get_max_threads();
#pragma omp parallel for schedule(static) num_threads(team)
    for (int y = 0; y < out_size.height; ++y) {
        float* to = out + static_cast<size_t>(y) * row_floats;
        size_t done = 0;
        if (y < image.height) {
            const uint8_t* from = image.row(y);
            for (; done < image.row_bytes(); done += 3)
                for (size_t c = 0; c < 3; ++c) to[done + c] = table[from[done + c]][c];
        }
        std::fill(to + done, to + row_floats, 0.0F);
    }
}

std::vector<float> normalize_image(const Image& image, const Normalization& normalization, int threads) {
    std::vector<float> out(image.pixels.size());
    normalize_image(image, normalization, {image.width, image.height}, out.data(), threads);
    return out;
}

Size fit_longest_side(const Size& size, int longest) {
    if (size.width < 1 || size.height < 1 || longest < 1)
        fail("expected positive sizes, found ", size.width, " x ", size.height, " to fit into ", longest);
    const double scale = longest * 1.0 / std::max(size.width, size.height);
    const auto side = [scale](int length) { return std::max(1, static_cast<int>(length * scale + 0.5)); };
    return {side(size.width), side(size.height)};
}

}  // namespace sam3
