#include "clicks.h"

#include "formats/npy.h"
#include "media/image_io.h"
#include "util/error.h"
#include "values.h"

#include <cstring>
#include <map>

namespace sam3::cli {

void ClickOptions::add_to(CLI::App& command) {
    command_ = &command;
    const auto repeated = [&](const char* name, std::vector<std::string>& values, const char* type, const char* help) {
        return command.add_option(name, values, help)
            ->type_name(type)
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->group("Point at objects");
    };
    point_ = repeated("--point", points_, "X,Y", "On the object; several make it clearer");
    negative_ = repeated("--neg-point", negatives_, "X,Y", "What does not belong to it");
    box_ = repeated("--box", boxes_, "X0,Y0,X1,Y1", "Around the object (an example of a concept is --exemplar)");
    mask_ = repeated("--mask", masks_, "FILE",
                     "Earlier mask to correct: an image of the picture's size, or .npy logits (--dump)");
    object_ = command.add_flag("--object")->description("Begin the next object")->group("Point at objects");
}

std::vector<ClickObject> ClickOptions::objects() const {
    std::vector<ClickObject> list(1);
    std::map<const CLI::Option*, size_t> used;
    for (const CLI::Option* option : command_->parse_order()) {
        if (option == object_ && !list.back().empty()) list.emplace_back();
        const bool ours = option == point_ || option == negative_ || option == box_ || option == mask_;
        if (!ours) continue;
        const std::string& text = option->results()[used[option]++];
        ClickObject& object = list.back();
        if (option == box_) {
            if (object.query.box) throw UsageError("an object has one --box; put --object between two objects");
            object.query.box = parse_box("--box", text);
        } else if (option == mask_) {
            if (!object.mask_file.empty())
                throw UsageError("an object has one --mask; put --object between two objects");
            object.mask_file = text;
        } else {
            const std::vector<float> n = parse_numbers(option == point_ ? "--point" : "--neg-point", text, 2);
            object.query.points.push_back({n[0], n[1], option == point_});
        }
    }
    if (list.back().empty()) {
        if (list.size() == 1) throw UsageError("--object needs a --point, --box or --mask");
        list.pop_back();
    }
    return list;
}

std::vector<std::string> ClickOptions::words() const {
    std::vector<std::string> words;
    std::map<const CLI::Option*, size_t> used;
    for (const CLI::Option* option : command_->parse_order()) {
        if (option == object_)
            words.emplace_back("--object");
        else if (option == point_ || option == negative_ || option == box_ || option == mask_)
            words.push_back(option->get_name() + "=" + option->results()[used[option]++]);
    }
    return words;
}

void load_mask(ClickObject& object) {
    if (object.mask_file.empty()) return;
    const std::vector<uint8_t> bytes = read_file(object.mask_file);
    if (is_npy(bytes)) {
        const NpyArray array = decode_npy(bytes, object.mask_file);
        const size_t rank = array.shape.size();
        const bool single = rank == 2 || (rank == 3 && array.shape[0] == 1);
        if (!single)
            fail(object.mask_file, ": expected the logits of one mask, [h, w] or [1, h, w], found ", rank,
                 " dimensions", rank == 3 ? str(" and ", array.shape[0], " masks: keep one of them") : "");
        object.query.mask_logits = Tensor::host({array.shape[rank - 2], array.shape[rank - 1]});
        std::memcpy(object.query.mask_logits.raw(), array.values.data(), array.values.size() * sizeof(float));
        return;
    }
    const Image image = decode_image(bytes, object.mask_file);
    object.query.mask = Mask(image.width, image.height);
    for (size_t i = 0; i < object.query.mask.data.size(); ++i) {
        const uint8_t* pixel = image.pixels.data() + i * static_cast<size_t>(image.channels);
        object.query.mask.data[i] = pixel[0] > 127 ? 1 : 0;
    }
}

}  // namespace sam3::cli
