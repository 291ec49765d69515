#pragma once

#include "engine/concept_tracker.h"
#include "support/goldens.h"
#include "support/models.h"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

// The small model and the frames that tests of concept video share.
namespace sam3::test {

inline const std::string& video_folder() {
    static const std::string path = data_path("models/sam3-v");
    return path;
}

inline const std::vector<Image>& concept_frames() {
    static const std::vector<Image> images = [] {
        const Golden golden(video_folder() + "/frames.safetensors");
        const Shape shape = golden.shape("frames");
        const std::vector<uint8_t> bytes = golden.bytes("frames");
        std::vector<Image> list;
        for (int64_t i = 0; i < shape[0]; ++i) {
            Image image(static_cast<int>(shape[2]), static_cast<int>(shape[1]), 3);
            const auto size = static_cast<int64_t>(image.pixels.size());
            std::copy_n(bytes.begin() + i * size, size, image.pixels.begin());
            list.push_back(std::move(image));
        }
        return list;
    }();
    return images;
}

// The model with its object scores raised as the golden script raises them: a copy of the folder with one weight
// replaced, for which the file's f16 value is overwritten.
inline std::string folder_with_object_bias(uint16_t half) {
    namespace fs = std::filesystem;
    const fs::path copy = fs::temp_directory_path() / ("sam3-concept-" + std::to_string(getpid()));
    fs::create_directories(copy);
    for (const auto& entry : fs::directory_iterator(video_folder()))
        if (!entry.path().filename().string().starts_with("concept-"))
            fs::copy_file(entry.path(), copy / entry.path().filename(), fs::copy_options::overwrite_existing);
    std::fstream file(copy / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    uint64_t size = 0;
    file.read(reinterpret_cast<char*>(&size), sizeof(size));
    std::string text(size, ' ');
    file.read(text.data(), static_cast<std::streamsize>(size));
    const auto header = nlohmann::json::parse(text);
    const auto& tensor = header.at("tracker_model.mask_decoder.pred_obj_score_head.proj_out.bias");
    file.seekp(static_cast<std::streamoff>(sizeof(size) + size + tensor.at("data_offsets").at(0).get<uint64_t>()));
    file.write(reinterpret_cast<const char*>(&half), sizeof(half));
    return copy.string();
}

inline std::shared_ptr<const Model> concept_model() {
    static const std::shared_ptr<const Model> model = [] {
        LoadOptions load;
        load.path = folder_with_object_bias(0x4CEC);  // 19.6875
        load.behaviour = "hf";
        std::shared_ptr<const Model> loaded = load_model(load);
        std::filesystem::remove_all(load.path);
        return loaded;
    }();
    return model;
}

inline ConceptTracker make_concept_tracker(const ConceptVideoOptions& options) {
    return ConceptTracker(std::make_shared<ImageSession>(concept_model(), 1), options);
}

}  // namespace sam3::test
