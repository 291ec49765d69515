#include "runtime/cpu/packed_weights.h"

#include "runtime/cpu/coded_gemm.h"
#include "util/error.h"

#include <algorithm>
#include <vector>

namespace sam3::cpu {

namespace {

// Calls pack(first, count, scratch) for the columns of each panel, on several threads where that is worth it. The
// scratch memory is the thread's own: `scratch` elements.
template <typename Element, typename Pack>
void pack_panels(const SourceRows& rows, int64_t panel_columns, int64_t scratch, const Pack& pack) {
    constexpr int64_t kWorthThreads = int64_t{1} << 18;  // weights
#pragma omp parallel if (rows.count() * rows.depth() >= kWorthThreads)
    {
        const auto memory = std::make_unique_for_overwrite<Element[]>(static_cast<size_t>(scratch));
#pragma omp for schedule(static)
        for (int64_t first = 0; first < rows.count(); first += panel_columns)
            pack(first, std::min(panel_columns, rows.count() - first), memory.get());
    }
}

class FloatWeights final : public PackedWeights {
public:
    FloatWeights(Device& device, const SourceRows& rows)
        : PackedWeights(rows.count(), rows.depth()), panels_(device, rows.count(), rows.depth()) {
        const int64_t step = panels_.panel_columns();
        pack_panels<float>(rows, step, step * depth(), [&](int64_t first, int64_t count, float* scratch) {
            if (rows.in_one_matrix(first, first + count - 1) && !rows[first].coded) {
                panels_.pack_panel(first, static_cast<const float*>(rows[first].values), rows[first].stride, count);
                return;
            }
            for (int64_t c = 0; c < count; ++c) {
                const float* row = rows.floats(first + c, scratch + c * depth());
                if (!rows[first + c].coded) std::copy_n(row, depth(), scratch + c * depth());
            }
            panels_.pack_panel(first, scratch, depth(), count);
        });
    }

    void multiply(const ExecContext& context, int64_t rows, GemmProduct product) const override {
        product.b = &panels_;
        gemm(context, rows, columns(), depth(), {&product, 1});
    }

private:
    PackedPanels panels_;
};

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
    Int8Weights(Device& device, const SourceRows& rows)
        : CodedWeights(rows.count(), rows.depth()),
          table_(simd::table()),
          layout_(layout_of(table_)),
          panels_(device, columns(), divide_up(depth(), layout_.group) * layout_.group, 1, table_),
          scales_(static_cast<size_t>(columns())),
          sums_(static_cast<size_t>(columns())) {
        const int64_t step = panels_.tile_columns();
        pack_panels<int8_t>(rows, step, step * depth(),
                            [&](int64_t first, int64_t count, int8_t* scratch) { pack(rows, first, count, scratch); });
    }

private:
    static simd::Int8Layout layout_of(const simd::Table& table) {
        simd::Int8Layout layout{};
        table.int8_layout(&layout);
        return layout;
    }
    void pack(const SourceRows& rows, int64_t first, int64_t count, int8_t* scratch) {
        const bool in_place = rows[first].coded && rows.in_one_matrix(first, first + count - 1);
        const int8_t* codes = in_place ? static_cast<const int8_t*>(rows[first].values) : scratch;
        const int64_t stride = in_place ? rows[first].stride : depth();
        for (int64_t c = 0; c < count; ++c) {
            const SourceRows::Row& row = rows[first + c];
            const auto column = static_cast<size_t>(first + c);
            if (!row.coded)
                table_.int8_code_weights(scratch + c * depth(), &scales_[column], static_cast<const float*>(row.values),
                                         depth());
            else if (!in_place)
                std::copy_n(static_cast<const int8_t*>(row.values), depth(), scratch + c * depth());
            if (row.coded) scales_[column] = row.scale;
            table_.int8_sum(&sums_[column], codes + c * stride, depth());
        }
        table_.int8_pack(static_cast<int8_t*>(panels_.panel(first / panels_.tile_columns())), codes, stride, count,
                         depth());
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
    Bf16Weights(Device& device, const SourceRows& rows)
        : CodedWeights(rows.count(), rows.depth()),
          table_(simd::table()),
          padded_(divide_up(depth(), 2) * 2),
          panels_(device, columns(), padded_, sizeof(uint16_t), table_) {
        const int64_t step = panels_.tile_columns();
        pack_panels<uint16_t>(rows, step, step * padded_, [&](int64_t first, int64_t count, uint16_t* scratch) {
            std::vector<float> decoded(static_cast<size_t>(depth()));
            for (int64_t c = 0; c < count; ++c)
                table_.bf16_code_row(scratch + c * padded_, rows.floats(first + c, decoded.data()), depth());
            table_.bf16_pack(static_cast<uint16_t*>(panels_.panel(first / step)), scratch, padded_, count, depth());
        });
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

std::unique_ptr<PackedWeights> pack_weights(Device& device, const SourceRows& rows, Precision precision) {
    switch (precision) {
        case Precision::f32: break;
        case Precision::bf16: return std::make_unique<Bf16Weights>(device, rows);
        case Precision::int8:
            if (rows.depth() > kMostInt8Depth) break;
            return std::make_unique<Int8Weights>(device, rows);
        case Precision::fp8:
            fail("precision ", name_of(precision), " is not available on the CPU device: use int8, bf16 or f32");
    }
    return std::make_unique<FloatWeights>(device, rows);
}

const CpuPackedLinear& cpu_weights(const PackedLinear& weights) {
    const auto* packed = dynamic_cast<const CpuPackedLinear*>(&weights);
    if (packed == nullptr) fail("these weights were packed for another device than the CPU: load the model for it");
    return *packed;
}

}  // namespace sam3::cpu
