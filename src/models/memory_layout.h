#pragma once

#include "models/memory_tracker.h"

#include <vector>

namespace sam3 {

// How the memories of several objects become rows of one length: whole maps, then pointers, each padded to the longest.
struct MemoryLayout {
    MemoryLayout(const std::vector<ObjectMemory>& objects, int64_t map_area, int64_t pointer_tokens);

    int64_t map_tokens(const ObjectMemory& object) const { return static_cast<int64_t>(object.spatial.size()) * area; }
    int64_t pointer_tokens(const ObjectMemory& object) const {
        return static_cast<int64_t>(object.pointers.size()) * tokens_a_pointer;
    }
    Tensor mask(const std::vector<ObjectMemory>& objects) const;  // u8 [B, T] on the host: 1 where there is a memory

    int64_t area, tokens_a_pointer;
    int64_t in_maps = 0, length = 0;  // tokens of a row
    bool padded = false;
    bool same_times = true;  // maps and pointers of all objects are equally old
};

// Puts such rows together in one step. A device's steps have a cost of their own, and there may be a hundred parts.
class MemoryRows {
public:
    MemoryRows(Ops& ops, const MemoryLayout& layout, int64_t channels, DType type)
        : ops_(ops), layout_(layout), channels_(channels), type_(type) {}

    void add_map(const Tensor& tokens) { add(tokens); }  // [H*W, M]
    // Ends a row with the next `count` pointers of all objects' tokens [., M]; undefined: they are zeros.
    void add_pointers(const Tensor& tokens, size_t count);
    Tensor joined() { return ops_.concat(parts_, 0).reshape({-1, layout_.length, channels_}); }

private:
    void add(const Tensor& tokens);
    void pad(int64_t until);

    Ops& ops_;
    const MemoryLayout& layout_;
    int64_t channels_;
    DType type_;
    std::vector<Tensor> parts_;
    Tensor zeros_;
    int64_t in_row_ = 0;          // tokens so far
    int64_t taken_pointers_ = 0;  // tokens, of all objects
};

}  // namespace sam3
