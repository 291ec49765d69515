#pragma once

#include "runtime/ops.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace sam3::test {

// Collects what a session traces, in host memory; one name may come several times (one prompt after another).
class Traces {
public:
    void collect_from(Ops& ops) {
        ops.set_trace([this, &ops](const std::string& name, const Tensor& tensor) {
            parts_[name].push_back(ops.download(tensor));
        });
    }
    const std::map<std::string, std::vector<Tensor>>& all() const { return parts_; }

    // All tensors of a name, one after the other, as one flat tensor.
    Tensor joined(const std::string& name) const {
        const std::vector<Tensor>& parts = parts_.at(name);
        int64_t count = 0;
        for (const Tensor& part : parts) count += part.numel();
        Tensor whole = Tensor::host({count});
        float* out = whole.data<float>();
        for (const Tensor& part : parts) {
            std::memcpy(out, part.raw(), static_cast<size_t>(part.numel()) * sizeof(float));
            out += part.numel();
        }
        return whole;
    }

private:
    std::map<std::string, std::vector<Tensor>> parts_;
};

}  // namespace sam3::test
