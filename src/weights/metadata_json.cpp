#include "weights/metadata_json.h"

namespace sam3 {

namespace {

using Json = nlohmann::json;

Json list_to_json(const MetadataArray& array, size_t limit) {
    return std::visit(
        [&](const auto& items) {
            Json out = Json::array();
            for (size_t i = 0; i < items.size() && i < limit; ++i) {
                using Item = typename std::decay_t<decltype(items)>::value_type;
                if constexpr (std::is_same_v<Item, MetadataArray>)
                    out.push_back("array of " + std::to_string(items[i].size()));
                else
                    out.push_back(static_cast<Item>(items[i]));
            }
            return out;
        },
        array.items);
}

}  // namespace

Json to_json(const MetadataValue& value, size_t limit) {
    return std::visit(
        [&](const auto& held) -> Json {
            if constexpr (std::is_same_v<std::decay_t<decltype(held)>, MetadataArray>)
                return list_to_json(held, limit);
            else
                return held;
        },
        value);
}

}  // namespace sam3
