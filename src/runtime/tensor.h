#pragma once

#include "runtime/dtype.h"
#include "runtime/shape.h"

#include <cstddef>
#include <memory>

namespace sam3 {

class Device;

// A block of memory that belongs to one device (none: plain host memory). The device decides what happens when the last
// owner lets go: pooled memory goes back to the pool, mapped weights drop their reference on the file.
struct Buffer {
    Device* device = nullptr;
    void* data = nullptr;
    size_t bytes = 0;

    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    virtual ~Buffer() = default;
};

// A typed, strided view of a buffer: cheap to copy, shares ownership. The last dimension is always contiguous;
// any other may be strided (a slice) or have stride 0 (an expanded dimension).
class Tensor {
public:
    Tensor() = default;
    Tensor(std::shared_ptr<Buffer> buffer, const Shape& shape, DType type, size_t byte_offset = 0);

    // Plain host memory, outside any device: weights on their way to a device, results on their way out.
    static Tensor host(const Shape& shape, DType type = DType::f32);
    // Host memory owned by someone else; `owner` is kept alive as long as a tensor refers to it.
    static Tensor wrap_host(const void* data, const Shape& shape, DType type,
                            std::shared_ptr<const void> owner = nullptr);

    bool defined() const { return buffer_ != nullptr; }
    explicit operator bool() const { return defined(); }

    const Shape& shape() const { return shape_; }
    const Shape& strides() const { return strides_; }  // in elements
    int rank() const { return shape_.rank(); }
    int64_t dim(int i) const { return shape_[i]; }
    int64_t stride(int i) const { return strides_[i]; }
    int64_t numel() const { return shape_.numel(); }
    DType dtype() const { return type_; }
    Device* device() const { return buffer_->device; }  // null: plain host memory
    const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

    void* raw() const { return static_cast<char*>(buffer_->data) + byte_offset_; }
    template <typename T>
    T* data() const {
        return static_cast<T*>(raw());
    }

    bool is_dense() const;  // row-major without gaps
    // Whether all dimensions but the last collapse into rows of one stride; that stride is then row_stride().
    bool has_uniform_rows() const;
    int64_t row_stride() const;
    int64_t rows() const { return shape_.rank() == 0 ? 1 : numel() / (shape_[-1] == 0 ? 1 : shape_[-1]); }

    // Views; nothing is copied.
    Tensor slice(int dim, int64_t start, int64_t length) const;
    Tensor select(int dim, int64_t index) const;  // slice of length 1, dimension removed (not the last one)
    Tensor reshape(const Shape& shape) const;     // one -1 allowed; fails when strides forbid it
    Tensor expand(int dim, int64_t size) const;   // repeats a dimension of size 1 without copying
    Tensor unsqueeze(int dim) const;

private:
    std::shared_ptr<Buffer> buffer_;
    Shape shape_;
    Shape strides_;
    size_t byte_offset_ = 0;
    DType type_ = DType::f32;
};

}  // namespace sam3
