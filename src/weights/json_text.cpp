#include "weights/json_text.h"

#include "util/error.h"

namespace sam3 {

namespace {

constexpr int kMaxDepth = 64;

// Brackets outside strings; whether they match is the parser's business.
bool is_nested_too_deep(std::string_view text) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > kMaxDepth) return true;
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return false;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view what) {
    if (is_nested_too_deep(text)) fail("the JSON in ", what, " is nested more than ", kMaxDepth, " levels deep");
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
        fail("expected JSON in ", what, ", found an error at byte ", error.byte, " of ", text.size(),
             ": is the file complete?");
    } catch (const nlohmann::json::exception&) {
        fail("expected JSON in ", what, ", found a number or text that cannot be read");
    }
}

}  // namespace sam3
