// SPDX-License-Identifier: Apache-2.0
#include "data/io/safetensors.h"

#include <stdexcept>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "data/error.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/harness.h"
#include "trainer/checkpoint/weights.h"

namespace ventris::fuzz {
namespace {

void read_safetensors(std::string_view bytes) {
  const data::SafetensorsFile file({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "input");
  size_t data_bytes = 0;
  size_t sum = 0;
  for (const data::SafeTensor& tensor : file.tensors()) {
    if (file.find(tensor.name) != &tensor) throw std::logic_error("a tensor is not found by its name");
    for (const uint8_t byte : file.data(tensor)) sum += byte;
    data_bytes += file.data(tensor).size();
  }
  if (data_bytes > bytes.size() || sum > 255 * data_bytes) throw std::logic_error("data outside of the file");
  for (const auto& [key, value] : file.metadata()) file.find_metadata(key + value);
}

/// As a model, which most files are not.
void load(std::string_view bytes) {
  static Context context(ContextOptions{.threads = 1});
  const InputFile file(bytes);
  try {
    load_model(context, file.path(), DType::kF32);
  } catch (const Error&) {
  } catch (const data::DataError&) {
  }
}

}  // namespace

void run_safetensors(std::string_view bytes) {
  try {
    read_safetensors(bytes);
  } catch (const data::DataError&) {
  }
  const std::string mended = with_right_safetensors_digest(bytes);
  load(mended);
  read_safetensors(mended);
}

}  // namespace ventris::fuzz
