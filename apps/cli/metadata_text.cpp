#include "metadata_text.h"

#include "command.h"
#include "weights/metadata_json.h"

namespace sam3::cli {

std::string metadata_text(const MetadataValue& value) {
    constexpr size_t kShownItems = 8, kShownText = 100;
    if (const auto* text = std::get_if<std::string>(&value)) {
        if (text->size() <= kShownText) return printable(*text);
        return printable(text->substr(0, kShownText)) + "... (" + pretty_size(text->size()) + ")";
    }
    const auto* array = std::get_if<MetadataArray>(&value);
    using Json = nlohmann::json;
    std::string out = printable(to_json(value, kShownItems).dump(-1, ' ', false, Json::error_handler_t::replace));
    if (array != nullptr && array->size() > kShownItems) {
        out.back() = ',';
        out += " ...] (" + pretty_count(array->size()) + ")";
    }
    return out;
}

}  // namespace sam3::cli
