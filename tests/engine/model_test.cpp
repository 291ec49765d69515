// Files that hold only a part of SAM 3.
#include "engine/image_session.h"
#include "support/goldens.h"
#include "util/error.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// A Sam3Model folder as transformers saves it: sam3-a without the tracker and without the video model's prefix.
fs::path make_detector_only() {
    const fs::path from = test::data_path("models/sam3-a");
    // Tests run in processes side by side: each has a folder of its own.
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const fs::path to = fs::path(testing::TempDir()) / ("sam3-" + name);
    fs::create_directories(to);
    const std::string bytes = read(from / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    const std::string prefix = "detector_model.";
    nlohmann::json kept = nlohmann::json::object();
    std::string data;
    for (const auto& [key, entry] : header.items()) {
        if (key.rfind(prefix, 0) != 0) continue;
        const auto begin = entry["data_offsets"][0].get<size_t>();
        const size_t size = entry["data_offsets"][1].get<size_t>() - begin;
        kept[key.substr(prefix.size())] = {
            {"dtype", entry["dtype"]}, {"shape", entry["shape"]}, {"data_offsets", {data.size(), data.size() + size}}};
        data += bytes.substr(8 + length + begin, size);
    }
    const std::string text = kept.dump();
    const uint64_t new_length = text.size();
    std::ofstream out(to / "model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&new_length), sizeof new_length);
    out << text << data;
    std::ofstream(to / "config.json") << nlohmann::json::parse(read(from / "config.json"))["detector_config"].dump();
    fs::copy_file(from / "tokenizer.json", to / "tokenizer.json", fs::copy_options::overwrite_existing);
    return to;
}

std::vector<Detection> find(const std::string& path) {
    ImageSession session(Model::load({.path = path, .behaviour = "hf", .image_size = 0}), 2);
    Image image(60, 40, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31 % 251);
    session.encode({&image, 1});
    ConceptPrompt prompt;
    prompt.text = "red circle";
    prompt.options.threshold = 0.05F;
    return session.segment({&prompt, 1}).front().detections;
}

TEST(Model, ADetectorAloneFindsWhatTheWholeModelFinds) {
    const std::string folder = make_detector_only().string();
    const std::vector<Detection> part = find(folder);
    const std::vector<Detection> whole = find(test::data_path("models/sam3-a"));
    ASSERT_EQ(part.size(), whole.size());
    ASSERT_FALSE(part.empty());
    for (size_t i = 0; i < part.size(); ++i) {
        EXPECT_EQ(part[i].score, whole[i].score);
        EXPECT_EQ(part[i].mask, whole[i].mask);
    }
}

TEST(Model, AskingForAMissingPartIsASentence) {
    const auto model = Model::load({.path = make_detector_only().string(), .behaviour = "", .image_size = 0});
    EXPECT_TRUE(model->finds_concepts());
    EXPECT_FALSE(model->answers_clicks());
    EXPECT_THROW(model->interactive_head(), Error);
    const auto clicks = Model::load({.path = test::data_path("models/sam1-b"), .behaviour = "", .image_size = 0});
    EXPECT_FALSE(clicks->finds_concepts());
    EXPECT_THROW(clicks->detector(), Error);
}

}  // namespace
}  // namespace sam3
