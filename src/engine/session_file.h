#pragma once

#include "engine/model.h"
#include "runtime/ops.h"
#include "weights/weight_file.h"

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <string>

// A video session's state as a GGUF file: tensors by name, and one JSON document with a section for each part of the
// session. The file names the kind of session and the model it belongs to.
namespace sam3 {

class SessionWriter {
public:
    // kind: what is saved, "click video" for instance; the reader asks for the same.
    SessionWriter(const Model& model, std::string kind);

    void put(const std::string& name, const Tensor& host);              // dense f32 or bf16
    void put(const std::string& section, const nlohmann::json& state);  // once for each section
    void save(const std::string& path) const;                           // complete or not at all

private:
    nlohmann::json root_;
    std::map<std::string, Tensor> tensors_;
};

class SessionReader {
public:
    // Fails with a sentence when the file is not a session of this kind and model.
    SessionReader(const std::string& path, const Model& model, const std::string& kind);

    const std::string& path() const { return file_->path(); }
    const nlohmann::json& state(const std::string& section) const;
    Tensor tensor(const std::string& name) const;  // host

private:
    std::shared_ptr<const WeightFile> file_;
    nlohmann::json root_;
};

}  // namespace sam3
