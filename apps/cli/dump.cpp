#include "dump.h"

#include "formats/npy.h"
#include "util/folders.h"

#include <map>
#include <memory>

namespace sam3::cli {

void dump_tensors(Ops& ops, const std::string& folder) {
    make_folder(folder);
    auto seen = std::make_shared<std::map<std::string, int>>();
    ops.set_trace([folder, &ops, seen](const std::string& name, const Tensor& tensor) {
        const int times = (*seen)[name]++;
        const Tensor host = ops.download(tensor);
        const std::string file = times == 0 ? name : name + "." + std::to_string(times);
        write_npy(folder + "/" + file + ".npy", {host.data<float>(), static_cast<size_t>(host.numel())},
                  {host.shape().begin(), host.shape().end()});
    });
}

}  // namespace sam3::cli
