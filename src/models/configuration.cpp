#include "models/configuration.h"

#include "util/error.h"
#include "weights/metadata_json.h"
#include "weights/name_maps_gguf.h"
#include "weights/quote_name.h"

#include <algorithm>
#include <limits>

namespace sam3 {

namespace {

using Json = nlohmann::json;

// What the architecture's name stands for in config.json.
struct Architecture {
    const char* name;
    const char* model_type;
};
constexpr Architecture kArchitectures[] = {{"sam3", "sam3_video"}, {"sam1", "sam"}};

constexpr int kMostSections = 8;  // a field lies at most so deep

std::optional<Json> side_json(const WeightFile& file, const char* name) {
    const std::optional<std::string> text = file.side_file(name);
    if (!text) return std::nullopt;
    return parse_configuration(*text, *file.side_path(name));
}

// transformers 5 nests the image processor's fields, earlier versions do not.
void add_picture_fields(const WeightFile& file, Json& json) {
    for (const char* name : {"processor_config.json", "preprocessor_config.json"}) {
        std::optional<Json> processor = side_json(file, name);
        if (!processor || !processor->is_object()) continue;
        const Json fields = processor->value("image_processor", *processor);
        for (const char* key : {"image_mean", "image_std"})
            if (fields.is_object() && fields.contains(key) && !json.contains(key)) json[key] = fields.at(key);
    }
}

MetadataValue to_value(int64_t number) {
    const bool small = number >= std::numeric_limits<int32_t>::min() && number <= std::numeric_limits<int32_t>::max();
    return small ? MetadataValue(static_cast<int32_t>(number)) : MetadataValue(number);
}

MetadataValue to_value(const Json& list, const std::string& key) {
    const bool whole = std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_number_integer(); });
    const bool numbers = std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_number(); });
    if (!numbers) fail("the configuration's list ", quote_name(key), " does not hold numbers");
    if (whole) return MetadataArray{list.get<std::vector<int32_t>>()};
    return MetadataArray{list.get<std::vector<float>>()};
}

void flatten(const Json& json, const std::string& prefix, Metadata& metadata) {
    for (const auto& [name, value] : json.items()) {
        const std::string key = prefix + "." + name;
        if (value.is_object())
            flatten(value, key, metadata);
        else if (value.is_boolean())
            metadata.add(key, value.get<bool>());
        else if (value.is_number_integer())
            metadata.add(key, to_value(value.get<int64_t>()));
        else if (value.is_number())
            metadata.add(key, value.get<float>());
        else if (value.is_string())
            metadata.add(key, value.get<std::string>());
        else if (value.is_array())
            metadata.add(key, to_value(value, key));
        else
            fail("the configuration's field ", quote_name(key), " has no value");
    }
}

// The object that a key's last component belongs into.
Json& section_of(Json& root, std::string_view path, std::string& last, const std::string& where) {
    Json* section = &root;
    for (int depth = 0;; ++depth) {
        const size_t dot = path.find('.');
        if (dot == path.npos) {
            last = path;
            return *section;
        }
        Json& next = (*section)[std::string(path.substr(0, dot))];
        if (depth == kMostSections || !(next.is_null() || next.is_object()))
            fail(where, ": the metadata key that ends in ", quote_name(path), " cannot be a part of a configuration");
        section = &next;
        path.remove_prefix(dot + 1);
    }
}

}  // namespace

Json parse_configuration(const std::string& text, const std::string& where) {
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) fail(where, ": not valid JSON");
    return json;
}

Metadata configuration_to_metadata(const Json& configuration, const std::string& architecture) {
    Json fields = configuration;
    fields.erase("model_type");
    Metadata metadata;
    flatten(fields, architecture, metadata);
    return metadata;
}

Json configuration_from_metadata(const Metadata& metadata, const std::string& architecture, const std::string& where) {
    Json json = Json::object();
    const std::string prefix = architecture + ".";
    for (const auto& [key, value] : metadata.entries()) {
        if (!key.starts_with(prefix)) continue;
        std::string last;
        Json& section = section_of(json, std::string_view(key).substr(prefix.size()), last, where);
        if (section.contains(last)) fail(where, ": the metadata key ", quote_name(key), " is a field and a section");
        section[last] = to_json(value);
    }
    for (const Architecture& known : kArchitectures)
        if (architecture == known.name) json["model_type"] = known.model_type;
    return json;
}

std::optional<Configuration> configuration_of(const WeightFile& file) {
    // Files of our own say everything; what lies beside them may belong to another model.
    if (!is_own_gguf(file)) {
        if (std::optional<Json> json = side_json(file, "config.json")) {
            if (json->is_object()) add_picture_fields(file, *json);
            return Configuration{std::move(*json), *file.side_path("config.json")};
        }
    }
    const MetadataValue* value = file.metadata().find("general.architecture");
    const auto* architecture = value != nullptr ? std::get_if<std::string>(value) : nullptr;
    if (architecture == nullptr) return std::nullopt;
    Json json = configuration_from_metadata(file.metadata(), *architecture, file.path());
    // Other programs' files have the name of the architecture but not these sections.
    if (!json.contains("detector_config") && !json.contains("vision_config")) return std::nullopt;
    return Configuration{std::move(json), file.path()};
}

}  // namespace sam3
