#include "engine/model.h"

#include "engine/device_choice.h"
#include "engine/model_registry.h"
#include "engine/model_vocabulary.h"
#include "engine/random_weights.h"
#include "models/precision_policy.h"
#include "util/error.h"
#include "weights/binder.h"
#include "weights/int8_codes.h"

#include <algorithm>
#include <cstring>

namespace sam3 {

std::shared_ptr<const Model> Model::load(const LoadOptions& options) {
    const std::shared_ptr<const WeightFile> file = open_weight_file(options.path);
    std::shared_ptr<Model> model(new Model);
    model->path_ = options.path;
    model->device_ = choose_device(options.device).device;
    model->precision_ =
        choose_precision(*model->device_, options.precision, !options.random && holds_int8_layers(*file));
    require_all_operators(*model->device_);
    model->loaded_ =
        load_network(options.random ? random_sam3_weights() : file,
                     {*model->device_, model->precision_, precision_policy}, {options.behaviour, options.parts});

    const Preprocessing& input = model->network().preprocessing();
    model->image_size_ = options.image_size > 0 ? options.image_size : input.size;
    if (model->image_size_ % input.multiple != 0 || model->image_size_ > 8192)
        fail("the image size ", model->image_size_, " must be a multiple of ", input.multiple, " and at most 8192");
    if (!model->finds_concepts()) return model;
    if (const auto vocabulary = vocabulary_of(*file)) model->tokenizer_.emplace(*vocabulary);
    const int64_t vocabulary = model->loaded_.text.vocabulary;
    if (model->tokenizer_ && static_cast<int64_t>(model->tokenizer_->vocabulary_size()) > vocabulary)
        fail(options.path, ": the tokenizer has ", model->tokenizer_->vocabulary_size(),
             " tokens, but the text encoder only ", vocabulary);
    return model;
}

const Sam3Detector& Model::detector() const {
    if (!finds_concepts())
        fail(path_, ": this model (", name(),
             ") has no concept detector: it answers clicks, boxes and masks, not text or exemplars");
    return *network().detector();
}

const InteractiveHead& Model::interactive_head() const {
    if (!answers_clicks())
        fail(path_, ": this model (", name(),
             ") has no interactive head: it finds concepts by text or exemplar, not by clicks");
    return *network().interactive_head();
}

const MemoryTracker& Model::tracker() const {
    if (!follows_objects())
        fail(path_, ": this model (", name(),
             ") has no memory of earlier frames: it works on single images, not on videos");
    return *network().tracker();
}

namespace {

// A token sees those before it only, and nobody looks at padding: what lies behind the phrase need not be encoded. In
// steps, so that a device that prepares itself for a shape meets few of them.
int64_t used_length(int64_t tokens) {
    constexpr int64_t kStep = 8;
    return (tokens + kStep - 1) / kStep * kStep;
}

}  // namespace

TextFeatures Model::text_features(Ops& ops, const std::string& phrase) const {
    if (const auto cached = text_cache_.find(phrase)) return *cached;
    const Sam3Detector& concepts = detector();
    if (!tokenizer_)
        fail(
            "no tokenizer was found beside the model: put tokenizer.json, vocab.json with merges.txt, or CLIP's "
            "bpe_simple_vocab_16e6.txt.gz into the model's folder");
    const bool hf = behaviour().name == "hf";
    const Encoding encoding = tokenizer_->encode(phrase, {.context_length = static_cast<int>(loaded_.text.context),
                                                          .pad_id = behaviour().pad_with_eos ? tokenizer_->end_id() : 0,
                                                          .rules = hf ? TextRules::transformers : TextRules::original});
    const auto length = std::min(static_cast<int64_t>(encoding.ids.size()), used_length(encoding.count));
    Tensor ids = Tensor::host({1, length}, DType::i32);
    Tensor mask = Tensor::host({1, length}, DType::u8);
    for (int64_t i = 0; i < length; ++i) {
        ids.data<int32_t>()[i] = encoding.ids[static_cast<size_t>(i)];
        mask.data<uint8_t>()[i] = i < encoding.count ? 1 : 0;
    }
    const Tensor features = concepts.encode_text(ops, ids, mask);
    const TextFeatures result{features.select(0, 0), encoding.count};
    text_cache_.insert(phrase, result);
    return result;
}

}  // namespace sam3
