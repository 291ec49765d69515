#include "model_options.h"

#include "command.h"
#include "engine/device_choice.h"
#include "model_store.h"
#include "values.h"

namespace sam3::cli {

ModelOptions::ModelOptions() : threads(default_threads()) {}

void ModelOptions::add_to(CLI::App& command, bool required) {
    const char* group = "Model";
    CLI::Option* model = command.add_option(
        "-m,--model", path,
        "Model: a .gguf file, a Hugging Face folder, .safetensors, .pt or .ggml, or a name (`sam3 models list`)");
    model->type_name("MODEL")->group(group);
    // Where a model is one choice of several, a variable must not make it.
    if (required) model->envname("SAM3_MODEL")->required();
    command
        .add_option("--behaviour", behaviour,
                    "Whose rules to follow where the references differ: official or hf (default: the model's)")
        ->check(CLI::IsMember({"official", "hf"}))
        ->group(group);
    command
        .add_option("--image-size", image_size,
                    "Side the image is scaled to, a multiple of the patch size (default: the model's)")
        ->check(CLI::Range(1, 8192))
        ->group(group);
    command
        .add_option("--device", device,
                    "cpu, cuda (the first GPU), cuda:N; auto: SAM3_DEVICE if that is set, else a GPU if there is one")
        ->check([](const std::string& name) {
            return is_device_name(name) ? std::string() : "there is no device '" + printable(name) + "'";
        })
        ->capture_default_str()
        ->group(group);
    command
        .add_option(
            "--precision", precision,
            "How large products are computed: f32, bf16, int8 (CPU) or fp8 (Hopper's GPUs): fewer bits are faster and "
            "need less memory (docs/performance.md); auto: f32 on the CPU, or int8 for a model stored in it; "
            "bf16 on a GPU")
        ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "fp8"}))
        ->capture_default_str()
        ->group(group);
    command.add_option("--threads", threads, "CPU threads (default: one a core; beside a GPU at most 8 are used)")
        ->check(CLI::Range(1, 1024))
        ->group(group);
}

std::string ModelOptions::resolved_path() const { return resolve_model(path); }

std::shared_ptr<const Model> ModelOptions::load(const Parts& parts, bool random) const {
    return Model::load({.path = resolved_path(),
                        .behaviour = behaviour,
                        .image_size = image_size,
                        .parts = parts,
                        .random = random,
                        .device = device,
                        .precision = precision});
}

}  // namespace sam3::cli
