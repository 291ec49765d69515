#include "runtime/cuda/early_resets.h"
#include "runtime/cuda/few_tokens.h"

#include <algorithm>
#include <exception>
#include <map>

// Stages as CUDA graphs: the first run of a key and its shapes is an ordinary one, in which tables are made and
// products tuned; the second is captured; later ones are replayed. Scratch memory is shared by all graphs of a lane,
// because they run one after the other.
//
// Large inputs that will lie in the same place the next time are read there, and outputs are the graph's own, handed
// out without a copy: such a graph can only be used again when its inputs do lie there and nobody holds its outputs any
// more. That is the rule from one image to the next. For the exceptions there are a few variants of a graph, of which
// those that nobody used for long are replaced, and at last one that copies.
namespace sam3::cuda {

namespace {

constexpr size_t kMostGraphs = 64;           // of one session; the one that was not used for longest goes
constexpr std::ptrdiff_t kMostVariants = 3;  // of one graph that read inputs in place; and that own their outputs else
constexpr int kLong = 32;                    // runs of a graph without one of its variants
constexpr int64_t kMostCounters = 64;        // of a graph, see early_resets.h
constexpr size_t kWorthBinding = size_t{1} << 18;  // bytes of an input: smaller ones change their place more often

// Whether a graph owns it, so that the next one will lie in the same place.
bool stays(const Tensor& x) {
    const auto* buffer = dynamic_cast<const PooledBuffer*>(x.buffer().get());
    return buffer != nullptr && buffer->stays;
}

size_t bytes_of(const Tensor& x) { return static_cast<size_t>(x.numel()) * size_of(x.dtype()); }

// Memory of a graph, which the graph's pool may have handed to another one in the meantime.
Tensor unowned(const Tensor& x) {
    auto buffer = std::make_shared<Buffer>();
    buffer->device = x.device();
    buffer->data = x.raw();
    buffer->bytes = bytes_of(x);
    return Tensor(std::move(buffer), x.shape(), x.dtype());
}

std::string describe(const std::string& key, const std::vector<Tensor>& inputs) {
    std::string text = key;
    for (const Tensor& input : inputs) text += " " + to_string(input.shape()) + name_of(input.dtype());
    return text;
}

void copy_tensor(const ExecContext& context, const Tensor& from, const Tensor& to, cudaStream_t stream) {
    if (!from.is_dense()) return copy(context, CopyArgs{from, to});
    check(cudaMemcpyAsync(to.raw(), from.raw(), bytes_of(to), cudaMemcpyDeviceToDevice, stream), "copying");
}

}  // namespace

struct CudaDevice::Captured {
    cudaGraphExec_t executable = nullptr;
    std::vector<Tensor> inputs;       // memory of the graph
    std::vector<const void*> places;  // where an input is read instead; null: it is copied to `inputs`
    std::vector<Tensor> outputs;
    bool owning = false;  // outputs are its own
    int used = 0;         // in which run, at last

    Captured() = default;
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;
    ~Captured() {
        if (executable != nullptr) cudaGraphExecDestroy(executable);
    }

    bool binds() const {
        return std::any_of(places.begin(), places.end(), [](const void* place) { return place != nullptr; });
    }
    bool fits(const std::vector<Tensor>& given) const {
        for (size_t i = 0; i < given.size(); ++i)
            if (places[i] != nullptr && (places[i] != given[i].raw() || !given[i].is_dense())) return false;
        return !owning || std::all_of(outputs.begin(), outputs.end(),
                                      [](const Tensor& output) { return output.buffer().use_count() == 1; });
    }
};

struct CudaDevice::Graph {
    int runs = 0;
    bool refused = false;  // it does what cannot be captured
    uint64_t used = 0;
    std::vector<const void*> places;  // of the inputs, the last time
    std::vector<std::unique_ptr<Captured>> variants;

    // For one more variant that reads inputs where they lie.
    bool has_room() {
        auto oldest = variants.end();
        std::ptrdiff_t binding = 0;
        for (auto it = variants.begin(); it != variants.end(); ++it) {
            if (!(*it)->binds()) continue;
            ++binding;
            if (oldest == variants.end() || (*it)->used < (*oldest)->used) oldest = it;
        }
        if (binding < kMostVariants) return true;
        if (runs - (*oldest)->used <= kLong) return false;
        variants.erase(oldest);
        return true;
    }
};

namespace {

template <typename Graph>
struct Graphs : StageCache {
    std::map<std::string, Graph> by_key;
    uint64_t clock = 0;

    Graph& at(const std::string& key) {
        if (by_key.count(key) == 0 && by_key.size() >= kMostGraphs) {
            auto oldest = by_key.begin();
            for (auto it = by_key.begin(); it != by_key.end(); ++it)
                if (it->second.used < oldest->second.used) oldest = it;
            by_key.erase(oldest);
        }
        Graph& graph = by_key[key];
        graph.used = ++clock;
        return graph;
    }
};

template <typename Graph>
Graph& graph_of(std::unique_ptr<StageCache>& cache, const std::string& key, const std::vector<Tensor>& inputs) {
    if (!cache) cache = std::make_unique<Graphs<Graph>>();
    return static_cast<Graphs<Graph>&>(*cache).at(describe(key, inputs));
}

}  // namespace

namespace {

Lane lane_of_branch(size_t number) { return number == 0 ? Lane::branch : Lane::second_branch; }

}  // namespace

void CudaDevice::begin_branch(BranchShare share) {
    if (!capturing_ || lane_ != Lane::main) return;
    if (branches_ == kMostBranches) fail("a stage has more than ", kMostBranches, " branches at a time");
    // What the branch reads must not be overwritten by what runs beside it.
    if (branches_ == 0) {
        scratch(Lane::main).hold();
        branch_multiprocessors_ = share == BranchShare::most ? multiprocessors_ * 3 / 4 : multiprocessors_ / 3;
    }
    cudaEvent_t forked = forked_[branches_];
    check(cudaEventRecord(forked, stream()), "beginning a branch");
    lane_ = lane_of_branch(branches_++);
    check(cudaStreamWaitEvent(stream(), forked, 0), "beginning a branch");
}

void CudaDevice::end_branch() {
    if (lane_ != Lane::branch && lane_ != Lane::second_branch) return;
    check(cudaEventRecord(joined_[branches_ - 1], stream()), "ending a branch");
    lane_ = Lane::main;
}

void CudaDevice::join_branch() {
    if (branches_ == 0) return;
    if (--branches_ == 0) scratch(Lane::main).let_go();
    check(cudaStreamWaitEvent(stream(), joined_[branches_], 0), "joining a branch");
}

void CudaDevice::forget_branches(Lane lane) {
    lane_ = lane;
    branches_ = 0;
    scratch(Lane::main).let_go();
}

// The body's outputs as dense tensors that were made for them alone.
std::vector<Tensor> CudaDevice::run_body(const std::vector<Tensor>& inputs, const StageBody& body) {
    const ExecContext context{*this, 1, Precision::f32};
    std::vector<Tensor> outputs = body(inputs);
    while (branches_ > 0) join_branch();
    for (size_t i = 0; i < outputs.size(); ++i) {
        const Buffer* buffer = outputs[i].buffer().get();
        const bool twice = std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](const Tensor& other) { return other.buffer().get() == buffer; });
        const bool made = std::find(allocated_.begin(), allocated_.end(), buffer) != allocated_.end();
        if (outputs[i].is_dense() && made && !twice) continue;
        const Tensor dense = new_tensor(context, outputs[i].shape(), outputs[i].dtype());
        copy(context, CopyArgs{outputs[i], dense});
        outputs[i] = dense;
    }
    return outputs;
}

void* CudaDevice::next_counter() {
    if (!capturing_ || !counters_ || counters_used_ == kMostCounters) return nullptr;
    return counters_.select(0, counters_used_++).raw();
}

// Nothing when the work cannot be captured. An owning graph is captured twice: the first time shows which of the
// tensors that it makes become its outputs.
std::unique_ptr<CudaDevice::Captured> CudaDevice::capture(Lane lane, bool owning,
                                                          const std::vector<const void*>& places,
                                                          const std::vector<Tensor>& inputs, const StageBody& body) {
    auto captured = std::make_unique<Captured>();
    captured->owning = owning;
    captured->places = places;
    const ExecContext context{*this, 1, Precision::f32};
    std::vector<Tensor> own;
    std::vector<Tensor> outputs;
    cudaGraph_t graph = nullptr;
    const auto record = [&] {
        allocated_.clear();
        own.clear();
        for (size_t i = 0; i < inputs.size(); ++i)
            own.push_back(places[i] != nullptr ? inputs[i] : new_tensor(context, inputs[i].shape(), inputs[i].dtype()));
        counters_ = new_tensor(context, {kMostCounters, static_cast<int64_t>(kCounterBytes)}, DType::u8);
        counters_used_ = 0;
        // Relaxed, because the pool may have to grow meanwhile.
        check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "beginning to capture");
        try {
            outputs = run_body(own, body);
        } catch (...) {
            few_tokens_->clear();
            forget_branches(lane);
            cudaStreamEndCapture(stream(), &graph);
            throw;
        }
        check(cudaStreamEndCapture(stream(), &graph), "capturing");
    };
    capturing_ = true;
    lane_ = lane;
    kept_.clear();
    try {
        record();
        if (owning) {
            for (const Tensor& output : outputs) {
                const auto last = std::find(allocated_.rbegin(), allocated_.rend(), output.buffer().get());
                kept_.push_back(static_cast<size_t>(std::distance(last, allocated_.rend())) - 1);
            }
            outputs.clear();
            cudaGraphDestroy(graph);
            graph = nullptr;
            record();
        }
        if (counters_used_ > 0)
            reset_early(graph, counters_.raw(), static_cast<size_t>(counters_used_) * kCounterBytes);
        check(cudaGraphInstantiate(&captured->executable, graph, 0), "making a graph");
        for (size_t i = 0; i < own.size(); ++i)
            captured->inputs.push_back(places[i] != nullptr ? Tensor() : unowned(own[i]));
        for (const Tensor& output : outputs) captured->outputs.push_back(owning ? output : unowned(output));
    } catch (const std::exception&) {
        captured.reset();
        cudaGetLastError();
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    outputs.clear();
    own.clear();
    counters_ = {};
    capturing_ = false;
    lane_ = Lane::main;
    return captured;
}

CudaDevice::Captured* CudaDevice::variant_for(Graph& graph, const std::vector<Tensor>& inputs, const StageBody& body) {
    const std::vector<const void*> nowhere(inputs.size(), nullptr);
    std::vector<const void*> places = nowhere;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const bool again = i < graph.places.size() && graph.places[i] == inputs[i].raw();
        if (inputs[i].is_dense() && bytes_of(inputs[i]) >= kWorthBinding && (again || stays(inputs[i])))
            places[i] = inputs[i].raw();
    }
    const auto usable = [&](const auto& suits) -> Captured* {
        for (const auto& variant : graph.variants)
            if (suits(*variant) && variant->fits(inputs)) return variant.get();
        return nullptr;
    };
    if (Captured* best = usable([&](const Captured& a) { return a.owning && a.places == places; })) return best;
    if (places != nowhere && !graph.has_room()) places = nowhere;
    if (places == nowhere)
        if (Captured* other = usable([](const Captured&) { return true; })) return other;
    const auto alike = std::count_if(graph.variants.begin(), graph.variants.end(),
                                     [&](const auto& a) { return a->owning && a->places == places; });
    auto made = capture(Lane::main, alike < kMostVariants, places, inputs, body);
    if (!made) {
        graph.refused = true;
        return nullptr;
    }
    graph.variants.push_back(std::move(made));
    return graph.variants.back().get();
}

std::vector<Tensor> CudaDevice::copied(const std::vector<Tensor>& tensors, Lane lane) {
    const ExecContext context{*this, 1, Precision::f32};
    std::vector<Tensor> results;
    for (const Tensor& tensor : tensors) {
        results.push_back(new_tensor(context, tensor.shape(), tensor.dtype()));
        copy_tensor(context, tensor, results.back(), stream_of(lane));
    }
    return results;
}

// What comes from a stage aside is waited for only by what reads it. Work that is not a stage could be that, and so
// could a stage that takes it as input.
void CudaDevice::await_aside() {
    if (from_aside_.empty()) return;
    check(cudaStreamWaitEvent(stream_of(Lane::main), aside_, 0), "waiting for a stage aside");
    from_aside_.clear();
}

std::vector<Tensor> CudaDevice::run_stage(std::unique_ptr<StageCache>& cache, const std::string& key,
                                          const std::vector<Tensor>& inputs, const StageBody& body) {
    const auto held = lock();
    if (capturing_) return body(inputs);
    for (const Tensor& input : inputs)
        if (std::any_of(from_aside_.begin(), from_aside_.end(),
                        [&](const Tensor& other) { return other.buffer() == input.buffer(); })) {
            await_aside();
            break;
        }
    Graph& graph = graph_of<Graph>(cache, key, inputs);
    if (graph.runs == 0 || graph.refused) {
        std::vector<Tensor> results = body(inputs);
        ++graph.runs;  // one that failed half-way has not tuned everything
        return results;
    }
    ++graph.runs;
    Captured* const captured = variant_for(graph, inputs, body);
    graph.places.clear();
    for (const Tensor& input : inputs) graph.places.push_back(input.raw());
    if (captured == nullptr) return body(inputs);
    captured->used = graph.runs;

    const ExecContext context{*this, 1, Precision::f32};
    for (size_t i = 0; i < inputs.size(); ++i)
        if (captured->places[i] == nullptr) copy_tensor(context, inputs[i], captured->inputs[i], stream_of(Lane::main));
    check(cudaGraphLaunch(captured->executable, stream_of(Lane::main)), key.c_str());
    return captured->owning ? captured->outputs : copied(captured->outputs, Lane::main);
}

std::vector<Tensor> CudaDevice::run_stage_aside(std::unique_ptr<StageCache>& cache, const std::string& key,
                                                const std::vector<Tensor>& host_inputs, const StageBody& body) {
    const auto held = lock();
    Graph& graph = graph_of<Graph>(cache, key, host_inputs);
    if (!capturing_ && graph.runs++ > 0 && !graph.refused && graph.variants.empty()) {
        auto made = capture(Lane::aside, false, std::vector<const void*>(host_inputs.size()), host_inputs, body);
        graph.refused = !made;
        if (made) graph.variants.push_back(std::move(made));
    }
    if (capturing_ || graph.variants.empty()) {
        std::vector<Tensor> inputs;
        for (const Tensor& input : host_inputs) inputs.push_back(uploaded(input));
        return body(inputs);
    }
    const Captured& captured = *graph.variants.front();
    const cudaStream_t aside = stream_of(Lane::aside);
    for (size_t i = 0; i < host_inputs.size(); ++i)
        check(cudaMemcpyAsync(captured.inputs[i].raw(), host_inputs[i].raw(), bytes_of(host_inputs[i]),
                              cudaMemcpyHostToDevice, aside),
              "copying to the GPU");
    check(cudaGraphLaunch(captured.executable, aside), key.c_str());
    // Outputs get memory that earlier work of the main lane may still use.
    check(cudaEventRecord(before_aside_, stream_of(Lane::main)), key.c_str());
    check(cudaStreamWaitEvent(aside, before_aside_, 0), key.c_str());
    const std::vector<Tensor> outputs = copied(captured.outputs, Lane::aside);
    check(cudaEventRecord(aside_, aside), key.c_str());
    from_aside_.insert(from_aside_.end(), outputs.begin(), outputs.end());
    return outputs;
}

}  // namespace sam3::cuda
