#include "runtime/cuda/early_resets.h"

#include "runtime/cuda/cuda_check.h"

#include <cstdint>
#include <vector>

namespace sam3::cuda {

#if CUDART_VERSION >= 13000

namespace {

template <typename Ask>
std::vector<cudaGraphNode_t> nodes_by(const Ask& ask) {
    size_t count = 0;
    check(ask(nullptr, &count), "reading a graph");
    std::vector<cudaGraphNode_t> nodes(count);
    if (count > 0) check(ask(nodes.data(), &count), "reading a graph");
    return nodes;
}

bool is_within(cudaGraphNode_t node, const void* memory, size_t bytes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "reading a graph");
    if (type != cudaGraphNodeTypeMemset) return false;
    cudaMemsetParams zeroed{};
    check(cudaGraphMemsetNodeGetParams(node, &zeroed), "reading a graph");
    const auto at = reinterpret_cast<uintptr_t>(zeroed.dst) - reinterpret_cast<uintptr_t>(memory);
    return zeroed.value == 0 && at < bytes;
}

void connect(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& from, const std::vector<cudaGraphNode_t>& to) {
    for (const cudaGraphNode_t& a : from)
        for (const cudaGraphNode_t& b : to)
            check(cudaGraphAddDependencies(graph, &a, &b, nullptr, 1), "changing a graph");
}

// What came before it now comes before what came behind it.
void take_out(cudaGraph_t graph, cudaGraphNode_t node) {
    std::vector<cudaGraphEdgeData> edges;
    const auto neighbours = [&](const auto& ask) {
        return nodes_by([&](cudaGraphNode_t* nodes, size_t* count) {
            edges.resize(*count);
            return ask(node, nodes, nodes == nullptr ? nullptr : edges.data(), count);
        });
    };
    const auto before = neighbours(cudaGraphNodeGetDependencies);
    const auto after = neighbours(cudaGraphNodeGetDependentNodes);
    check(cudaGraphDestroyNode(node), "changing a graph");
    connect(graph, before, after);
}

}  // namespace

void reset_early(cudaGraph_t graph, void* memory, size_t bytes) {
    constexpr size_t kMany = 8, kLeft = 3;
    std::vector<cudaGraphNode_t> resets;  // in the order in which they were captured
    for (const cudaGraphNode_t node :
         nodes_by([&](cudaGraphNode_t*nodes, size_t*count) { return cudaGraphGetNodes(graph, nodes, count); }))
        if (is_within(node, memory, bytes)) resets.push_back(node);
    // The GPU gets a chain of kernels as a whole, which takes the host some time if it is long: where something else
    // comes between two of them, it starts with what is before that.
    if (resets.size() >= kMany) resets.erase(resets.begin() + kLeft);
    for (const cudaGraphNode_t node : resets) take_out(graph, node);
    if (resets.empty()) return;
    const auto roots =
        nodes_by([&](cudaGraphNode_t* nodes, size_t* count) { return cudaGraphGetRootNodes(graph, nodes, count); });
    cudaMemsetParams zeroed{};
    zeroed.dst = memory;
    zeroed.elementSize = 4;
    zeroed.width = bytes / 4;
    zeroed.height = 1;
    cudaGraphNode_t first = nullptr;
    check(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &zeroed), "changing a graph");
    connect(graph, {first}, roots);
}

#else

void reset_early(cudaGraph_t /*graph*/, void* /*memory*/, size_t /*bytes*/) {}

#endif

}  // namespace sam3::cuda
