#include "models/video_config.h"

#include "models/configuration.h"

#include "support/goldens.h"
#include "util/error.h"

#include <fstream>

namespace sam3 {
namespace {

std::string message(const std::string& json) {
    try {
        ConceptVideoConfig::from_json(parse_configuration(json, "config.json"), "config.json");
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(VideoConfig, DefaultsAreThoseThatTheReferenceWrites) {
    const std::string path = test::data_path("models/sam3-a/config.json");
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    ASSERT_NE(text.find("\"hotstart_delay\""), std::string::npos);
    EXPECT_EQ(ConceptVideoConfig::from_json(parse_configuration(text, path), path), ConceptVideoConfig());
}

TEST(VideoConfig, ComesBackFromItsOwnJson) {
    ConceptVideoConfig config;
    config.det_nms_thresh = 0.15F;
    config.hotstart_delay = 9;
    config.recondition_on_trk_masks = false;
    config.min_trk_keep_alive = -7;
    EXPECT_EQ(ConceptVideoConfig::from_json(config.to_json(), "saved"), config);
}

TEST(VideoConfig, SaysWhichFieldIsWrong) {
    EXPECT_EQ(message("[]"), "config.json: expected an object at ''");
    EXPECT_NE(message("{").find("not valid JSON"), std::string::npos);
    EXPECT_NE(message(R"({"hotstart_delay": "long"})").find("'hotstart_delay' must be a number"), std::string::npos);
    EXPECT_NE(message(R"({"recondition_on_trk_masks": 1})").find("must be true or false"), std::string::npos);
    EXPECT_NE(message(R"({"hotstart_delay": 4})").find("hotstart_unmatch_thresh must not exceed hotstart_delay (4)"),
              std::string::npos);
    EXPECT_NE(message(R"({"hotstart_delay": 4, "hotstart_unmatch_thresh": 4})").find("hotstart_dup_thresh"),
              std::string::npos);
    EXPECT_NE(message(R"({"hotstart_delay": -1})").find("must not be negative"), std::string::npos);
    EXPECT_NE(message(R"({"score_threshold_detection": 1.5})").find("between 0 and 1"), std::string::npos);
    EXPECT_NE(message(R"({"min_trk_keep_alive": 31})").find("max_trk_keep_alive (30)"), std::string::npos);
    EXPECT_NE(message(R"({"max_num_objects": 0})").find("at least 1"), std::string::npos);
    EXPECT_EQ(message(R"({"hotstart_delay": 0})"), "") << "without a hot start its other values do not matter";
}

}  // namespace
}  // namespace sam3
