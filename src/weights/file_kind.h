#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sam3 {

enum class FileKind { safetensors, gguf, torch, ggml, other };

// Decides by content, never by name.
FileKind identify_weights(const uint8_t* data, size_t size);

// For FileKind::other: a sentence that says what the file is, as far as its first bytes tell, and what to try.
std::string describe_foreign_file(const uint8_t* data, size_t size, const std::string& path);

}  // namespace sam3
