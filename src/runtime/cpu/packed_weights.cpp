#include "runtime/cpu/packed_weights.h"

#include "runtime/cpu/coded_gemm.h"
#include "util/error.h"

#include <algorithm>
#include <vector>

namespace sam3::cpu {

namespace {

class FloatWeights final : public PackedWeights {
public:
    FloatWeights(Device& device, const float* rows, int64_t stride, int64_t columns, int64_t depth)
        : PackedWeights(columns, depth), panels_(device, columns, depth) {
        panels_.pack(0, rows, stride, columns);
    }

    void multiply(const ExecContext& context, int64_t rows, GemmProduct product) const override {
        product.b = &panels_;
        gemm(context, rows, columns(), depth(), {&product, 1});
    }

private:
    PackedPanels panels_;
};

constexpr int64_t kWorthThreads = int64_t{1} << 18;  // weights; fewer are packed by one thread

// Panels of codes, each of whole tiles and of the whole depth.
class CodePanels {
public:
    CodePanels(Device& device, int64_t columns, int64_t padded_depth, int64_t code_bytes, const simd::Table& table)
        : tile_columns_(tile_columns_of(table)), panel_bytes_(tile_columns_ * padded_depth * code_bytes) {
        data_ = device.allocate(static_cast<size_t>(divide_up(columns, tile_columns_) * panel_bytes_));
    }
    void* panel(int64_t index) const { return static_cast<uint8_t*>(data_->data) + index * panel_bytes_; }
    int64_t tile_columns() const { return tile_columns_; }

private:
    int64_t tile_columns_, panel_bytes_;
    std::shared_ptr<Buffer> data_;
};

class Int8Weights final : public CodedWeights {
public:
    Int8Weights(Device& device, const float* rows, int64_t stride, int64_t columns, int64_t depth)
        : CodedWeights(columns, depth),
          table_(simd::table()),
          layout_(layout_of(table_)),
          panels_(device, columns, divide_up(depth, layout_.group) * layout_.group, 1, table_),
          scales_(static_cast<size_t>(columns)),
          sums_(static_cast<size_t>(columns)) {
        const int64_t step = panels_.tile_columns();
#pragma omp parallel if (columns * depth >= kWorthThreads)
        {
            std::vector<int8_t> codes(static_cast<size_t>(step * depth));
#pragma omp for schedule(static)
            for (int64_t first = 0; first < columns; first += step) {
                const int64_t count = std::min(step, columns - first);
                for (int64_t c = 0; c < count; ++c) {
                    const auto column = static_cast<size_t>(first + c);
                    table_.int8_code_weights(codes.data() + c * depth, &scales_[column], &sums_[column],
                                             rows + (first + c) * stride, depth);
                }
                table_.int8_pack(static_cast<int8_t*>(panels_.panel(first / step)), codes.data(), depth, count, depth);
            }
        }
    }

private:
    static simd::Int8Layout layout_of(const simd::Table& table) {
        simd::Int8Layout layout{};
        table.int8_layout(&layout);
        return layout;
    }
    const simd::Table& table() const override { return table_; }
    int64_t row_bytes() const override { return divide_up(depth(), layout_.group) * layout_.group * layout_.row_code; }
    void code_row(const float* x, const CodedBlock& block, int64_t row) const override {
        table_.int8_code_row(block.codes + row * row_stride(), block.rows + row, x, depth());
    }
    void multiply_panel(const CodedBlock& block, int64_t rows, int64_t panel,
                        const simd::GemmOutput& output) const override {
        const int64_t column = panel * panels_.tile_columns();
        table_.int8_panel(
            {block.codes, row_stride(), block.rows, rows, depth(), static_cast<const int8_t*>(panels_.panel(panel)),
             column, std::min(panels_.tile_columns(), columns() - column), scales_.data(), sums_.data(), &output});
    }

    const simd::Table& table_;
    simd::Int8Layout layout_;
    CodePanels panels_;
    std::vector<float> scales_;
    std::vector<int32_t> sums_;
};

class Bf16Weights final : public CodedWeights {
public:
    Bf16Weights(Device& device, const float* rows, int64_t stride, int64_t columns, int64_t depth)
        : CodedWeights(columns, depth),
          table_(simd::table()),
          padded_(divide_up(depth, 2) * 2),
          panels_(device, columns, padded_, sizeof(uint16_t), table_) {
        const int64_t step = panels_.tile_columns();
#pragma omp parallel if (columns * depth >= kWorthThreads)
        {
            std::vector<uint16_t> codes(static_cast<size_t>(step * padded_));
#pragma omp for schedule(static)
            for (int64_t first = 0; first < columns; first += step) {
                const int64_t count = std::min(step, columns - first);
                for (int64_t c = 0; c < count; ++c)
                    table_.bf16_code_row(codes.data() + c * padded_, rows + (first + c) * stride, depth);
                table_.bf16_pack(static_cast<uint16_t*>(panels_.panel(first / step)), codes.data(), padded_, count,
                                 depth);
            }
        }
    }

private:
    const simd::Table& table() const override { return table_; }
    int64_t row_bytes() const override { return padded_ * static_cast<int64_t>(sizeof(uint16_t)); }
    void code_row(const float* x, const CodedBlock& block, int64_t row) const override {
        table_.bf16_code_row(reinterpret_cast<uint16_t*>(block.codes + row * row_stride()), x, depth());
    }
    void multiply_panel(const CodedBlock& block, int64_t rows, int64_t panel,
                        const simd::GemmOutput& output) const override {
        const int64_t column = panel * panels_.tile_columns();
        table_.bf16_panel({reinterpret_cast<const uint16_t*>(block.codes),
                           row_stride() / static_cast<int64_t>(sizeof(uint16_t)), rows, depth(),
                           static_cast<const uint16_t*>(panels_.panel(panel)), column,
                           std::min(panels_.tile_columns(), columns() - column), &output});
    }

    const simd::Table& table_;
    int64_t padded_;
    CodePanels panels_;
};

constexpr int64_t kMostInt8Depth = 65'000;  // 255 * 127 * depth must fit 32 bits

}  // namespace

std::unique_ptr<PackedWeights> pack_weights(Device& device, const float* rows, int64_t stride, int64_t columns,
                                            int64_t depth, Precision precision) {
    switch (precision) {
        case Precision::f32: break;
        case Precision::bf16: return std::make_unique<Bf16Weights>(device, rows, stride, columns, depth);
        case Precision::int8:
            if (depth > kMostInt8Depth) break;
            return std::make_unique<Int8Weights>(device, rows, stride, columns, depth);
        case Precision::fp8:
            fail("precision ", name_of(precision), " is not available on the CPU device: use int8, bf16 or f32");
    }
    return std::make_unique<FloatWeights>(device, rows, stride, columns, depth);
}

const CpuPackedLinear& cpu_weights(const PackedLinear& weights) {
    const auto* packed = dynamic_cast<const CpuPackedLinear*>(&weights);
    if (packed == nullptr) fail("these weights were packed for another device than the CPU: load the model for it");
    return *packed;
}

}  // namespace sam3::cpu
