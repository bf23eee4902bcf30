// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ventris::fuzz {

/// Feeds bytes from outside to one parser. The parser may refuse them with an Error or a DataError; any other
/// end than a return is a fault.
struct Harness {
  const char* name;  // and the folder of its seeds in tests/fuzz/seeds
  void (*run)(std::string_view bytes);
};

/// Memory that a parser may have in use at one time: four times the input, and a constant for buffers and for
/// tables of the libraries, which do not grow with the input.
constexpr size_t kConstantBytes = size_t{8} << 20;
constexpr size_t memory_limit(size_t input_bytes) {
  return 4 * input_bytes + kConstantBytes;
}

/// Runs a harness under that limit.
void run(const Harness& harness, std::string_view bytes);

/// A file with these bytes while it lives, for parsers that take a path.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One of each parser, in *_harness.cc.
void run_corpus(std::string_view bytes);
void run_model(std::string_view bytes);
void run_tokenizer(std::string_view bytes);
void run_text(std::string_view bytes);
void run_config(std::string_view bytes);
void run_safetensors(std::string_view bytes);
void run_npz(std::string_view bytes);
void run_imports(std::string_view bytes);
void run_mix(std::string_view bytes);

}  // namespace ventris::fuzz
