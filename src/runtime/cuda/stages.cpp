#include "runtime/cuda/kernels.h"

#include <cstring>
#include <map>

// Stages as CUDA graphs: the first run of a key and its shapes is an ordinary one, in which tables are made and
// products tuned; the second is captured; later ones are replayed. A graph works on memory of its own: inputs are
// copied in, outputs out. All graphs of a device share that memory, because they run one after the other.
namespace sam3::cuda {

namespace {

constexpr size_t kMostGraphs = 64;  // of one session; the one that was not used for longest goes

// Memory of a graph, which the graph's pool may have handed to another one in the meantime.
Tensor unowned(const Tensor& x) {
    auto buffer = std::make_shared<Buffer>();
    buffer->device = x.device();
    buffer->data = x.raw();
    buffer->bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
    return Tensor(std::move(buffer), x.shape(), x.dtype());
}

struct Graph {
    int runs = 0;
    bool refused = false;  // it does what cannot be captured
    uint64_t used = 0;
    cudaGraphExec_t executable = nullptr;
    std::vector<Tensor> inputs, outputs;

    Graph() = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() {
        if (executable != nullptr) cudaGraphExecDestroy(executable);
    }
};

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

std::string describe(const std::string& key, const std::vector<Tensor>& inputs) {
    std::string text = key;
    for (const Tensor& input : inputs) text += " " + to_string(input.shape()) + name_of(input.dtype());
    return text;
}

void copy_tensor(const ExecContext& context, const Tensor& from, const Tensor& to) {
    if (!from.is_dense()) return copy(context, CopyArgs{from, to});
    CudaDevice& device = device_of(context);
    check(cudaMemcpyAsync(to.raw(), from.raw(), static_cast<size_t>(to.numel()) * size_of(to.dtype()),
                          cudaMemcpyDeviceToDevice, device.stream()),
          "copying");
}

}  // namespace

// Fills the graph, or marks it as one that cannot be captured.
void CudaDevice::capture(void* where, const std::vector<Tensor>& inputs, const StageBody& body) {
    Graph& graph = *static_cast<Graph*>(where);
    const ExecContext context{*this, 1, Precision::f32};
    std::vector<Tensor> outputs;
    cudaGraph_t captured = nullptr;
    capturing_ = true;
    bool begun = false;
    try {
        std::vector<Tensor> own;
        for (const Tensor& input : inputs) own.push_back(new_tensor(context, input.shape(), input.dtype()));
        // Relaxed, because the pool may have to grow meanwhile.
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "beginning to capture");
        begun = true;
        for (const Tensor& output : body(own)) {
            Tensor dense = output;
            if (!output.is_dense()) {
                dense = new_tensor(context, output.shape(), output.dtype());
                copy(context, CopyArgs{output, dense});
            }
            outputs.push_back(dense);
        }
        check(cudaStreamEndCapture(stream_, &captured), "capturing");
        begun = false;
        check(cudaGraphInstantiate(&graph.executable, captured, 0), "making a graph");
        for (const Tensor& input : own) graph.inputs.push_back(unowned(input));
        for (const Tensor& output : outputs) graph.outputs.push_back(unowned(output));
    } catch (const Error&) {
        graph.refused = true;
        if (begun) cudaStreamEndCapture(stream_, &captured);
        cudaGetLastError();
    }
    if (captured != nullptr) cudaGraphDestroy(captured);
    outputs.clear();
    capturing_ = false;
}

std::vector<Tensor> CudaDevice::run_stage(std::unique_ptr<StageCache>& cache, const std::string& key,
                                          const std::vector<Tensor>& inputs, const StageBody& body) {
    const auto held = lock();
    if (capturing_) return body(inputs);
    if (!cache) cache = std::make_unique<Graphs>();
    Graph& graph = static_cast<Graphs&>(*cache).at(describe(key, inputs));
    if (graph.runs++ == 0 || graph.refused) return body(inputs);
    if (graph.executable == nullptr) capture(&graph, inputs, body);
    if (graph.refused) return body(inputs);

    const ExecContext context{*this, 1, Precision::f32};
    for (size_t i = 0; i < inputs.size(); ++i) copy_tensor(context, inputs[i], graph.inputs[i]);
    check(cudaGraphLaunch(graph.executable, stream_), key.c_str());
    std::vector<Tensor> results;
    for (const Tensor& output : graph.outputs) {
        results.push_back(new_tensor(context, output.shape(), output.dtype()));
        copy_tensor(context, output, results.back());
    }
    return results;
}

}  // namespace sam3::cuda
