#pragma once

#include "weights/layout.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// How the names in a file become the names that the models ask for, as data.
//
// The models use the names of Hugging Face transformers ("canonical" below). A pattern describes a whole name: `*`
// stands for one component (no dots, not empty), `**` for any text, dots and nothing included. In a replacement $1, $2,
// ... are what the wildcards stood for.
namespace sam3 {

class HashedNames;

struct RenameRule {
    std::string_view pattern;
    std::string_view replacement;
};
// A tensor that holds several canonical ones of equal size, stacked by rows: a fused qkv projection.
struct SplitRule {
    std::string_view pattern;
    std::vector<std::string_view> parts;  // replacements, in the order of the rows
};
// Tensors that stand for the rows of one canonical tensor; $1 of the pattern is the position.
struct StackRule {
    std::string_view pattern;
    std::string_view replacement;
    int count;
};
// Leading entries of one dimension that the canonical tensor does not have; the dimensions before it are 1.
struct SkipRule {
    std::string_view pattern;
    int dim;
    int64_t count;
};
// A tensor whose values stand in another order than the canonical one's.
struct LayoutRule {
    std::string_view pattern;
    Layout layout;
};
// A canonical tensor that a file may leave out because it equals another one.
struct AliasRule {
    std::string_view name;
    std::string_view same_as;
};
struct IgnoreRule {
    std::string_view pattern;
    std::string_view reason;
};

struct NameMap {
    std::string_view name;  // for messages: "SAM 3, Meta's names"
    // Names that the file may hold as hashes; all below is about the names themselves.
    const HashedNames* hashed = nullptr;
    std::vector<IgnoreRule> ignored;  // on the file's names
    std::vector<RenameRule> renames;  // all applied, in order, each to the result of those before
    // On renamed names:
    std::vector<SplitRule> splits;
    std::vector<StackRule> stacks;
    std::vector<SkipRule> skips;
    std::vector<LayoutRule> layouts;  // the last that fits counts
    // On canonical names:
    std::vector<AliasRule> aliases;
    bool flattened = false;  // dimensions behind the first may be stored as one, as blocks need long rows
};

// What one tensor of a file contributes to one canonical tensor.
struct MappedName {
    std::string canonical;
    int part = 0, parts = 1;            // which of the equal row ranges of the file's tensor it is
    int position = 0, stack_count = 1;  // which row range of the canonical tensor it fills
    int skip_dim = 0;
    int64_t skip_count = 0;
    std::optional<Layout> layout;  // of the whole canonical tensor
};

// Empty when the map ignores the name.
std::vector<MappedName> map_name(const NameMap& map, std::string_view file_name);

// What the wildcards stand for when the pattern describes the name.
std::optional<std::vector<std::string_view>> match_name(std::string_view pattern, std::string_view name);
std::string fill_in(std::string_view replacement, const std::vector<std::string_view>& captures);

const NameMap& identity_name_map();

}  // namespace sam3
