#include "eval/clip_score.h"

#include "eval/support.h"
#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::golden;
using test::golden_tracks;
using test::pointers;

Rle square(int width, int height, int x0, int y0, int side) {
    Mask mask(width, height);
    for (int y = y0; y < y0 + side; ++y)
        for (int x = x0; x < x0 + side; ++x) mask.at(x, y) = 1;
    return rle_encode(mask);
}

TEST(ClipScore, EqualsThePlainVersion) {
    for (const nlohmann::json& clip : golden()["clips"]) {
        const std::vector<Track> predicted = golden_tracks(clip["predicted"], true);
        const std::vector<Track> truth = golden_tracks(clip["truth"], true);
        for (size_t i = 0; i < truth.size(); ++i) {
            double j = 0, f = 0;
            for (size_t t = 0; t < truth[i].size(); ++t) {
                EXPECT_NEAR(region_similarity(predicted[i][t], truth[i][t]), clip["j"][i][t].get<double>(), 1e-15);
                EXPECT_NEAR(contour_accuracy(predicted[i][t], truth[i][t]), clip["f"][i][t].get<double>(), 1e-15);
                if (t == 0) continue;
                j += clip["j"][i][t].get<double>();
                f += clip["f"][i][t].get<double>();
            }
            const ClipFigures figures = score_track(predicted[i], truth[i], 1);
            EXPECT_NEAR(figures.j, j / static_cast<double>(truth[i].size() - 1), 1e-12);
            EXPECT_NEAR(figures.f, f / static_cast<double>(truth[i].size() - 1), 1e-12);
            EXPECT_EQ(figures.last_j, region_similarity(predicted[i].back(), truth[i].back()));
        }
        const IdentityFigures identity = count_switches(pointers(predicted), pointers(truth));
        EXPECT_EQ(identity.switches, clip["switches"].get<int>());
        EXPECT_EQ(identity.switched_tracks, clip["switched_tracks"].get<int>());
    }
}

// 300 x 400 pixels have a diagonal of 500, so contours may lie 4 pixels apart.
TEST(ClipScore, ContoursMayLieUpToTheRadiusApart) {
    const Rle truth = square(300, 400, 100, 100, 80);
    EXPECT_EQ(contour_accuracy(square(300, 400, 104, 100, 80), truth), 1.0);
    EXPECT_LT(contour_accuracy(square(300, 400, 105, 100, 80), truth), 1.0);
    EXPECT_EQ(contour_accuracy(square(300, 400, 10, 10, 20), truth), 0.0);
}

TEST(ClipScore, EmptyMasksAgreeWithEmptyMasksOnly) {
    const Rle some = square(20, 20, 3, 3, 5), empty = rle_encode(Mask(20, 20)), absent;
    for (const Rle& nothing : {empty, absent}) {
        EXPECT_EQ(region_similarity(nothing, empty), 1.0);
        EXPECT_EQ(contour_accuracy(empty, nothing), 1.0);
        EXPECT_EQ(region_similarity(nothing, some), 0.0);
        EXPECT_EQ(region_similarity(some, nothing), 0.0);
        EXPECT_EQ(contour_accuracy(nothing, some), 0.0);
        EXPECT_EQ(contour_accuracy(some, nothing), 0.0);
        EXPECT_EQ(track_iou({nothing}, {nothing}), 0.0);
        EXPECT_EQ(track_iou({nothing, some}, {some, some}), 0.5);
    }
}

TEST(ClipScore, AnObjectThatAnotherTrackTakesOverIsASwitch) {
    const Rle here = square(20, 20, 3, 3, 5), absent;
    const std::vector<Track> truth = {{here, here, here, here}};
    const std::vector<Track> handed_over = {{here, here, absent, absent}, {absent, absent, absent, here}};
    EXPECT_EQ(count_switches(pointers(handed_over), pointers(truth)).switches, 1);
    const std::vector<Track> lost_and_found = {{here, absent, absent, here}};
    EXPECT_EQ(count_switches(pointers(lost_and_found), pointers(truth)).switches, 0);
    const std::vector<Track> to_and_fro = {{here, absent, here, absent}, {absent, here, absent, here}};
    const IdentityFigures identity = count_switches(pointers(to_and_fro), pointers(truth));
    EXPECT_EQ(identity.switches, 3);
    EXPECT_EQ(identity.switched_tracks, 1);
    EXPECT_EQ(count_switches({}, pointers(truth)).switches, 0);
    EXPECT_EQ(count_switches(pointers(truth), {}).switches, 0);
}

TEST(ClipScore, TracksOfAnotherLengthOrSizeAreRefused) {
    const Rle some = square(20, 20, 3, 3, 5), other = square(20, 10, 3, 3, 5);
    EXPECT_THROW(score_track({some}, {some, some}), Error);
    EXPECT_THROW(score_track({some}, {some}, 1), Error);
    EXPECT_THROW(region_similarity(some, other), Error);
    EXPECT_THROW(contour_accuracy(some, other), Error);
    EXPECT_THROW(track_iou({some}, {some, some}), Error);
}

}  // namespace
}  // namespace sam3
