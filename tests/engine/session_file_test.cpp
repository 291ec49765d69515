// A session that was saved goes on as if nothing had happened; a file that is not such a session says so.
#include "engine/session_file.h"
#include "engine/object_tracker.h"
#include "support/clip.h"
#include "support/models.h"
#include "util/error.h"

#include <cstring>
#include <filesystem>
#include <fstream>

namespace sam3 {
namespace {

constexpr const char* kKind = "click video";

std::shared_ptr<const Model> load(const std::string& folder, const std::string& behaviour) {
    LoadOptions options;
    options.path = test::data_path(folder);
    options.behaviour = behaviour;
    return test::load_model(options);
}

class SessionFile : public testing::Test {
protected:
    void SetUp() override {
        const auto* test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::path(testing::TempDir()) / (std::string("sam3-session-") + test->name());
        std::filesystem::create_directories(folder_);
        path_ = folder_ / "session.gguf";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    TrackPrompt at(float x, float y) const {
        TrackPrompt prompt;
        prompt.where.points = {clip_.point(x, y)};
        return prompt;
    }
    TrackPrompt corner_mask() const {
        TrackPrompt prompt;
        prompt.mask = Tensor::host({16, 16});
        for (int64_t i = 0; i < 256; ++i) prompt.mask.data<float>()[i] = i % 16 < 6 && i / 16 < 6 ? 1.0F : 0.0F;
        return prompt;
    }
    // Seven frames with two objects, a correction to come and a new object by mask.
    ObjectTracker first_half() {
        ObjectTracker tracker(clip_.model);
        tracker.prompt(9, 0, at(13, 23));
        tracker.prompt(2, 3, at(60, 50));
        tracker.step(clip_.ops, clip_.features(3), 3, {});
        for (int64_t t = 0; t < 7; ++t) tracker.step(clip_.ops, clip_.features(t), t, {});
        tracker.prompt(9, 8, at(50, 23));
        tracker.prompt(5, 9, corner_mask());
        return tracker;
    }
    std::vector<TrackedFrame> second_half(ObjectTracker& tracker) {
        std::vector<TrackedFrame> frames;
        for (int64_t t = 7; t < 14; ++t) frames.push_back(tracker.step(clip_.ops, clip_.features(t), t, {}));
        tracker.prompt(9, 8, at(20, 40), /*keep_old=*/true);
        frames.push_back(tracker.step(clip_.ops, clip_.features(8), 8, {.reverse = true}));
        return frames;
    }
    void save(const ObjectTracker& tracker, const std::string& kind = kKind) {
        SessionWriter writer(*clip_.model, kind);
        writer.put("extra", nlohmann::json{{"answer", 42}});
        tracker.save(writer, clip_.ops);
        writer.save(path_);
    }
    std::string contents() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
    // What is said about the file.
    std::string complaint(const Model& model, const std::string& kind = kKind) const {
        try {
            const SessionReader reader(path_, model, kind);
            Ops ops(clip_.model->device(), 1);
            ObjectTracker(clip_.model).restore(reader, ops);
        } catch (const Error& error) {
            return error.what();
        }
        return "no complaint";
    }

    test::Clip clip_;
    std::filesystem::path folder_;
    std::string path_;
};

TEST_F(SessionFile, TheSecondHalfIsTheSameToTheBit) {
    ObjectTracker whole = first_half();
    save(whole);
    const std::vector<TrackedFrame> expected = second_half(whole);

    const SessionReader reader(path_, *clip_.model, kKind);
    EXPECT_EQ(reader.state("extra").at("answer"), 42);
    ObjectTracker restored(clip_.model);
    restored.prompt(77, 0, at(1, 1));  // what a tracker held before is gone
    restored.restore(reader, clip_.ops);
    EXPECT_EQ(restored.ids(), (std::vector<int>{9, 2, 5}));
    const std::vector<TrackedFrame> actual = second_half(restored);
    EXPECT_EQ(restored.memory_bytes(), whole.memory_bytes());

    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(actual[i].ids, expected[i].ids);
        EXPECT_EQ(actual[i].object_score, expected[i].object_score);
        ASSERT_EQ(actual[i].masks.shape(), expected[i].masks.shape());
        EXPECT_EQ(std::memcmp(actual[i].masks.raw(), expected[i].masks.raw(),
                              static_cast<size_t>(expected[i].masks.numel()) * sizeof(float)),
                  0)
            << "step " << i;
    }
}

TEST_F(SessionFile, SavingTwiceGivesTheSameBytes) {
    const ObjectTracker tracker = first_half();
    save(tracker);
    const std::string first = contents();
    save(tracker);
    EXPECT_EQ(first, contents());
    EXPECT_GT(first.size(), 1000U);
}

TEST_F(SessionFile, AnotherKindOrModelIsRefused) {
    save(first_half(), "text video");
    EXPECT_NE(complaint(*clip_.model).find("of kind 'click video', found 'text video'"), std::string::npos);
    const auto official = load("models/sam3-v", "official");
    EXPECT_NE(complaint(*official, "text video").find("its behaviour is \"hf\", this model's is \"official\""),
              std::string::npos);
    std::string bytes = contents();
    const std::string from = "\"channels\":32";
    write(bytes.replace(bytes.find(from), from.size(), "\"channels\":64"));
    EXPECT_NE(complaint(*clip_.model, "text video").find("saved with another model: its channels is 64"),
              std::string::npos);
}

TEST_F(SessionFile, AFileOfWeightsIsNoSession) {
    path_ = test::data_path("models/sam3-v/model.safetensors");
    EXPECT_NE(complaint(*clip_.model).find("expected a saved video session"), std::string::npos);
    path_ = (folder_ / "absent").string();
    EXPECT_NE(complaint(*clip_.model).find("absent"), std::string::npos);
}

TEST_F(SessionFile, ADamagedFileSaysSo) {
    save(first_half());
    const std::string bytes = contents();
    for (const size_t length : {size_t{0}, size_t{10}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
        write(bytes.substr(0, length));
        EXPECT_NE(complaint(*clip_.model), "no complaint") << length << " bytes";
    }
    // Parts of the state that are missing or of another type.
    const std::pair<std::string, std::string> changes[] = {{"\"entries\"", "\"entriez\""},
                                                           {"\"pass_start\":", "\"pass_stort\":"},
                                                           {"\"objects\":[", "\"objecto\":["},
                                                           {"\"tracked\":[[", "\"tracked\":[{"},
                                                           {"\"by_person\":true", "\"by_person\":1234"}};
    for (const auto& [from, to] : changes) {
        ASSERT_EQ(from.size(), to.size());
        std::string changed = bytes;
        const size_t place = changed.find(from);
        ASSERT_NE(place, std::string::npos) << from;
        changed.replace(place, from.size(), to);
        write(changed);
        EXPECT_NE(complaint(*clip_.model).find("damaged"), std::string::npos) << from;
    }
}

}  // namespace
}  // namespace sam3
