#include "weights/gguf_writer.h"

#include "util/error.h"
#include "weights/codecs.h"
#include "weights/gguf.h"
#include "weights/quote_name.h"
#include "weights/weight_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <type_traits>

namespace sam3 {

namespace {

constexpr uint64_t kAlignment = kGgufDefaultAlignment;

uint64_t aligned(uint64_t position) { return (position + kAlignment - 1) / kAlignment * kAlignment; }

// The header is small: it is put together in memory and written at once.
class HeaderBytes {
public:
    template <typename T>
    void number(T value) {
        const auto* start = reinterpret_cast<const uint8_t*>(&value);
        bytes_.insert(bytes_.end(), start, start + sizeof value);
    }
    void text(const std::string& value) {
        number<uint64_t>(value.size());
        bytes_.insert(bytes_.end(), value.begin(), value.end());
    }
    void array(const MetadataArray& array) {
        number(static_cast<uint32_t>(array.items.index()));
        number<uint64_t>(array.size());
        std::visit(
            [this](const auto& list) {
                for (const auto& item : list) element(item);
            },
            array.items);
    }
    void value(const MetadataValue& value) {
        number(static_cast<uint32_t>(value.index()));
        std::visit([this](const auto& item) { element(item); }, value);
    }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
    void element(const std::string& item) { text(item); }
    void element(const MetadataArray& item) { array(item); }
    void element(bool item) { number<uint8_t>(item ? 1 : 0); }
    template <typename T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) void element(T item) { number(item); }

    std::vector<uint8_t> bytes_;
};

}  // namespace

GgufWriter::GgufWriter(std::string path) : path_(std::move(path)) {
    if (std::filesystem::is_directory(path_)) fail("cannot write ", path_, ": a folder has this name");
    for (int attempt = 0; attempt < 100 && file_ < 0; ++attempt) {
        temporary_ = str(path_, ".partial-", ::getpid(), "-", attempt);
        file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file_ < 0 && errno != EEXIST) break;
    }
    if (file_ < 0) fail("cannot write ", path_, ": ", std::strerror(errno));
}

GgufWriter::~GgufWriter() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(temporary_.c_str());
}

void GgufWriter::set(std::string key, MetadataValue value) {
    if (begun_) fail("metadata must be set before the first tensor is written");
    if (key == "general.alignment") fail("the writer chooses general.alignment itself");
    if (metadata_.has(key)) fail("the metadata key ", quote_name(key), " is set twice");
    metadata_.add(std::move(key), std::move(value));
}

void GgufWriter::declare(std::string name, WeightType type, const Shape& shape) {
    if (begun_) fail("tensors must be declared before the first one is written");
    gguf_type_number(type);  // fails when GGUF has none
    const std::optional<uint64_t> bytes = checked_bytes(type, shape);
    if (!bytes)
        fail("the tensor ", quote_name(name), " ", to_string(shape), " cannot be stored as ", name_of(type),
             ": its rows are not a whole number of blocks, or its shape is impossible");
    if (name.size() > kMaxTensorName)
        fail("the tensor name ", quote_name(name), " is longer than ", kMaxTensorName, " bytes");
    if (!names_.insert(name).second) fail("the tensor ", quote_name(name), " is declared twice");
    tensors_.push_back({std::move(name), type, shape, *bytes, data_bytes_});
    data_bytes_ += aligned(*bytes);
}

void GgufWriter::put(const void* data, size_t bytes) {
    const auto* position = static_cast<const uint8_t*>(data);
    written_ += bytes;
    while (bytes > 0) {
        const ssize_t count = ::write(file_, position, bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail("cannot write ", path_, ": ", std::strerror(count == 0 ? ENOSPC : errno));
        position += count;
        bytes -= static_cast<size_t>(count);
    }
}

void GgufWriter::pad() {
    static constexpr std::array<uint8_t, kAlignment> kZeros{};
    put(kZeros.data(), static_cast<size_t>(aligned(written_) - written_));
}

void GgufWriter::begin() {
    begun_ = true;
    HeaderBytes header;
    for (char c : {'G', 'G', 'U', 'F'}) header.number(c);
    header.number<uint32_t>(3);
    header.number<uint64_t>(tensors_.size());
    header.number<uint64_t>(metadata_.entries().size());
    for (const auto& [key, value] : metadata_.entries()) {
        header.text(key);
        header.value(value);
        if (const auto* text = std::get_if<std::string>(&value))
            texts_[key] = {header.bytes().size() - text->size(), text->size()};
    }
    for (const Declared& tensor : tensors_) {
        header.text(tensor.name);
        header.number(static_cast<uint32_t>(tensor.shape.rank()));
        for (int i = tensor.shape.rank() - 1; i >= 0; --i) header.number<int64_t>(tensor.shape[i]);
        header.number(gguf_type_number(tensor.type));
        header.number(tensor.offset);
    }
    put(header.bytes().data(), header.bytes().size());
    pad();
}

const GgufWriter::Declared& GgufWriter::next() {
    if (file_ < 0) fail("the file ", path_, " is finished already");
    if (!begun_) begin();
    if (done_ == tensors_.size()) fail("all ", tensors_.size(), " declared tensors of ", path_, " are written already");
    return tensors_[done_];
}

void GgufWriter::write_bytes(const uint8_t* data, size_t bytes) {
    const Declared& tensor = next();
    if (bytes != tensor.bytes)
        fail("the tensor ", quote_name(tensor.name), " was declared with ", tensor.bytes, " bytes, found ", bytes);
    put(data, bytes);
    pad();
    ++done_;
}

void GgufWriter::write_f32(const float* values, size_t count) {
    const Declared& tensor = next();
    if (static_cast<int64_t>(count) != tensor.shape.numel())
        fail("the tensor ", quote_name(tensor.name), " was declared as ", to_string(tensor.shape), ", found ", count,
             " values");
    constexpr size_t kPiece = size_t{1} << 16;  // values of a thread's turn; a whole number of any blocks
    constexpr size_t kChunk = 64 * kPiece;      // values between two writes
    std::vector<uint8_t> encoded;
    for (size_t start = 0; start < count; start += kChunk) {
        const auto length = static_cast<int64_t>(std::min(kChunk, count - start));
        encoded.resize(static_cast<size_t>(length / block_size(tensor.type) * block_bytes(tensor.type)));
        std::string problem;
#pragma omp parallel for schedule(dynamic)
        for (int64_t at = 0; at < length; at += static_cast<int64_t>(kPiece)) {
            const int64_t piece = std::min(length - at, static_cast<int64_t>(kPiece));
            uint8_t* place = encoded.data() + at / block_size(tensor.type) * block_bytes(tensor.type);
            try {
                encode_from_f32(tensor.type, values + start + at, piece, place);
            } catch (const Error& error) {
#pragma omp critical
                problem = error.what();
            }
        }
        if (!problem.empty()) fail("the tensor ", quote_name(tensor.name), ": ", problem);
        put(encoded.data(), encoded.size());
    }
    pad();
    ++done_;
}

void GgufWriter::replace_text(const std::string& key, const std::string& text) {
    if (!begun_) begin();
    const auto found = texts_.find(key);
    if (found == texts_.end() || found->second.second != text.size())
        fail("the metadata key ", quote_name(key), " was not set to a text of ", text.size(), " bytes");
    const ssize_t count = ::pwrite(file_, text.data(), text.size(), static_cast<off_t>(found->second.first));
    if (count != static_cast<ssize_t>(text.size())) fail("cannot write ", path_, ": ", std::strerror(errno));
}

void GgufWriter::finish() {
    if (file_ < 0) fail("the file ", path_, " is finished already");
    if (!begun_) begin();
    if (done_ != tensors_.size())
        fail("only ", done_, " of the ", tensors_.size(), " declared tensors of ", path_, " were written");
    if (::fsync(file_) != 0) fail("cannot write ", path_, ": ", std::strerror(errno));
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
        fail("cannot give the finished file its name ", path_, ": ", std::strerror(errno));
    ::close(file_);
    file_ = -1;

    // The new name is on disk once its folder is.
    const std::string folder = std::filesystem::absolute(path_).parent_path().string();
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
}

}  // namespace sam3
