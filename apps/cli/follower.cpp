#include "follower.h"

#include "clicks.h"
#include "util/error.h"

#include <algorithm>

namespace sam3::cli {

namespace {

VisualQuery with_mask(const VideoPrompt& prompt) {
    if (prompt.mask_file.empty()) return prompt.query;
    ClickObject object{prompt.query, prompt.mask_file};
    load_mask(object);
    return object.query;
}

class ConceptFollower : public Follower {
public:
    ConceptFollower(std::shared_ptr<ImageSession> session, const ConceptVideoOptions& options,
                    std::vector<VideoPrompt> prompts)
        : prompts_(std::move(prompts)), tracker_(std::move(session), options) {}

    std::vector<VideoFrameResult> push(const Image& image, int64_t frame, bool reverse) override {
        if (reverse != tracker_.reverse()) tracker_.turn(reverse);
        std::vector<VideoFrameResult> finished = tracker_.push(image, frame);
        for (const VideoPrompt& prompt : prompts_) {
            if (prompt.frame != frame) continue;
            const VideoFrameResult corrected = tracker_.refine(prompt.id, prompt.query);
            for (VideoFrameResult& result : finished)
                if (result.frame == frame) result = corrected;
        }
        return finished;
    }
    std::vector<VideoFrameResult> end_pass() override { return tracker_.finish(); }
    void save(const std::string& path) const override { tracker_.save(path); }
    void restore(const std::string& path) override { tracker_.restore(path); }

private:
    std::vector<VideoPrompt> prompts_;
    ConceptTracker tracker_;
};

class ClickFollower : public Follower {
public:
    ClickFollower(std::shared_ptr<ImageSession> session, const VisualVideoOptions& options,
                  std::vector<VideoPrompt> prompts)
        : prompts_(std::move(prompts)), tracker_(std::move(session), options) {}

    std::vector<int64_t> prompted_frames() const override {
        std::vector<int64_t> frames;
        for (const VideoPrompt& prompt : prompts_) frames.push_back(prompt.frame);
        frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
        return frames;
    }
    void begin(const Image& image, int64_t frame) override {
        for (const VideoPrompt& prompt : prompts_)
            if (prompt.frame == frame) tracker_.prompt(image, frame, prompt.id, with_mask(prompt));
        std::erase_if(prompts_, [&](const VideoPrompt& prompt) { return prompt.frame == frame; });
    }
    std::vector<VideoFrameResult> push(const Image& image, int64_t frame, bool reverse) override {
        begin(image, frame);
        if (tracker_.ids().empty()) return {{frame, {}}};  // a pipe whose objects have not come yet
        return {tracker_.track(image, frame, reverse)};
    }
    std::vector<VideoFrameResult> end_pass() override { return {}; }
    void save(const std::string& path) const override { tracker_.save(path); }
    void restore(const std::string& path) override {
        tracker_.restore(path);
        prompts_.clear();  // they were answered before the first frame
    }

private:
    std::vector<VideoPrompt> prompts_;  // not yet answered
    VisualTracker tracker_;
};

}  // namespace

std::unique_ptr<Follower> follow_concepts(std::shared_ptr<ImageSession> session, const ConceptVideoOptions& options,
                                          std::vector<VideoPrompt> prompts) {
    for (const VideoPrompt& prompt : prompts)
        if (!prompt.mask_file.empty() || prompt.query.box)
            fail("objects that --text finds are corrected by --point and --neg-point, not by a box or a mask");
    return std::make_unique<ConceptFollower>(std::move(session), options, std::move(prompts));
}

std::unique_ptr<Follower> follow_clicks(std::shared_ptr<ImageSession> session, const VisualVideoOptions& options,
                                        std::vector<VideoPrompt> prompts) {
    return std::make_unique<ClickFollower>(std::move(session), options, std::move(prompts));
}

}  // namespace sam3::cli
