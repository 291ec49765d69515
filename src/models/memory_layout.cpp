#include "models/memory_layout.h"

#include <algorithm>

namespace sam3 {

namespace {

bool equally_old(const ObjectMemory& a, const ObjectMemory& b) {
    return std::equal(a.spatial.begin(), a.spatial.end(), b.spatial.begin(), b.spatial.end(),
                      [](const auto& x, const auto& y) { return x.age == y.age; }) &&
           std::equal(a.pointers.begin(), a.pointers.end(), b.pointers.begin(), b.pointers.end(),
                      [](const auto& x, const auto& y) { return x.distance == y.distance; });
}

}  // namespace

MemoryLayout::MemoryLayout(const std::vector<ObjectMemory>& objects, int64_t map_area, int64_t pointer_tokens)
    : area(map_area), tokens_a_pointer(pointer_tokens) {
    int64_t in_pointers = 0;
    for (const ObjectMemory& object : objects) {
        in_maps = std::max(in_maps, map_tokens(object));
        in_pointers = std::max(in_pointers, this->pointer_tokens(object));
        same_times = same_times && equally_old(object, objects.front());
    }
    length = in_maps + in_pointers;
    for (const ObjectMemory& object : objects)
        padded = padded || map_tokens(object) + this->pointer_tokens(object) != length;
}

Tensor MemoryLayout::mask(const std::vector<ObjectMemory>& objects) const {
    Tensor mask = Tensor::host({static_cast<int64_t>(objects.size()), length}, DType::u8);
    auto* present = mask.data<uint8_t>();
    std::fill_n(present, mask.numel(), uint8_t{0});
    for (const ObjectMemory& object : objects) {
        std::fill_n(present, map_tokens(object), uint8_t{1});
        std::fill_n(present + in_maps, pointer_tokens(object), uint8_t{1});
        present += length;
    }
    return mask;
}

void MemoryRows::add_pointers(const Tensor& tokens, size_t count) {
    pad(layout_.in_maps);
    const int64_t rows = static_cast<int64_t>(count) * layout_.tokens_a_pointer;
    if (tokens && rows > 0) add(tokens.slice(0, taken_pointers_, rows));
    taken_pointers_ += rows;
    pad(layout_.length);
    in_row_ = 0;
}

void MemoryRows::add(const Tensor& tokens) {
    parts_.push_back(tokens);
    in_row_ += tokens.dim(0);
}

void MemoryRows::pad(int64_t until) {
    const int64_t rows = until - in_row_;
    if (rows == 0) return;
    if (!zeros_ || zeros_.dim(0) < rows) zeros_ = ops_.full({rows, channels_}, 0.0F, type_);
    add(zeros_.slice(0, 0, rows));
}

}  // namespace sam3
