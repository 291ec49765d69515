#pragma once

#include "engine/image_session.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// What `sam3 bench` does while its clock runs.
namespace sam3::cli {

struct BenchJob {
    // "image": all that the model can do with a picture; "encoder": its features alone; "phrase", "click"; "video": a
    // frame with clicked objects; "concepts": a frame on which a phrase is looked for and what it found is followed
    std::string task = "image";
    Image picture;
    std::string video;                              // whose frames are taken instead of the picture, moved; or empty
    std::string text = "object", second = "thing";  // phrases
    float threshold = 0.5F;                         // scores above it get a mask
    int top_k = 0;                                  // of those the best so many; 0: all
    int batch = 1;                                  // pictures at a time
    int objects = 3;                                // that a video follows
};

struct BenchTimes {
    using Seconds = std::map<std::string, std::vector<double>>;
    Seconds waits;  // what a user waits for, by the keys of bench_waits(): from a decoded picture to masks of its size
    Seconds steps;  // what the first of those consists of
    int64_t detections = 0;  // of the last phrase; masks cost time too, so two programs must find as many
    int64_t masks = 0;       // in the result of the video's last frame: those with nothing inside are left out
};

// Keys of BenchTimes::waits in the order of a report, each with words for people.
const std::vector<std::pair<std::string, std::string>>& bench_waits();

// Parts of the network that a task needs.
Parts bench_parts(const std::string& task);

class BenchRunner {
public:
    virtual ~BenchRunner() = default;
    // One more measurement of everything.
    virtual void run(BenchTimes& times) = 0;
};

// Prepares what is not measured: a video's first frame and its objects.
std::unique_ptr<BenchRunner> make_bench_runner(std::shared_ptr<ImageSession> session, BenchJob job);

// A picture of smooth colours: timing does not depend on what is seen, but a constant one could take short cuts.
Image synthetic_picture();

// GFLOP/s of one large product, best of a few: what the device does at most. On the CPU it is the largest of SAM 3's
// image encoder; a GPU needs a larger one to be busy.
double measure_peak(Ops& ops, Precision precision);

}  // namespace sam3::cli
