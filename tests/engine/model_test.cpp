// Files that hold only a part of SAM 3.
#include "engine/image_session.h"
#include "engine/visual_tracker.h"
#include "support/goldens.h"
#include "support/models.h"
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

// A copy of a model's folder with those of its tensors that `rename` gives a name; a folder of each test's own, as
// tests run in processes side by side.
template <typename Rename>
fs::path copy_part(const std::string& model, const Rename& rename) {
    const fs::path from = test::data_path("models/" + model);
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const fs::path to = fs::path(testing::TempDir()) / ("sam3-" + name);
    fs::create_directories(to);
    const std::string bytes = read(from / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    nlohmann::json kept = nlohmann::json::object();
    std::string data;
    for (const auto& [key, entry] : header.items()) {
        const std::string new_name = rename(key);
        if (new_name.empty() || !entry.contains("data_offsets")) continue;
        const auto begin = entry["data_offsets"][0].template get<size_t>();
        const size_t size = entry["data_offsets"][1].template get<size_t>() - begin;
        kept[new_name] = {
            {"dtype", entry["dtype"]}, {"shape", entry["shape"]}, {"data_offsets", {data.size(), data.size() + size}}};
        data += bytes.substr(8 + length + begin, size);
    }
    const std::string text = kept.dump();
    const uint64_t new_length = text.size();
    std::ofstream out(to / "model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&new_length), sizeof new_length);
    out << text << data;
    for (const char* file : {"config.json", "tokenizer.json"})
        fs::copy_file(from / file, to / file, fs::copy_options::overwrite_existing);
    return to;
}

// A Sam3Model folder as transformers saves it: sam3-a without the tracker and without the video model's prefix.
fs::path make_detector_only() {
    const std::string prefix = "detector_model.";
    const fs::path to = copy_part("sam3-a", [&](const std::string& name) {
        return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::string();
    });
    const auto config = nlohmann::json::parse(read(to / "config.json"));
    std::ofstream(to / "config.json") << config["detector_config"].dump();
    return to;
}

// The visual-only cut: the image encoder and the tracker, no text tower, detector or detector neck.
fs::path make_visual_only() {
    return copy_part("sam3-v", [](const std::string& name) {
        const bool kept =
            name.rfind("tracker_", 0) == 0 || name.rfind("detector_model.vision_encoder.backbone.", 0) == 0;
        return kept ? name : std::string();
    });
}

std::vector<Detection> find(const std::string& path) {
    ImageSession session(test::load_model({.path = path, .behaviour = "hf", .image_size = 0}), 2);
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
    const auto model = test::load_model({.path = make_detector_only().string(), .behaviour = "", .image_size = 0});
    EXPECT_TRUE(model->finds_concepts());
    EXPECT_FALSE(model->answers_clicks());
    EXPECT_THROW(model->interactive_head(), Error);
    const auto clicks = test::load_model({.path = test::data_path("models/sam1-b"), .behaviour = "", .image_size = 0});
    EXPECT_FALSE(clicks->finds_concepts());
    EXPECT_THROW(clicks->detector(), Error);
}

TEST(Model, TheVisualOnlyCutAnswersClicksAndFollowsObjectsAsTheWholeModelDoes) {
    const auto part = test::load_model({.path = make_visual_only().string(), .behaviour = "hf", .image_size = 0});
    const auto whole = test::load_model({.path = test::data_path("models/sam3-v"), .behaviour = "hf", .image_size = 0});
    EXPECT_FALSE(part->finds_concepts());
    EXPECT_TRUE(part->answers_clicks());
    EXPECT_TRUE(part->follows_objects());
    Image image(60, 40, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31 % 251);
    VisualQuery query;
    query.points = {{20, 10, true}};
    std::vector<Tensor> logits;
    for (const auto& model : {part, whole}) {
        VisualTracker tracker(std::make_shared<ImageSession>(model, 2));
        tracker.prompt(image, 0, 1, query);
        tracker.track(image, 1);
        ImageSession session(model, 2);
        session.encode({&image, 1});
        logits.push_back(session.segment({&query, 1}).front().candidates.front().logits);
    }
    EXPECT_EQ(std::memcmp(logits[0].raw(), logits[1].raw(), static_cast<size_t>(logits[0].numel()) * sizeof(float)), 0);
    ImageSession session(part, 2);
    session.encode({&image, 1});
    ConceptPrompt text;
    text.text = "red circle";
    try {
        session.segment({&text, 1});
        FAIL() << "a visual-only model must refuse text";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("not text"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace sam3
