// Prompts whose pixels and results stay in the device's memory give what the others give.
#include "engine/image_session.h"
#include "media/image_io.h"
#include "support/data_path.h"
#include "support/device.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3::test {
namespace {

ImageSession session() {
    LoadOptions options;
    options.path = data_path("../../models/sam3-shapes.gguf");
    options.device = device_name();
    options.precision = "f32";
    return ImageSession(Model::load(options), 2);
}

TEST(OnDevice, FindsWhatIsFoundOtherwise) {
    constexpr int kCount = 5;
    ImageSession usual = session();
    ImageSession resident = session();
    const Image image = read_image(data_path("../../assets/scene-00.png"));
    ASSERT_EQ(image.width, usual.model().image_size());
    ASSERT_EQ(image.height, usual.model().image_size());
    ConceptPrompt prompt;
    prompt.text = "star";
    prompt.options.threshold = 0;
    prompt.options.top_k = kCount;
    usual.encode({&image, 1});
    const ConceptResult wanted = usual.segment({&prompt, 1}).front();

    Ops& ops = resident.ops();
    resident.encode_on_device(
        ops.upload(Tensor::wrap_host(image.pixels.data(), {1, image.height, image.width, 3}, DType::u8)));
    const DeviceDetections found = resident.segment_on_device(prompt, kCount);
    const Tensor scores = ops.download(found.scores), boxes = ops.download(found.boxes),
                 masks = ops.download(found.masks);
    ASSERT_EQ(wanted.detections.size(), static_cast<size_t>(kCount));
    ASSERT_EQ(masks.shape(), Shape({kCount, image.height, image.width}));
    const size_t area = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    for (size_t i = 0; i < kCount; ++i) {
        const Detection& detection = wanted.detections[i];
        EXPECT_NEAR(scores.data<float>()[i], detection.score, 1e-5F);
        const float* box = boxes.data<float>() + 4 * i;
        EXPECT_NEAR((box[0] - box[2] / 2) * static_cast<float>(image.width), detection.box.x0, 1e-2F);
        size_t different = 0;
        for (size_t p = 0; p < area; ++p)
            different += masks.data<uint8_t>()[i * area + p] != detection.mask.data[p] ? 1 : 0;
        EXPECT_LE(different, area / 20000);  // pixels at the threshold
    }
}

TEST(OnDevice, RefusesPixelsOfAnotherSize) {
    ImageSession one = session();
    EXPECT_THROW(one.encode_on_device(one.ops().full({1, 8, 8, 3}, 0, DType::u8)), Error);
    EXPECT_THROW(one.segment_on_device({}, 3), Error);
}

}  // namespace
}  // namespace sam3::test
