#pragma once

#include "runtime/cpu/packed_weights.h"

namespace sam3::cpu {

// A block of rows of A in codes, in one thread's scratch memory.
struct CodedBlock {
    uint8_t* codes;  // rows row_stride() apart
    simd::Int8Row* rows;
};

// Weights in fewer bits than the activations that they meet: rows are coded too, block by block where they are used.
class CodedWeights : public PackedWeights {
public:
    using PackedWeights::PackedWeights;
    void multiply(const ExecContext& context, int64_t rows, GemmProduct product) const final;

protected:
    virtual const simd::Table& table() const = 0;  // whose kernels read the codes
    virtual int64_t row_bytes() const = 0;
    virtual void code_row(const float* x, const CodedBlock& block, int64_t row) const = 0;
    virtual void multiply_panel(const CodedBlock& block, int64_t rows, int64_t panel,
                                const simd::GemmOutput& output) const = 0;

    // Of coded rows: off each other's cache sets, and on whole lines.
    int64_t row_stride() const { return divide_up(row_bytes(), 64) * 64 + 64; }

private:
    void run_task(const GemmProduct& product, int64_t first_row, int64_t rows, int64_t first_panel, int64_t last_panel,
                  const CodedBlock& block, float* row_scratch) const;
};

}  // namespace sam3::cpu
