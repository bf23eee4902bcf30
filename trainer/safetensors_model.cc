#include "trainer/safetensors_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "backend/error.h"
#include "data/atomic_file.h"
#include "data/file_io.h"
#include "data/safetensors.h"
#include "trainer/config_json.h"
#include "trainer/export_formats.h"
#include "trainer/model_arrays.h"
#include "trainer/parameter_digest.h"

namespace ventris {
namespace {

constexpr const char* kFormat = "ventris safetensors 1";
constexpr const char* kTokenizer = "tokenizer";

}  // namespace

bool is_safetensors(const std::string& path) {
  std::array<char, 9> begin{};
  const data::FileHandle file = data::open_to_read(path);
  const auto bytes = static_cast<ssize_t>(begin.size());
  // The header is JSON after its length; a header of 2^40 bytes and more is none. A pipe cannot be read
  // there.
  return file.valid() && ::pread(file.fd(), begin.data(), begin.size(), 0) == bytes && begin[8] == '{' &&
         begin[5] == 0 && begin[6] == 0 && begin[7] == 0;
}

void load_safetensors(Context& context, LoadedModel& model, DType dtype) {
  const std::vector<uint8_t> bytes = data::read_file(model.path, data::kAnyBytes);
  const data::SafetensorsFile file(bytes, model.path);
  const auto metadata = [&](const char* key) {
    const std::string* value = file.find_metadata(key);
    return value != nullptr ? *value : std::string();
  };
  if (metadata("format") != kFormat) {
    fail(ExitCode::kBadData, "{}: expected the safetensors file of 'ventris export', but its format is '{}'",
         model.path, metadata("format"));
  }
  for (const auto& [key, value] : file.metadata()) {
    // A digest whose name was damaged must not pass for a file that has none.
    constexpr std::array<std::string_view, 6> kKeys = {"digest",     "format",         "config",
                                                       "provenance", kDigestAttribute, "probes"};
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      fail(ExitCode::kBadData, "{}: its metadata have the unknown key '{}'", model.path, key);
    }
  }
  const auto require = [&](const std::string& name, std::string_view type) -> const data::SafeTensor& {
    const data::SafeTensor* tensor = file.find(name);
    if (tensor == nullptr) fail(ExitCode::kBadData, "{}: parameter {} is missing", model.path, name);
    if (tensor->type != type) {
      fail(ExitCode::kBadData, "{}: parameter {} is of type {}, but {} is expected", model.path, name,
           tensor->type, type);
    }
    return *tensor;
  };
  const std::span<const uint8_t> tokenizer = file.data(require(kTokenizer, "U8"));
  begin_loading(model, context, transformer_config_from_json(metadata("config"), model.path),
                std::string(tokenizer.begin(), tokenizer.end()), dtype, bytes.size());
  for (const data::SafeTensor& tensor : file.tensors()) {
    if (tensor.name != kTokenizer && model.store.find(tensor.name) == nullptr) {
      fail(ExitCode::kBadData, "{}: parameter {} is unknown: this model has no such parameter", model.path,
           tensor.name);
    }
  }
  fill_parameters(
      context, model.store, model.store.values(), model.path, ChannelOrder::kPairs,
      [&](const LogicalParameter& parameter, std::vector<float>& values) {
        const data::SafeTensor& tensor = require(parameter.name, "F32");
        require_shape(model.path, parameter, tensor.shape);
        const std::span<const uint8_t> from = file.data(tensor);
        std::memcpy(values.data(), from.data(), from.size());
      },
      OnFailure::kLoseValues,
      [&](ConstTensor values) {
        const std::string* recorded = file.find_metadata(kDigestAttribute);
        if (recorded != nullptr) require_parameter_digest(model.store, values, *recorded, model.path);
      });
  model.probes = metadata("probes");
}

void save_safetensors(Context& context, const std::string& path, const LoadedModel& model,
                      const std::string& provenance, const std::string& probes) {
  const ModelArrays arrays(context, model.store, ChannelOrder::kPairs);
  std::vector<data::SafeTensor> tensors;
  for (const LogicalParameter& parameter : arrays.logical()) {
    data::SafeTensor tensor{.name = parameter.name, .type = "F32", .shape = {parameter.rows, parameter.cols}};
    if (parameter.vector) tensor.shape = {parameter.cols};
    tensors.push_back(tensor);
  }
  const std::string& tokenizer = model.tokenizer->model();
  tensors.push_back({.name = kTokenizer, .type = "U8", .shape = {std::ssize(tokenizer)}});
  Array array;
  data::write_safetensors(path,
                          {{"format", kFormat},
                           {"config", to_json(model.config)},
                           {"provenance", provenance},
                           {kDigestAttribute, parameter_digest(arrays.store(), arrays.values())},
                           {"probes", probes}},
                          tensors, [&](const data::SafeTensor& tensor) -> std::string_view {
                            if (tensor.name == kTokenizer) return tokenizer;
                            array = arrays.get(tensor.name);
                            return bytes_of(array.values);
                          });
}

}  // namespace ventris
