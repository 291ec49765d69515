#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernels.h"

#include <vector>

namespace sam3::cpu {

namespace {

// The right operand of one product, packed panel by panel where it is used.
class MatrixColumns final : public GemmColumns {
public:
    MatrixColumns(const float* data, int64_t stride, bool transposed, int64_t tile_columns)
        : table_(simd::table()), data_(data), stride_(stride), tile_columns_(tile_columns), transposed_(transposed) {}

    const simd::Table& table() const override { return table_; }
    bool needs_scratch() const override { return true; }
    const float* panel(int64_t index, int64_t columns, int64_t k, int64_t depth, float* scratch) const override {
        const int64_t column = index * tile_columns_;
        if (transposed_)
            table_.gemm_pack_transposed(scratch, data_ + column * stride_ + k, stride_, columns, depth);
        else
            table_.gemm_pack(scratch, data_ + k * stride_ + column, stride_, columns, depth);
        return scratch;
    }

private:
    const simd::Table& table_;
    const float* data_;
    int64_t stride_;
    int64_t tile_columns_;
    bool transposed_;
};

}  // namespace

void matmul(const ExecContext& context, const MatmulArgs& args) {
    int64_t tile_columns = 0;
    simd::table().gemm_tile_columns(&tile_columns);
    const auto batch = static_cast<size_t>(args.out.dim(0));
    std::vector<MatrixRows> rows;
    std::vector<MatrixColumns> columns;
    std::vector<GemmProduct> products(batch);
    rows.reserve(batch);
    columns.reserve(batch);
    for (int64_t i = 0; i < args.out.dim(0); ++i) {
        rows.emplace_back(args.a.data<float>() + i * args.a.stride(0), args.a.stride(1));
        columns.emplace_back(args.b.data<float>() + i * args.b.stride(0), args.b.stride(1), args.transpose_b,
                             tile_columns);
        GemmProduct& product = products[static_cast<size_t>(i)];
        product.a = &rows.back();
        product.b = &columns.back();
        product.out = args.out.data<float>() + i * args.out.stride(0);
        product.out_rows.stride_x = args.out.stride(1);
        product.alpha = args.alpha;
    }
    gemm(context, args.out.dim(1), args.out.dim(2), args.a.dim(2), products);
    if (args.offsets) binary(context, sum_of(args));
}

}  // namespace sam3::cpu
