// A network in fewer bits: the same answers, nearly.
#include "engine/image_session.h"
#include "support/goldens.h"
#include "support/models.h"

#include <cmath>
#include <map>

namespace sam3::test {
namespace {

Image some_image() {
    Image image(90, 70, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31 % 251);
    return image;
}

std::map<std::string, std::vector<float>> features(const std::string& model, Precision precision) {
    LoadOptions options;
    options.path = data_path("models/" + model);
    options.precision = name_of(precision);
    ImageSession session(load_model(options), 2);
    std::map<std::string, std::vector<float>> traced;
    session.ops().set_trace([&](const std::string& name, const Tensor& tensor) {
        const Tensor host = session.ops().download(tensor);
        if (host.dtype() == DType::f32) traced[name].assign(host.data<float>(), host.data<float>() + host.numel());
    });
    const Image image = some_image();
    session.encode({&image, 1});
    ConceptPrompt prompt;
    prompt.text = "red circle";
    session.segment({&prompt, 1});
    return traced;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / std::sqrt(aa * bb);
}

TEST(Precision, KeepsTheDirectionOfAllFeatures) {
    const auto exact = features("sam3-a", Precision::f32);
    for (const Precision precision : {Precision::bf16, Precision::int8}) {
        if (precision == Precision::int8 && device_name() != "cpu") continue;  // GPUs have none
        const auto coded = features("sam3-a", precision);
        for (const char* name :
             {"vision.backbone", "vision.fpn.0", "text.features", "fusion.output", "decoder.queries"}) {
            ASSERT_TRUE(exact.contains(name)) << name;
            ASSERT_EQ(coded.at(name).size(), exact.at(name).size());
            EXPECT_GT(cosine(coded.at(name), exact.at(name)), 0.999) << name << " in " << name_of(precision);
            EXPECT_NE(coded.at(name), exact.at(name)) << name << " was not computed in " << name_of(precision);
        }
        // What stays f32 is the same on a CPU; a GPU multiplies it with fewer bits then (TF32).
        if (device_name() == "cpu")
            EXPECT_EQ(coded.at("vision.patch_embed"), exact.at("vision.patch_embed"));
        else
            EXPECT_GT(cosine(coded.at("vision.patch_embed"), exact.at("vision.patch_embed")), 0.999999);
    }
}

TEST(Precision, HasNames) {
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::int8, Precision::fp8})
        EXPECT_EQ(precision_named(name_of(precision)), precision);
    try {
        precision_named("int4");
        FAIL() << "int4 was accepted";
    } catch (const std::exception& error) {
        EXPECT_STREQ(error.what(), "there is no precision 'int4': f32, bf16, int8 and fp8 are known");
    }
}

}  // namespace
}  // namespace sam3::test
