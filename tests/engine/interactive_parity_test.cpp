// SAM 3's interactive head against transformers on small random models: clicks, boxes, masks and refinement.
#include "engine/image_session.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/traces.h"

#include <nlohmann/json.hpp>

namespace sam3 {
namespace {

constexpr double kTolerance = 1e-4;  // of each tensor's range

struct CaseName {
    std::string model, name;
};
void PrintTo(const CaseName& value, std::ostream* out) { *out << value.model << "/" << value.name; }

std::vector<CaseName> cases() {
    std::vector<CaseName> all;
    for (const char* model : {"sam3-a", "sam3-b"})
        for (const char* name : {"point", "point-single", "points", "box", "point-box", "three-objects", "three-boxes",
                                 "mask", "refine", "official-point"})
            all.push_back({model, name});
    return all;
}

class InteractiveParity : public testing::TestWithParam<CaseName> {
protected:
    void SetUp() override {
        folder_ = test::data_path("models/" + GetParam().model);
        golden_ = std::make_unique<test::Golden>(folder_ + "/tracker-" + GetParam().name + ".safetensors");
        LoadOptions options;
        options.path = folder_;
        options.behaviour = golden_->text("behaviour");
        session_ = std::make_unique<ImageSession>(test::load_model(options), 2);
        traces_.collect_from(session_->ops());
        const test::Golden picture(folder_ + "/image-0.safetensors");
        const Shape shape = picture.shape("image");
        Image image(static_cast<int>(shape[1]), static_cast<int>(shape[0]), 3);
        image.pixels = picture.bytes("image");
        session_->encode({&image, 1});
    }

    std::vector<VisualQuery> queries() const {
        const auto points = nlohmann::json::parse(golden_->text("points"));
        const auto labels = nlohmann::json::parse(golden_->text("labels"));
        const auto boxes = nlohmann::json::parse(golden_->text("boxes"));
        const size_t count = points.is_array() ? points.size() : boxes.is_array() ? boxes.size() : 1;
        std::vector<VisualQuery> list(count);
        for (size_t i = 0; i < count; ++i) {
            list[i].multimask = golden_->text("multimask") == "true";
            for (size_t k = 0; points.is_array() && k < points[i].size(); ++k)
                list[i].points.push_back(
                    {points[i][k][0].get<float>(), points[i][k][1].get<float>(), labels[i][k].get<int>() == 1});
            if (boxes.is_array())
                list[i].box = Box{boxes[i][0].get<float>(), boxes[i][1].get<float>(), boxes[i][2].get<float>(),
                                  boxes[i][3].get<float>()};
            if (golden_->has("input_mask")) list[i].mask_logits = golden_->tensor("input_mask");
        }
        return list;
    }

    std::string folder_;
    std::unique_ptr<test::Golden> golden_;
    std::unique_ptr<ImageSession> session_;
    test::Traces traces_;
};

TEST_P(InteractiveParity, EveryStageEqualsTheReference) {
    session_->segment(queries());
    if (GetParam().name == "point") {
        const test::Golden image(folder_ + "/tracker-image.safetensors");
        for (int i = 0; i < 3; ++i) {
            const std::string name = "tracker.fpn." + std::to_string(i);
            EXPECT_LE(image.error(name, traces_.joined(name)), kTolerance) << name;
        }
    }
    EXPECT_LE(golden_->error("prompt.sparse", traces_.joined("prompt.sparse")), kTolerance);
    if (golden_->has("input_mask")) {
        EXPECT_LE(golden_->error("prompt.dense", traces_.joined("prompt.dense")), kTolerance);
    }
    EXPECT_LE(golden_->error("result.low_res", traces_.joined("click.masks")), kTolerance);
    EXPECT_LE(golden_->error("result.iou", traces_.joined("click.iou")), kTolerance);
    EXPECT_LE(golden_->error("tracker.object_score", traces_.joined("click.object")), kTolerance);
}

TEST_P(InteractiveParity, MasksEqualTheReferencesButForPixelsAtTheThreshold) {
    const std::vector<VisualAnswer> answers = session_->segment(queries());
    const std::vector<uint8_t> packed = golden_->bytes("result.masks");
    const size_t per_object = answers[0].candidates.size();
    const size_t row_bytes = packed.size() / (answers.size() * per_object);
    int64_t differing = 0;
    for (size_t n = 0; n < answers.size(); ++n) {
        for (const VisualCandidate& candidate : answers[n].candidates) {
            const size_t place = per_object == 1 ? 0 : static_cast<size_t>(candidate.index - 1);
            const uint8_t* row = packed.data() + (n * per_object + place) * row_bytes;
            for (size_t i = 0; i < candidate.mask.data.size(); ++i)
                differing += ((row[i / 8] >> (7 - i % 8)) & 1) != candidate.mask.data[i];
        }
        for (size_t k = 1; k < answers[n].candidates.size(); ++k)
            EXPECT_GE(answers[n].candidates[k - 1].iou, answers[n].candidates[k].iou) << "best first";
    }
    EXPECT_LE(differing, 2);
}

INSTANTIATE_TEST_SUITE_P(SmallRandomModels, InteractiveParity, testing::ValuesIn(cases()), [](const auto& test) {
    std::string name = test.param.model + "_" + test.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace sam3
