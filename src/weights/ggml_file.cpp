#include "weights/ggml_file.h"

#include "util/error.h"
#include "weights/byte_cursor.h"
#include "weights/ggml_type.h"
#include "weights/quote_name.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_set>

namespace sam3 {

namespace {

constexpr std::string_view kMagic = "3mas";  // 0x73616d33, little-endian
constexpr uint32_t kTokenizerMagic = 0x746f6b00;
constexpr uint64_t kGgmlAlignment = 32;  // of tensor data, from the start of the file
constexpr int32_t kMaxSize = 1 << 20;
constexpr int kGlobalLayers = 4;  // as many as the header has room for
constexpr int32_t kSam31 = 4;     // a model_type of version 4

// What the numbers of the header are in Hugging Face's config.json; without a key: nothing depends on them.
constexpr std::string_view kVit = "detector_config.vision_config.backbone_config.";
constexpr std::array<std::string_view, 5> kVitKeys{"image_size", "patch_size", "hidden_size", "num_hidden_layers",
                                                   "num_attention_heads"};
constexpr std::array<std::string_view, 26> kKeys{
    "detector_config.text_config.hidden_size",
    "detector_config.text_config.num_attention_heads",
    "detector_config.text_config.num_hidden_layers",
    "detector_config.text_config.max_position_embeddings",
    "detector_config.text_config.vocab_size",
    "",  // width of the projected text: the neck's
    "detector_config.vision_config.fpn_hidden_size",
    "detector_config.detr_encoder_config.num_layers",
    "detector_config.detr_encoder_config.num_attention_heads",
    "detector_config.detr_encoder_config.intermediate_size",
    "detector_config.detr_decoder_config.num_layers",
    "detector_config.detr_decoder_config.num_attention_heads",
    "detector_config.detr_decoder_config.intermediate_size",
    "detector_config.detr_decoder_config.num_queries",
    "detector_config.geometry_encoder_config.num_layers",
    "",  // presence tokens
    "",  // geometry queries
    "tracker_config.mask_decoder_config.hidden_size",
    "tracker_config.mask_decoder_config.num_hidden_layers",
    "tracker_config.mask_decoder_config.num_multimask_outputs",
    "tracker_config.mask_decoder_config.iou_head_depth",
    "tracker_config.memory_encoder_output_channels",
    "tracker_config.memory_attention_num_layers",
    "tracker_config.num_maskmem",
    "tracker_config.max_object_pointers_in_encoder",
    "",  // experts for ambiguous clicks
};
// Sizes that the header has once and config.json several times: key, and the key that it equals.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRepeated{{
    {"detector_config.detr_encoder_config.hidden_size", "detector_config.vision_config.fpn_hidden_size"},
    {"detector_config.detr_decoder_config.hidden_size", "detector_config.vision_config.fpn_hidden_size"},
    {"detector_config.geometry_encoder_config.hidden_size", "detector_config.vision_config.fpn_hidden_size"},
    {"detector_config.geometry_encoder_config.num_attention_heads",
     "detector_config.detr_encoder_config.num_attention_heads"},
    {"detector_config.mask_decoder_config.num_attention_heads",
     "detector_config.detr_encoder_config.num_attention_heads"},
    {"tracker_config.prompt_encoder_config.hidden_size", "tracker_config.mask_decoder_config.hidden_size"},
}};

std::string key_of(std::string_view field) { return str("sam3.", field); }

struct GgmlHeader {
    int32_t version = 0;
    int32_t tensors = 0;
    bool is_visual_only = false;
};

int32_t read_size(ByteCursor& cursor) {
    const auto size = cursor.read<int32_t>();
    if (size < 0 || size > kMaxSize)
        fail(cursor.path(), ": the .ggml header has the impossible size ", size, " at byte ",
             cursor.position() - sizeof size, "; the file is damaged");
    return size;
}

void read_vit_sizes(ByteCursor& cursor, Metadata& metadata) {
    for (std::string_view key : kVitKeys) metadata.add(key_of(str(kVit, key)), read_size(cursor));
    const int64_t width = metadata.get_int(key_of(str(kVit, "hidden_size")));
    const int64_t thousandths = read_size(cursor);
    metadata.add(key_of(str(kVit, "intermediate_size")), width * thousandths / 1000);
    metadata.add(key_of(str(kVit, "window_size")), read_size(cursor));
    std::vector<int32_t> layers(static_cast<size_t>(std::min(read_size(cursor), kGlobalLayers)));
    for (int32_t& layer : layers) layer = read_size(cursor);
    metadata.add(key_of(str(kVit, "global_attn_indexes")), MetadataArray{layers});
}

GgmlHeader read_header(ByteCursor& cursor, Metadata& metadata) {
    if (cursor.take_text(kMagic.size()) != kMagic)
        fail(cursor.path(), ": expected a SAM 3 .ggml file, found another kind");
    GgmlHeader header;
    header.version = cursor.read<int32_t>();
    if (header.version < 1 || header.version > 4)
        fail(cursor.path(), ": expected a SAM 3 .ggml file of version 1 to 4, found ", header.version);
    cursor.read<int32_t>();  // the nominal type; each tensor says its own
    header.tensors = cursor.read<int32_t>();
    metadata.add("general.architecture", std::string("sam3"));
    metadata.add(key_of("model_type"), std::string("sam3_video"));
    read_vit_sizes(cursor, metadata);
    for (std::string_view key : kKeys) {
        const int32_t size = read_size(cursor);
        if (!key.empty()) metadata.add(key_of(key), size);
    }
    for (const auto& [key, same] : kRepeated) metadata.add(key_of(key), metadata.get_int(key_of(same)));
    if (header.version >= 2) header.is_visual_only = cursor.read<int32_t>() != 0;
    if (header.version >= 4 && cursor.read<int32_t>() == kSam31)
        fail(cursor.path(), ": found a SAM 3.1 .ggml file, which cannot be read: use Meta's sam3.1_multiplex.pt");
    if (header.tensors < 0) fail(cursor.path(), ": the .ggml header announces ", header.tensors, " tensors");
    cursor.checked_count(static_cast<uint64_t>(header.tensors), 16, "tensors");  // rank, name length, type, one size
    return header;
}

WeightTensor read_tensor(ByteCursor& cursor) {
    const auto rank = cursor.read<int32_t>();
    const auto name_bytes = cursor.read<int32_t>();
    const auto number = cursor.read<int32_t>();
    if (rank < 1 || rank > 4 || name_bytes < 1 || name_bytes > static_cast<int32_t>(kMaxTensorName))
        fail(cursor.path(), ": no tensor begins at byte ", cursor.position() - 12,
             " of the .ggml file, where one should; the file is damaged");
    std::array<int32_t, 4> dims{};  // innermost first
    for (int i = 0; i < rank; ++i) dims[static_cast<size_t>(i)] = cursor.read<int32_t>();
    WeightTensor tensor;
    tensor.name = cursor.take_text(static_cast<uint64_t>(name_bytes));
    for (int i = rank; i-- > 0;) tensor.shape.push_back(dims[static_cast<size_t>(i)]);

    const std::string who = str(cursor.path(), ": the tensor ", quote_name(tensor.name));
    const GgmlType* type = find_ggml_type(static_cast<uint32_t>(number));
    if (type == nullptr)
        fail(who, " has the ggml type ", number, ", which is unknown here, so what follows it cannot be found");
    const std::optional<uint64_t> bytes = checked_bytes(type->type, tensor.shape);
    if (!bytes) fail(who, " of type ", type->name, " has an impossible shape ", to_string(tensor.shape));
    tensor.type = type->type;
    tensor.type_name = type->name;
    cursor.take((kGgmlAlignment - cursor.position() % kGgmlAlignment) % kGgmlAlignment);
    tensor.data = cursor.take(*bytes);
    tensor.bytes = *bytes;
    return tensor;
}

std::string read_text(ByteCursor& cursor) {
    const auto bytes = cursor.read<int32_t>();
    if (bytes < 0) fail(cursor.path(), ": a text of the tokenizer has ", bytes, " bytes; the file is damaged");
    return std::string(cursor.take_text(static_cast<uint64_t>(bytes)));
}

uint64_t read_count(ByteCursor& cursor, std::string_view things) {
    const auto count = cursor.read<int32_t>();
    if (count < 0) fail(cursor.path(), ": the tokenizer announces ", count, " ", things, "; the file is damaged");
    return cursor.checked_count(static_cast<uint64_t>(count), 8, things);
}

void read_tokenizer(ByteCursor& cursor, Metadata& metadata) {
    if (cursor.read<uint32_t>() != kTokenizerMagic)
        fail(cursor.path(), ": expected the tokenizer behind the last tensor, at byte ", cursor.position() - 4,
             ", found something else; the file is damaged");
    std::vector<std::string> tokens(read_count(cursor, "tokens"));
    std::vector<bool> is_known(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
        std::string token = read_text(cursor);
        const auto id = cursor.read<int32_t>();
        const auto place = static_cast<size_t>(id);
        if (id < 0 || place >= tokens.size() || is_known[place])
            fail(cursor.path(), ": the token ", quote_name(token), " has the number ", id, ", which is ",
                 id < 0 || place >= tokens.size() ? "impossible" : "taken", "; the file is damaged");
        tokens[place] = std::move(token);
        is_known[place] = true;
    }
    std::vector<std::string> merges(read_count(cursor, "merges"));
    for (std::string& merge : merges) {
        merge = read_text(cursor);
        merge += ' ';
        merge += read_text(cursor);
    }
    metadata.add("tokenizer.ggml.tokens", MetadataArray{std::move(tokens)});
    metadata.add("tokenizer.ggml.merges", MetadataArray{std::move(merges)});
}

}  // namespace

WeightFileContents parse_ggml_file(const uint8_t* data, size_t size, const std::string& path) {
    ByteCursor cursor(data, size, path, ".ggml file");
    WeightFileContents contents;
    contents.format = "ggml";
    contents.path = path;
    const GgmlHeader header = read_header(cursor, contents.metadata);
    std::unordered_set<std::string> names;
    for (int32_t i = 0; i < header.tensors; ++i) {
        contents.tensors.push_back(read_tensor(cursor));
        const std::string& name = contents.tensors.back().name;
        if (!names.insert(name).second) fail(path, ": the tensor name ", quote_name(name), " stands there twice");
    }
    if (header.version >= 3 && !header.is_visual_only) read_tokenizer(cursor, contents.metadata);
    if (cursor.left() > 0)
        fail(path, ": the .ggml file has ", cursor.left(), " bytes behind its end; the file is damaged");
    return contents;
}

WeightFileContents open_ggml_file(std::shared_ptr<const MappedFile> file) {
    WeightFileContents contents = parse_ggml_file(file->data(), file->size(), file->path());
    contents.side_folder = std::filesystem::absolute(file->path()).parent_path().string();
    contents.mappings.push_back(std::move(file));
    return contents;
}

}  // namespace sam3
