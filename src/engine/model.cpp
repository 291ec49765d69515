#include "engine/model.h"

#include "engine/model_registry.h"
#include "text/tokenizer_files.h"
#include "util/error.h"
#include "weights/binder.h"

#include <cstring>

namespace sam3 {

namespace {

std::optional<ClipTokenizer> find_tokenizer(const WeightFile& file) {
    if (const auto json = file.side_file("tokenizer.json")) return read_tokenizer_json(*json, *file.side_path("tokenizer.json"));
    const auto vocab = file.side_file("vocab.json");
    const auto merges = file.side_file("merges.txt");
    if (vocab && merges) return read_vocab_and_merges(*vocab, *merges, *file.side_path("merges.txt"));
    for (const char* name : {"bpe_simple_vocab_16e6.txt.gz", "bpe_simple_vocab_16e6.txt", "merges.txt"})
        if (const auto bytes = file.side_file(name)) return read_merges(*bytes, *file.side_path(name));
    return std::nullopt;
}

}  // namespace

std::shared_ptr<const Model> Model::load(const LoadOptions& options) {
    const std::shared_ptr<const WeightFile> file = open_weight_file(options.path);
    const ModelDescription description = describe_model(*file);
    Sam3Config config = description.config;
    if (!options.behaviour.empty()) config.behaviour = Behaviour::by_name(options.behaviour);
    if (config.behaviour.name == "hf") config.behaviour.vit_norm_eps = config.vit.norm_eps;

    std::shared_ptr<Model> model(new Model);
    model->device_ = make_cpu_device();
    require_all_operators(*model->device_);
    model->image_size_ = options.image_size > 0 ? options.image_size : config.vit.image_size;
    if (model->image_size_ % config.vit.patch_size != 0 || model->image_size_ > 8192)
        fail("the image size ", model->image_size_, " must be a multiple of ", config.vit.patch_size, " and at most 8192");

    WeightLoader loader(file, *description.names);
    model->detector_ =
        std::make_unique<Sam3Detector>(nn::LoadContext{*model->device_}, loader.root() / "detector_model", config);
    loader.finish("SAM 3", *description.may_be_left);
    model->tokenizer_ = find_tokenizer(*file);
    if (model->tokenizer_ && static_cast<int64_t>(model->tokenizer_->vocabulary_size()) > config.text.vocabulary)
        fail(options.path, ": the tokenizer has ", model->tokenizer_->vocabulary_size(), " tokens, but the text encoder only ",
             config.text.vocabulary);
    return model;
}

TextFeatures Model::text_features(Ops& ops, const std::string& phrase) const {
    if (const auto cached = text_cache_.find(phrase)) return *cached;
    if (!tokenizer_)
        fail("no tokenizer was found beside the model: put tokenizer.json, vocab.json with merges.txt, or CLIP's "
             "bpe_simple_vocab_16e6.txt.gz into the model's folder");
    const Behaviour& behaviour = config().behaviour;
    const Encoding encoding = tokenizer_->encode(
        phrase, {.context_length = static_cast<int>(config().text.context),
                 .pad_id = behaviour.pad_with_eos ? tokenizer_->end_id() : 0,
                 .rules = behaviour.name == "hf" ? TextRules::transformers : TextRules::original});
    const auto length = static_cast<int64_t>(encoding.ids.size());
    Tensor ids = Tensor::host({1, length}, DType::i32);
    Tensor mask = Tensor::host({1, length}, DType::u8);
    for (int64_t i = 0; i < length; ++i) {
        ids.data<int32_t>()[i] = encoding.ids[static_cast<size_t>(i)];
        mask.data<uint8_t>()[i] = i < encoding.count ? 1 : 0;
    }
    const Tensor features = detector_->encode_text(ops, ops.upload(ids), ops.upload(mask));
    const TextFeatures result{features.select(0, 0), encoding.count};
    text_cache_.insert(phrase, result);
    return result;
}

}  // namespace sam3
