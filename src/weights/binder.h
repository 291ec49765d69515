#pragma once

#include "runtime/layer_weights.h"
#include "runtime/tensor.h"
#include "weights/int8_codes.h"
#include "weights/name_map.h"
#include "weights/weight_file.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sam3 {

class WeightLoader;

// A matrix of which few rows are ever read, such as a table of word embeddings: it stays in its file, and rows are
// converted when they are asked for. Cheap to copy; any thread may read.
class WeightRows {
public:
    WeightRows() = default;
    int64_t count() const { return shape_[0]; }
    int64_t width() const { return shape_[1]; }
    void read(int64_t row, float* to) const;  // `width` values

private:
    friend class WeightLoader;
    WeightRows(WeightType type, const void* data, const Shape& shape, std::shared_ptr<const void> owner)
        : type_(type), data_(static_cast<const uint8_t*>(data)), shape_(shape), owner_(std::move(owner)) {}

    WeightType type_ = WeightType::f32;
    const uint8_t* data_ = nullptr;
    Shape shape_{0, 0};
    std::shared_ptr<const void> owner_;  // of the data
};

// A place in the tree of names: root / "layers" / 3 / "attention". Cheap to copy; the loader must outlive it.
class Scope {
public:
    Scope operator/(std::string_view name) const { return Scope(loader_, full_name(name)); }
    Scope operator/(int64_t index) const { return *this / std::to_string(index); }

    // The tensor as f32 in host memory: a view of the mapped file where it is f32 already, otherwise a converted copy.
    // When it is missing or has another shape this is noted for finish() and a tensor of zeros is returned.
    Tensor tensor(std::string_view name, const Shape& shape) const;
    Tensor optional(std::string_view name, const Shape& shape) const;  // undefined when absent
    WeightRows rows(std::string_view name, const Shape& shape) const;  // [count, width]; missing as for tensor()
    // The weights of a product, which a device packs: as tensor(), but int8 codes stay codes, with a scale for each
    // output channel.
    LayerWeights weights(std::string_view name, const Shape& shape,
                         OutputChannels channels = OutputChannels::first) const;
    bool has(std::string_view name) const;
    std::optional<Shape> shape_of(std::string_view name) const;  // empty when absent

    std::string full_name(std::string_view name) const;

private:
    friend class WeightLoader;
    Scope(WeightLoader* loader, std::string prefix) : loader_(loader), prefix_(std::move(prefix)) {}

    WeightLoader* loader_;
    std::string prefix_;
};

// What a loader hands out: the weights, or zeros of their shapes, for a look at what a network asks for.
enum class Reading { values, shapes };

// Binds the tensors of a file to a model by canonical name and expected shape, and collects what does not fit, so that
// the person gets one complete list. For one thread.
class WeightLoader {
public:
    // Fails when two tensors of the file claim the same canonical name. `names` must outlive the loader.
    explicit WeightLoader(std::shared_ptr<const WeightFile> file, const NameMap& names = identity_name_map(),
                          Reading reading = Reading::values);
    WeightLoader(const WeightLoader&) = delete;
    WeightLoader& operator=(const WeightLoader&) = delete;
    ~WeightLoader() { file_->release(); }

    Scope root() { return Scope(this, ""); }
    const WeightFile& file() const { return *file_; }

    // Canonical names in the order of the file: all, and those that were asked for.
    const std::vector<std::string>& names() const { return order_; }
    std::vector<std::string> used_names() const;
    // A canonical tensor as it lies in the file; empty when it is put together from several or turned.
    std::optional<WeightTensor> stored(const std::string& name);
    std::optional<Shape> shape_of(const std::string& name);  // canonical; empty when it cannot be read
    // What was asked for as the weights of a product; empty for other tensors.
    struct Product {
        Shape shape;
        OutputChannels channels;
    };
    std::optional<Product> product(const std::string& name);
    // The scales of int8 codes, as they lie in the file; empty for other types.
    std::optional<WeightTensor> stored_scales(const std::string& name);

    // What was asked for so far and is not in the file.
    struct Missing {
        std::string name;
        Shape shape;
    };
    const std::vector<Missing>& missing() const { return missing_; }

    // Throws one Error that lists what was missing or did not fit; `what` names what was being loaded.
    void finish(std::string_view what) const { report(what, nullptr); }
    // As above, and lists tensors that nobody asked for, except those that `may_be_left` describes (canonical names).
    void finish(std::string_view what, const std::vector<IgnoreRule>& may_be_left) const { report(what, &may_be_left); }

private:
    friend class Scope;

    // A run of values inside a tensor of the file.
    struct Part {
        const WeightTensor* tensor = nullptr;  // null: the file lacks this part
        Shape shape;
        int64_t first = 0;
    };
    struct Entry {
        std::vector<Part> parts;  // stacked by their first dimension
        std::optional<Layout> layout;
        bool used = false;
        Shape stored;                          // of the parts together
        Shape shape;                           // of the canonical tensor
        std::string problem;                   // why it cannot be put together; empty when it can
        const WeightTensor* scales = nullptr;  // of int8 codes
        std::optional<Product> product;        // that it was asked for
    };

    void add_part(const MappedName& mapped, const WeightTensor& tensor);
    static void complete(Entry& entry);
    void attach_scales();
    Entry* find(const std::string& name);
    Entry* find_fitting(const std::string& name, const Shape& shape, bool required);
    Tensor load(const std::string& name, const Shape& shape, bool required);
    WeightRows load_rows(const std::string& name, const Shape& shape);
    LayerWeights load_weights(const std::string& name, const Shape& shape, OutputChannels channels);
    void make_resident(const Entry& entry);
    static bool is_in_order(const Entry& entry);
    static const uint8_t* source_of(const Part& part);
    Tensor read(const Entry& entry) const;
    Tensor read_scales(const Entry& entry) const;
    Tensor zeros(const std::string& name, const Shape& shape) const;
    std::string describe_missing(const std::string& name, const Shape& shape) const;
    std::vector<std::string> left_over(const std::vector<IgnoreRule>& may_be_left) const;
    void report(std::string_view what, const std::vector<IgnoreRule>* may_be_left) const;

    std::shared_ptr<const WeightFile> file_;
    const NameMap& names_;
    Reading reading_;
    std::unordered_map<std::string, Entry> entries_;
    std::vector<std::string> order_;  // canonical names in the order of the file

    std::vector<Missing> missing_;
    std::vector<std::string> misshaped_, unreadable_;  // sentences
    std::unordered_set<std::string> reported_;
    size_t resident_bytes_ = 0;  // bound since pages were last released
};

}  // namespace sam3
