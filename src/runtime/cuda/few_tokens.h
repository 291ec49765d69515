#pragma once

#include "runtime/cuda/kernels.h"

#include <cstdint>
#include <functional>
#include <vector>

// Layers on few tokens, as those of a text encoder, in one launch. Each of its operators takes less time than it takes
// to start one, and there are seven in a layer: so while a stage is captured they are not started but noted down as
// steps of a program. Whatever else asks for the stream starts the program first. All blocks of the GPU work on each
// step; the weights of the next ones are on their way meanwhile. Where a linear layer takes all that the one before it
// has made, results are handed over: see few_tokens_kernel.cu. Elsewhere all blocks wait for each other.
namespace sam3::cuda {

enum class TokenStepKind : uint8_t { linear, norm, attention };

// Strides are those from row to row, in elements.
struct TokenStep {
    TokenStepKind kind{};
    bool half_out = false;  // bf16, otherwise f32
    bool causal = false;    // attention
    bool attends = false;   // linear: of the attention among x, which has queries, keys and values side by side
    bool takes_over = false, hands_over = false;  // linear: x from the step before, the results to the next one
    int rows = 0, columns = 0;
    int depth = 0;  // linear: of the product; attention: keys
    int x_stride = 0, w_stride = 0, more_stride = 0, out_stride = 0, prepared_stride = 0;
    Activation activation{};
    float number = 0;            // norm: epsilon; attention: the scores' factor, for powers of two
    const void* x = nullptr;     // bf16; where it is normalised first: f32
    const void* w = nullptr;     // bf16 [columns, depth]; attention: keys
    const void* more = nullptr;  // linear: f32, added at last, or null; attention: values
    const void* bias = nullptr;  // linear: f32 or null
    const void* mask = nullptr;  // attention: of keys, or null
    void* out = nullptr;
    // Of a norm, or of the norm in front of a linear layer; else null.
    const void *gamma = nullptr, *beta = nullptr;
    void* prepared = nullptr;  // bf16; linear: for the norm or the attention in front of it
    int tiles = 0;             // linear: of eight columns, of a block
    int next_linear = -1;      // its number
};

struct TokenProgram {
    static constexpr int kMostSteps = 192;
    unsigned* meeting = nullptr;        // two counters, 0 between launches
    unsigned char* handover = nullptr;  // kHandoverBytes, bits that are all set between launches
    int count = 0, first_linear = -1;
    TokenStep steps[kMostSteps];
};

// few_tokens_kernel.cu
constexpr int kMostTokens = 16;
constexpr int kHandoverBytes = 4 * kMostTokens * 4096 * 2;  // four times the largest results
bool divide_for_tokens(TokenStep& step);  // of a linear layer: false where the kernel does not take its sizes
bool can_prepare(const TokenStep& linear);
bool has_all_blocks(const TokenStep& linear);  // whether every block has columns
bool few_tokens_fit();                         // whether all blocks run at once on this GPU
void start_few_tokens(const ExecContext& context, const TokenProgram& program);

// The program of one device that is being noted down.
class FewTokens {
public:
    explicit FewTokens(Device& device);

    // True when the operator has become a step.
    template <typename Args>
    bool take(const ExecContext& context, const Args& args) {
        const auto lock = device_of(context).lock();
        return is_open(context) && note(context, args);
    }
    void start();                     // what was noted down
    void clear() { steps_.clear(); }  // after an error

private:
    struct Noted {
        TokenStep step;
        ExecContext context;
        std::function<void()> alone;  // the ordinary operator
    };

    bool is_open(const ExecContext& context) const;
    bool note(const ExecContext& context, const LinearArgs& args);
    bool note(const ExecContext& context, const LayerNormArgs& args);
    bool note(const ExecContext& context, const AttentionArgs& args);
    template <typename Args>
    bool append(const TokenStep& step, const ExecContext& context, const Args& args,
                void (*kernel)(const ExecContext&, const Args&));

    std::vector<Noted> steps_;
    Tensor meeting_, handover_;  // of every lane
    bool fits_ = false, alone_ = false;
};

}  // namespace sam3::cuda
