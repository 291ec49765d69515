// The operators on the shapes where networks spend their time.
//
//   bench-ops                                       all shapes, 1 thread and all cores
//   bench-ops --benchmark_filter='linear.*threads:2'
//   bench-ops --benchmark_format=json
//   SAM3_BENCH_DEVICE=cuda bench-ops --benchmark_filter=bf16     on a GPU
//
// GFLOP/s counts two operations per multiply-add, as the profiler does.
#include "runtime/ops.h"
#include "runtime/gpu.h"
#include "util/error.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

namespace sam3 {
namespace {

bool on_gpu() {
    const char* const wanted = std::getenv("SAM3_BENCH_DEVICE");
    return wanted != nullptr && std::string(wanted) == "cuda";
}

Device& device() {
    static const std::shared_ptr<Device> chosen = on_gpu() ? make_cuda_device(0) : make_cpu_device();
    return *chosen;
}

Tensor random_weights(const Shape& shape) {
    static std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    Tensor tensor = Tensor::host(shape);
    std::generate_n(tensor.data<float>(), tensor.numel(), [&] { return uniform(generator); });
    return tensor;
}

Tensor random_tensor(const Shape& shape, Precision precision = Precision::f32) {
    Ops ops(device(), 1);
    return ops.cast(ops.upload(random_weights(shape)), device().storage_type(precision));
}

using Body = std::function<void(Ops&)>;

// Operands are made by `prepare` when the benchmark runs, so that a filter pays only for what it selects.
void add(const std::string& name, double flops, const std::function<Body()>& prepare) {
    auto run = [flops, prepare](benchmark::State& state) {
        const Body body = prepare();
        Ops ops(device(), static_cast<int>(state.range(0)));
        body(ops);  // the first call fills the memory pool and the caches
        device().synchronize();
        const int repeats = on_gpu() ? 50 : 1;  // so that the wait for the GPU does not count
        for (auto _ : state) {
            for (int i = 0; i < repeats; ++i) body(ops);
            device().synchronize();
        }
        const auto runs = static_cast<double>(state.iterations() * repeats);
        state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9 * runs, benchmark::Counter::kIsRate);
        if (on_gpu())
            state.counters["us"] =
                benchmark::Counter(runs * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    };
    auto* registered = benchmark::RegisterBenchmark(name.c_str(), run);
    registered->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond)->Arg(1);
    if (!on_gpu() && std::thread::hardware_concurrency() > 1)
        registered->Arg(static_cast<int>(std::thread::hardware_concurrency()));
}

double count(int64_t a, int64_t b, int64_t c) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

std::string name_of(const std::string& op, const Shape& sizes) { return op + "/" + to_string(sizes); }

void add_linear(int64_t rows, int64_t out, int64_t in, Activation activation, bool residual,
                Precision precision = Precision::f32) {
    std::string name = name_of("linear", {rows, out, in});
    if (precision != Precision::f32) name += precision == Precision::int8 ? " int8" : " bf16";
    if (activation == Activation::gelu) name += "+gelu";
    if (residual) name += "+residual";
    add(name, 2 * count(rows, out, in), [=] {
        const std::shared_ptr<const PackedLinear> weights =
            device().pack_linear({{random_weights({out, in})}, {random_weights({out})}}, precision);
        const Tensor x = random_tensor({rows, in}, precision);
        const Tensor added = residual ? random_tensor({rows, out}) : Tensor();
        return Body([=](Ops& ops) { ops.linear(x, *weights, activation, added); });
    });
}

void add_matmul(const std::string& name, const Shape& a_shape, const Shape& b_shape, bool transpose_b) {
    const int64_t columns = transpose_b ? b_shape[1] : b_shape[2];
    add(name_of("matmul " + name, a_shape), 2 * count(a_shape[0] * a_shape[1], a_shape[2], columns), [=] {
        const Tensor a = random_tensor(a_shape);
        const Tensor b = random_tensor(b_shape);
        return Body([=](Ops& ops) { ops.matmul(a, b, transpose_b); });
    });
}

void add_attention(int64_t queries, int64_t keys, int heads, int64_t head_size, int window,
                   Precision precision = Precision::f32) {
    const int64_t channels = heads * head_size;
    const int64_t seen = window > 0 ? static_cast<int64_t>(window) * window : keys;
    std::string name = name_of("attention", {heads, queries, keys, head_size});
    if (window > 0) name += " window " + std::to_string(window);
    if (precision != Precision::f32) name += " bf16";
    add(name, 4 * count(queries, seen, channels), [=] {
        const int64_t side = 72;  // a window needs a map; global attention a list
        const Shape q_shape = window > 0 ? Shape{1, side, queries / side, channels} : Shape{1, queries, channels};
        const Shape k_shape = window > 0 ? q_shape : Shape{1, keys, channels};
        const Tensor q = random_tensor(q_shape, precision);
        const Tensor k = random_tensor(k_shape, precision);
        const Tensor v = random_tensor(k_shape, precision);
        AttentionOptions options;
        options.heads = heads;
        options.window = window;
        return Body([=](Ops& ops) {
            ops.set_precision(precision);
            ops.attention(q, k, v, options);
        });
    });
}

struct Conv {
    int64_t size, in, out;
    int kernel, stride, padding, groups;
};

void add_conv(std::string name, const Conv& c, Precision precision = Precision::f32) {
    if (precision != Precision::f32) name += " bf16";
    const int64_t out_size = (c.size + 2 * c.padding - c.kernel) / c.stride + 1;
    const double flops = 2 * count(out_size * out_size, c.out, c.in / c.groups * c.kernel * c.kernel);
    add(name_of("conv " + name, {c.size, c.size, c.in, c.out}), flops, [=] {
        const Tensor weight = random_weights({c.out, c.in / c.groups, c.kernel, c.kernel});
        const std::shared_ptr<const PackedConv2d> packed =
            device().pack_conv2d({weight, random_weights({c.out}), c.stride, c.padding, c.groups}, precision);
        const Tensor x = random_tensor({1, c.size, c.size, c.in}, precision);
        return Body([=](Ops& ops) { ops.conv2d(x, *packed); });
    });
}

void add_conv_transpose(int64_t size, int64_t in, int64_t out, Precision precision = Precision::f32) {
    const std::string name = precision == Precision::f32 ? "conv_transpose 2x2" : "conv_transpose 2x2 bf16";
    add(name_of(name, {size, size, in, out}), 2 * count(size * size, in, 4 * out), [=] {
        const std::shared_ptr<const PackedLinear> packed =
            device().pack_linear({{random_weights({4 * out, in})}, {random_weights({4 * out})}}, precision);
        const Tensor x = random_tensor({1, size, size, in}, precision);
        return Body([=](Ops& ops) { ops.conv_transpose_2x2(x, *packed, Activation::gelu); });
    });
}

void add_memory_bound(Precision precision) {
    const std::string ending = precision == Precision::f32 ? "" : " bf16";
    add(name_of("layer_norm" + ending, {5184, 1024}), 8 * count(5184, 1024, 1), [=] {
        const Tensor x = random_tensor({5184, 1024});
        const Tensor gamma = random_tensor({1024});
        const DType type = device().storage_type(precision);
        return Body([=](Ops& ops) { ops.layer_norm(x, gamma, gamma, 1e-5F, Activation::none, type); });
    });
    add(name_of("rope_2d" + ending, {5184, 16, 64}), 3 * count(5184, 1024, 1), [=] {
        const Tensor x = random_tensor({1, 5184, 1024}, precision);
        const Tensor table = random_tensor({5184, 32, 2});
        return Body([=](Ops& ops) { ops.rope_2d_(x, table, 16); });
    });
    add(name_of("add" + ending, {5184, 1024}), count(5184, 1024, 1), [=] {
        const Tensor x = random_tensor({5184, 1024}, precision);
        return Body([=](Ops& ops) { ops.add(x, x); });
    });
}

void add_all() {
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::int8}) {
        add_linear(5184, 4736, 1024, Activation::gelu, false, precision);
        add_linear(5184, 1024, 4736, Activation::none, true, precision);
        add_linear(5184, 3072, 1024, Activation::none, false, precision);
        add_linear(5184, 1024, 1024, Activation::none, true, precision);
        add_linear(5184, 2048, 256, Activation::none, false, precision);
        add_linear(5184, 256, 2048, Activation::none, true, precision);
    }
    add_linear(200, 256, 256, Activation::none, false);
    add_linear(200, 2048, 256, Activation::none, false);
    add_linear(32, 4096, 1024, Activation::gelu, false);
    add_linear(1, 1024, 1024, Activation::none, false);
    add_matmul("mask einsum", {1, 200, 256}, {1, 82944, 256}, true);
    add_matmul("hyper network", {1, 4, 32}, {1, 65536, 32}, true);
    add_matmul("batch of rows", {200, 1, 33}, {200, 33, 256}, false);
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
        add_attention(5184, 5184, 16, 64, 0, precision);
        add_attention(5184, 5184, 16, 64, 24, precision);
        add_attention(5184, 5184, 8, 32, 0, precision);
        add_attention(200, 5184, 8, 32, 0, precision);
        add_attention(5184, 7 * 5184, 1, 256, 0, precision);
    }
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
        add_conv("3x3", {288, 256, 256, 3, 1, 1, 1}, precision);
        add_conv("3x3", {72, 256, 256, 3, 1, 1, 1}, precision);
        add_conv_transpose(72, 1024, 512, precision);
        add_conv_transpose(144, 512, 256, precision);
    }
    add_conv("patches 14x14", {1008, 3, 1024, 14, 14, 0, 1});
    add_conv("depthwise 7x7", {72, 256, 256, 7, 1, 3, 256});
    add_conv("3x3 stride 2", {1152, 1, 4, 3, 2, 1, 1});
    add_conv("3x3 stride 2", {576, 4, 16, 3, 2, 1, 1});
    add_conv("3x3 stride 2", {144, 64, 256, 3, 2, 1, 1});
    for (const Precision precision : {Precision::f32, Precision::bf16}) add_memory_bound(precision);
}

}  // namespace
}  // namespace sam3

int main(int argc, char** argv) {
    try {
        benchmark::Initialize(&argc, argv);
        if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
        sam3::add_all();
        benchmark::RunSpecifiedBenchmarks();
        benchmark::Shutdown();
        return EXIT_SUCCESS;
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
