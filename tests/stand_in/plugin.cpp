// A plug-in that passes for CUDA's where there is no GPU: the CPU's operators, on memory that nobody else can touch,
// with a GPU's rounding between them in bf16. A test that runs on it crashes where code above src/runtime reads or
// writes a tensor of the device as if it were its own, and shows what storing halves does to the masks.
#include "runtime/cuda_plugin.h"
#include "runtime/device.h"
#include "util/error.h"
#include "widened.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace sam3::test {
namespace {

constexpr size_t kReserved = size_t{16} << 30;  // addresses, not memory
constexpr size_t kPage = 4096;

// Blocks of powers of two in one range of addresses, which is closed but for the time that a Key lives.
class Vault {
public:
    Vault() {
        void* const range = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) fail("the stand-in for a GPU got no addresses");
        begin_ = static_cast<char*>(range);
    }
    Vault(const Vault&) = delete;
    Vault& operator=(const Vault&) = delete;
    ~Vault() { munmap(begin_, kReserved); }

    void* allocate(size_t bytes) {
        const std::lock_guard lock(mutex_);
        const size_t size = block_size(bytes);
        void* const block = find(size);
        stats_.in_use += size;
        stats_.peak = std::max(stats_.peak, stats_.in_use);
        return block;
    }
    void release(void* block, size_t bytes) {
        const std::lock_guard lock(mutex_);
        stats_.in_use -= block_size(bytes);
        free_.emplace(block_size(bytes), block);
    }
    MemoryStats stats() const { return stats_; }
    void reset_peak() { stats_.peak = stats_.in_use; }

    class Key {
    public:
        explicit Key(Vault& vault) : vault_(vault), lock_(vault.mutex_) { vault_.protect(PROT_READ | PROT_WRITE); }
        Key(const Key&) = delete;
        Key& operator=(const Key&) = delete;
        ~Key() { vault_.protect(PROT_NONE); }

    private:
        Vault& vault_;
        std::lock_guard<std::mutex> lock_;
    };

private:
    static size_t block_size(size_t bytes) { return std::bit_ceil(std::max(bytes, kPage)); }
    void* find(size_t size) {
        auto free = free_.find(size);
        if (free == free_.end() && stats_.reserved + size <= kReserved) return grow(size);
        if (free == free_.end()) free = free_.upper_bound(size);  // a larger one, of which the rest stays free
        if (free == free_.end()) return grow(size);
        auto* const block = static_cast<char*>(free->second);
        size_t whole = free->first;
        free_.erase(free);
        for (; whole > size; whole /= 2) free_.emplace(whole / 2, block + whole / 2);
        return block;
    }
    void* grow(size_t size) {
        if (stats_.reserved + size > kReserved)
            fail("out of GPU memory: wanted ", size >> 20U, " MiB more, ", (kReserved - stats_.reserved) >> 20U,
                 " MiB are free: use a smaller batch or image, or --device cpu");
        void* const block = begin_ + stats_.reserved;
        stats_.reserved += size;
        return block;
    }
    void protect(int access) {
        if (stats_.reserved > 0) mprotect(begin_, stats_.reserved, access);
    }

    std::mutex mutex_;
    char* begin_;
    std::multimap<size_t, void*> free_;
    MemoryStats stats_;
};

struct VaultBuffer : Buffer {
    VaultBuffer(Device* owner, std::shared_ptr<Vault> from, size_t size) : vault(std::move(from)) {
        device = owner;
        data = vault->allocate(size);
        bytes = size;
    }
    ~VaultBuffer() override { vault->release(data, bytes); }

    std::shared_ptr<Vault> vault;
};

class StandIn final : public Device {
public:
    StandIn() {
#define SAM3_KERNEL(name, Args)                                                \
    kernels_.name = [](const ExecContext& context, const Args& args) {         \
        auto& self = static_cast<StandIn&>(context.device);                    \
        const Vault::Key key(*self.vault_);                                    \
        const ExecContext cpu{*self.cpu_, context.threads, context.precision}; \
        Args in_f32 = args;                                                    \
        Widened widened(cpu);                                                  \
        widened(in_f32);                                                       \
        self.cpu_->kernels().name(cpu, in_f32);                                \
    };
        SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL
    }

    std::string name() const override { return "stand-in for a GPU"; }
    bool is_host() const override { return false; }
    const KernelTable& kernels() const override { return kernels_; }
    bool has_precision(Precision precision) const override {
        return precision == Precision::f32 || precision == Precision::bf16;
    }
    Precision usual_precision() const override { return Precision::bf16; }
    DType storage_type(Precision precision) const override {
        return precision == Precision::f32 ? DType::f32 : DType::bf16;
    }
    DType sum_type(Precision precision) const override { return precision == Precision::f32 ? DType::f32 : DType::f16; }

    std::shared_ptr<Buffer> allocate(size_t bytes) override {
        return std::make_shared<VaultBuffer>(this, vault_, bytes);
    }
    MemoryStats memory() const override { return vault_->stats(); }
    void reset_peak() override { vault_->reset_peak(); }
    void trim() override {}

    void copy_from_host(void* destination, const void* source, size_t bytes) override {
        move(destination, source, bytes);
    }
    void copy_to_host(void* destination, const void* source, size_t bytes) override {
        move(destination, source, bytes);
    }
    void synchronize() override {}

    std::shared_ptr<const PackedLinear> pack_linear(const LinearSource& source, Precision precision) override {
        return with_results(cpu_->pack_linear(source, precision), precision);
    }
    std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource& source, Precision precision) override {
        return with_results(cpu_->pack_conv2d(source, precision), precision);
    }

private:
    template <typename Packed>
    std::shared_ptr<const Packed> with_results(std::shared_ptr<const Packed> packed, Precision precision) const {
        std::const_pointer_cast<Packed>(packed)->out_type = storage_type(precision);  // nobody else has it yet
        return packed;
    }
    void move(void* destination, const void* source, size_t bytes) {
        const Vault::Key key(*vault_);
        if (bytes > 0) std::memcpy(destination, source, bytes);
    }

    std::shared_ptr<Device> cpu_ = make_cpu_device();
    std::shared_ptr<Vault> vault_ = std::make_shared<Vault>();  // shared with the buffers, which may outlive the device
    KernelTable kernels_;
};

}  // namespace
}  // namespace sam3::test

extern "C" {

int sam3_cuda_devices(Sam3CudaDevice* out, int capacity, char* /*error*/, size_t /*error_size*/) {
    if (capacity < 1) return 1;
    *out = {};
    std::snprintf(out->name, sizeof out->name, "stand-in");
    return 1;
}

sam3::Device* sam3_cuda_make_device(const char* abi, int /*gpu*/, char* error, size_t error_size) {
    if (std::strcmp(abi, sam3::kCudaPluginAbi) == 0) return new sam3::test::StandIn;
    std::snprintf(error, error_size, "the program is of another build: %s", abi);
    return nullptr;
}
}
