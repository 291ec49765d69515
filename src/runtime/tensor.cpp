#include "runtime/tensor.h"

#include "util/error.h"

#include <sys/mman.h>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace sam3 {

namespace {

// From here on memory comes from the system and goes back to it: the C library keeps what is freed, and a model's
// weights would leave hundreds of megabytes behind.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kMappedBytes = SIZE_MAX;  // the sanitizer watches the ends of what the C library hands out
#else
constexpr size_t kMappedBytes = size_t{2} << 20;
#endif
constexpr std::align_val_t kHostAlignment{64};

void* map_pages(size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(pages, bytes, MADV_HUGEPAGE);
#endif
    return pages;
}

struct HostBuffer : Buffer {
    explicit HostBuffer(size_t size) {
        data = size < kMappedBytes ? ::operator new(size == 0 ? 1 : size, kHostAlignment) : map_pages(size);
        bytes = size;
    }
    ~HostBuffer() override {
        if (bytes < kMappedBytes)
            ::operator delete(data, kHostAlignment);
        else
            munmap(data, bytes);
    }
};

struct WrappedBuffer : Buffer {
    std::shared_ptr<const void> owner;
};

Shape dense_strides(const Shape& shape) {
    Shape strides = shape;
    int64_t step = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
        strides[i] = step;
        step *= shape[i];
    }
    return strides;
}

}  // namespace

std::string to_string(const Shape& shape) {
    std::string text = "[";
    for (int i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

Tensor::Tensor(std::shared_ptr<Buffer> buffer, const Shape& shape, DType type, size_t byte_offset)
    : buffer_(std::move(buffer)),
      shape_(shape),
      strides_(dense_strides(shape)),
      byte_offset_(byte_offset),
      type_(type) {}

Tensor Tensor::host(const Shape& shape, DType type) {
    return Tensor(std::make_shared<HostBuffer>(static_cast<size_t>(shape.numel()) * size_of(type)), shape, type);
}

Tensor Tensor::wrap_host(const void* data, const Shape& shape, DType type, std::shared_ptr<const void> owner) {
    auto buffer = std::make_shared<WrappedBuffer>();
    buffer->data = const_cast<void*>(data);
    buffer->bytes = static_cast<size_t>(shape.numel()) * size_of(type);
    buffer->owner = std::move(owner);
    return Tensor(std::move(buffer), shape, type);
}

bool Tensor::is_dense() const {
    int64_t step = 1;
    for (int i = rank() - 1; i >= 0; --i) {
        if (shape_[i] != 1 && strides_[i] != step) return false;
        step *= shape_[i];
    }
    return true;
}

bool Tensor::has_uniform_rows() const {
    int64_t step = -1;  // stride that the next outer dimension must have
    for (int i = rank() - 2; i >= 0; --i) {
        if (shape_[i] == 1) continue;
        if (step >= 0 && strides_[i] != step) return false;
        step = strides_[i] * shape_[i];
    }
    return true;
}

int64_t Tensor::row_stride() const {
    for (int i = rank() - 2; i >= 0; --i)
        if (shape_[i] != 1) return strides_[i];
    return rank() == 0 ? 1 : shape_[-1];
}

Tensor Tensor::slice(int dim, int64_t start, int64_t length) const {
    if (dim < 0) dim += rank();
    if (dim < 0 || dim >= rank() || start < 0 || length < 0 || start + length > shape_[dim])
        fail("slice ", start, "+", length, " of dimension ", dim, " is outside shape ", to_string(shape_));
    Tensor view = *this;
    view.shape_[dim] = length;
    view.byte_offset_ += static_cast<size_t>(start * strides_[dim]) * size_of(type_);
    return view;
}

Tensor Tensor::select(int dim, int64_t index) const {
    if (dim < 0) dim += rank();
    if (dim == rank() - 1) fail("select needs a dimension before the last one, shape ", to_string(shape_));
    const Tensor one = slice(dim, index, 1);
    Tensor view = one;
    view.shape_ = Shape();
    view.strides_ = Shape();
    for (int i = 0; i < rank(); ++i) {
        if (i == dim) continue;
        view.shape_.push_back(one.shape_[i]);
        view.strides_.push_back(one.strides_[i]);
    }
    return view;
}

Tensor Tensor::unsqueeze(int dim) const {
    if (dim < 0) dim += rank() + 1;
    if (dim < 0 || dim > rank()) fail("unsqueeze at ", dim, " of shape ", to_string(shape_));
    Tensor view = *this;
    view.shape_ = Shape();
    view.strides_ = Shape();
    for (int i = 0; i <= rank(); ++i) {
        if (i == dim) {
            view.shape_.push_back(1);
            view.strides_.push_back(i < rank() ? strides_[i] * shape_[i] : 1);
        }
        if (i < rank()) {
            view.shape_.push_back(shape_[i]);
            view.strides_.push_back(strides_[i]);
        }
    }
    return view;
}

Tensor Tensor::reshape(const Shape& wanted) const {
    Shape target = wanted;
    int64_t known = 1;
    int unknown = -1;
    for (int i = 0; i < target.rank(); ++i) {
        if (target[i] == -1 && unknown < 0)
            unknown = i;
        else
            known *= target[i];
    }
    if (unknown >= 0) target[unknown] = known == 0 ? 0 : numel() / known;
    if (target.numel() != numel())
        fail("cannot reshape ", to_string(shape_), " to ", to_string(wanted), ": element counts differ");

    Tensor view = *this;
    view.shape_ = target;
    view.strides_ = dense_strides(target);
    if (is_dense()) return view;

    // Strided: source dimensions that follow each other without a gap form a block; each block must be divided
    // evenly by target dimensions.
    int t = target.rank() - 1;
    int64_t block_stride = strides_[-1];
    int64_t block_size = 1;
    for (int s = rank() - 1; s >= 0; --s) {
        block_size *= shape_[s];
        const bool continues = s > 0 && (shape_[s - 1] == 1 || strides_[s - 1] == block_size * block_stride);
        if (continues) continue;
        int64_t filled = 1;
        while (t >= 0 && (filled < block_size || target[t] == 1)) {
            view.strides_[t] = filled * block_stride;
            filled *= target[t--];
        }
        if (filled != block_size)
            fail("cannot reshape strided ", to_string(shape_), " to ", to_string(wanted), " without a copy");
        if (s > 0) block_stride = strides_[s - 1];
        block_size = 1;
    }
    return view;
}

Tensor Tensor::expand(int dim, int64_t size) const {
    if (dim < 0) dim += rank();
    if (shape_[dim] == size) return *this;
    if (shape_[dim] != 1) fail("cannot expand dimension ", dim, " of ", to_string(shape_), " to ", size);
    Tensor view = *this;
    view.shape_[dim] = size;
    view.strides_[dim] = 0;
    return view;
}

}  // namespace sam3
