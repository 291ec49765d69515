#include "formats/tracks.h"

#include "mask/support.h"
#include "media/image_io.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

TrackedObjects two_objects() {
    TrackedObjects tracked{7, 5, 4, {}};
    tracked.objects.push_back(
        {0, "red \"square\"", 0.75F, 0, 0, 2, 2, test::draw({"##...", "##...", ".....", "....."})});
    tracked.objects.push_back({3, "object", 0.5F, 1, 1, 5, 4, test::draw({".....", ".####", ".####", "....#"})});
    return tracked;
}

std::string message_of(std::string_view line) {
    try {
        from_json_line(line, "list.jsonl: line 3");
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Tracks, ALineLosesNothing) {
    const TrackedObjects tracked = two_objects();
    const std::string line = to_json_line(tracked);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    const TrackedObjects again = from_json_line(line, "list.jsonl");
    EXPECT_EQ(again.frame, 7);
    EXPECT_EQ(again.width, 5);
    EXPECT_EQ(again.height, 4);
    ASSERT_EQ(again.objects.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(again.objects[i].id, tracked.objects[i].id);
        EXPECT_EQ(again.objects[i].label, tracked.objects[i].label);
        EXPECT_EQ(again.objects[i].score, tracked.objects[i].score);
        EXPECT_EQ(again.objects[i].x1, tracked.objects[i].x1);
        EXPECT_EQ(again.objects[i].mask.data, tracked.objects[i].mask.data);
    }
    EXPECT_EQ(to_json_line(again), line);
}

TEST(Tracks, DamagedLinesFailWithTheirPlace) {
    const std::string line = to_json_line(two_objects());
    for (size_t length = 0; length + 1 < line.size(); ++length) {
        const std::string message = message_of(std::string_view(line).substr(0, length));
        ASSERT_EQ(message.find("list.jsonl: line 3"), 0U) << length << ": " << message;
    }
    for (const char* text :
         {"[]", "7", R"({"frame":0,"width":0,"height":4,"objects":[]})",
          R"({"frame":0,"width":5,"height":4,"objects":[{"id":1}]})",
          R"({"frame":0,"width":2000000000,"height":2000000000,"objects":[]})",
          R"({"frame":0,"width":5,"height":4,"objects":[{"id":1,"label":"a","score":1,"box":[0,0],"mask":{}}]})",
          R"({"frame":0,"width":2,"height":1,"objects":[{"id":1,"label":"a","score":1,"box":[0,0,1,1],)"
          R"("mask":{"size":[1,2],"counts":"ooooo"}}]})"})
        EXPECT_EQ(message_of(text).find("list.jsonl: line 3"), 0U) << text << ": " << message_of(text);
}

TEST(Tracks, LabelMapsHoldIdsPlusOne) {
    const Image map = decode_image(to_label_map(two_objects()), "map.png");
    ASSERT_EQ(map.width, 5);
    ASSERT_EQ(map.height, 4);
    const auto color = [&](int x, int y) {
        const size_t at = static_cast<size_t>((y * map.width + x) * map.channels);
        return std::vector<uint8_t>(map.pixels.begin() + static_cast<long>(at),
                                    map.pixels.begin() + static_cast<long>(at) + 3);
    };
    EXPECT_EQ(color(4, 0), (std::vector<uint8_t>{0, 0, 0}));
    EXPECT_NE(color(0, 0), color(4, 0));
    EXPECT_NE(color(0, 0), color(2, 2));
    EXPECT_EQ(color(1, 1), color(2, 2));  // the higher id is on top
}

TEST(Tracks, LabelMapsRefuseIdsTheyCannotHold) {
    TrackedObjects tracked = two_objects();
    tracked.objects[1].id = 300;
    EXPECT_EQ(decode_image(to_label_map(tracked), "map.png").width, 5);  // 16-bit grey
    tracked.objects[1].id = 65535;
    EXPECT_THROW(to_label_map(tracked), Error);
    tracked.objects[1].id = -1;
    EXPECT_THROW(to_label_map(tracked), Error);
}

}  // namespace
}  // namespace sam3
