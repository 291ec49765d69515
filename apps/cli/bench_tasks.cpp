#include "bench_tasks.h"

#include "bench_clock.h"
#include "bench_video.h"
#include "image/resize.h"

#include <algorithm>
#include <limits>
#include <random>

namespace sam3::cli {
namespace {

constexpr int kClicks = 5;  // a click is short: several a run

// Values between -1 and 1 without a pattern: a GPU multiplies constants faster, for it needs less power for them.
Tensor noise(const Shape& shape) {
    Tensor tensor = Tensor::host(shape);
    std::minstd_rand generator(1);
    constexpr float kMiddle = 0.5F * static_cast<float>(std::minstd_rand::max());
    std::generate_n(tensor.data<float>(), tensor.numel(),
                    [&] { return static_cast<float>(generator()) / kMiddle - 1.0F; });
    return tensor;
}

class ImageRunner : public BenchRunner {
public:
    ImageRunner(std::shared_ptr<ImageSession> session, BenchJob job)
        : session_(std::move(session)),
          job_(std::move(job)),
          pictures_(static_cast<size_t>(job_.batch), job_.picture) {}

    void run(BenchTimes& times) override {
        const Model& model = session_->model();
        const bool phrases = model.finds_concepts() && (job_.task == "image" || job_.task == "phrase");
        const bool clicks = model.answers_clicks() && (job_.task == "image" || job_.task == "click");
        const bool host = model.device().is_host();
        // On a GPU steps overlap, and waiting for each would change the whole: what they take is asked for last.
        session_->wait_for_steps(host);
        const double encode = waited([&] { session_->encode(pictures_); });
        times.waits["image_alone"].push_back(encode);
        ConceptPrompt expected;
        expected.text = job_.text;
        const auto from_pixels = [&](const auto& prompt) {
            if (host) return encode + waited(prompt);
            return waited([&] {
                if (phrases) session_->expect({&expected, 1});
                session_->encode(pictures_);
                prompt();
            });
        };
        model.forget_phrases();
        if (phrases) times.waits["image_phrase"].push_back(from_pixels([&] { phrase(job_.text, times); }));
        if (clicks) times.waits["image_click"].push_back(from_pixels([&] { click(0.5); }));
        if (host) times.steps["whole"].push_back(add_steps(*session_, times));
        if (phrases) times.waits["second_phrase"].push_back(waited([&] { phrase(job_.second, times); }));
        for (int i = 0; clicks && i < kClicks; ++i)
            times.waits["next_click"].push_back(waited([&] { click(0.3 + 0.1 * i); }));
        if (host) return;
        if (phrases && job_.batch == 1) on_device(times);

        session_->wait_for_steps(true);
        model.forget_phrases();
        session_->encode(pictures_);
        if (phrases) phrase(job_.text, times);
        if (clicks) click(0.5);
        times.steps["whole"].push_back(add_steps(*session_, times));
    }

private:
    template <typename Work>
    double waited(const Work& work) {
        return seconds_of(session_->model().device(), work);
    }
    void phrase(const std::string& text, BenchTimes& times) {
        std::vector<ConceptPrompt> prompts(pictures_.size());
        for (size_t i = 0; i < prompts.size(); ++i) {
            prompts[i].text = text;
            prompts[i].image = static_cast<int>(i);
            prompts[i].options.threshold = job_.threshold;
            prompts[i].options.top_k = job_.top_k;
        }
        times.detections = static_cast<int64_t>(session_->segment(prompts).front().detections.size());
    }
    // Without the host: from pixels to masks in the device's memory.
    void on_device(BenchTimes& times) {
        constexpr int64_t kMasks = 100;
        const Model& model = session_->model();
        const int64_t side = model.image_size();
        const Image scaled = resize(job_.picture, static_cast<int>(side), static_cast<int>(side));
        const Tensor pixels =
            session_->ops().upload(Tensor::wrap_host(scaled.pixels.data(), {1, side, side, 3}, DType::u8));
        ConceptPrompt prompt;
        prompt.text = job_.text;
        model.forget_phrases();
        times.waits["on_device"].push_back(waited([&] {
            session_->expect({&prompt, 1});
            session_->encode_on_device(pixels);
            session_->segment_on_device(prompt, kMasks);
        }));
        prompt.text = job_.second;
        times.waits["second_on_device"].push_back(waited([&] { session_->segment_on_device(prompt, kMasks); }));
    }
    void click(double x) {
        std::vector<VisualQuery> queries(pictures_.size(), click_at(job_.picture, x, 0.5));
        for (size_t i = 0; i < queries.size(); ++i) queries[i].image = static_cast<int>(i);
        session_->segment(queries);
    }

    std::shared_ptr<ImageSession> session_;
    BenchJob job_;
    std::vector<Image> pictures_;
};

}  // namespace

const std::vector<std::pair<std::string, std::string>>& bench_waits() {
    static const std::vector<std::pair<std::string, std::string>> waits = {
        {"image_alone", "image alone"},
        {"image_phrase", "image and phrase"},
        {"second_phrase", "second phrase"},
        {"on_device", "image and phrase, on the GPU"},
        {"second_on_device", "second phrase, on the GPU"},
        {"image_click", "image and click"},
        {"next_click", "next click"},
        {"video_frame", "video frame"},
        {"concept_frame", "video frame by phrase"},
    };
    return waits;
}

Parts bench_parts(const std::string& task) {
    const bool phrases = task == "image" || task == "phrase" || task == "concepts";
    return {.concepts = phrases, .clicks = task != "phrase", .video = task == "video" || task == "concepts"};
}

std::unique_ptr<BenchRunner> make_bench_runner(std::shared_ptr<ImageSession> session, BenchJob job) {
    // Each fails with a sentence where the model has no such part.
    if (job.task == "phrase") session->model().detector();
    if (job.task == "click") session->model().interactive_head();
    if (job.task == "video") return make_click_video_runner(session, job);
    if (job.task == "concepts") return make_concept_video_runner(session, job);
    return std::make_unique<ImageRunner>(std::move(session), std::move(job));
}

Image synthetic_picture() {
    Image image(1280, 960, 3);
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x)
            for (int c = 0; c < 3; ++c)
                image.at(x, y)[c] = static_cast<uint8_t>((x * (c + 1) / 5 + y * (3 - c) / 4) & 255);
    return image;
}

double measure_peak(Ops& ops, Precision precision) {
    Device& device = ops.device();
    const bool host = device.is_host();
    const int64_t rows = host ? 5184 : 8192, in = host ? 1024 : 8192, out = host ? 4736 : 8192;
    const int repeats = host ? 1 : 10;  // a GPU is asked for several at a time, as a network asks
    constexpr int kMeasurements = 4;
    const auto packed = device.pack_linear({{noise({out, in})}, {}}, precision);
    const Tensor x = ops.cast(ops.upload(noise({rows, in})), device.storage_type(precision));
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < kMeasurements; ++i)
        best = std::min(best, seconds_of(device, [&] {
                            for (int k = 0; k < repeats; ++k) ops.linear(x, *packed);
                        }));
    return 2.0 * static_cast<double>(rows * in * out) * repeats / best * 1e-9;
}

}  // namespace sam3::cli
