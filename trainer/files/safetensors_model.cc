// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/safetensors_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "backend/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"
#include "data/files/safetensors.h"
#include "trainer/files/config_json.h"
#include "trainer/files/model_arrays.h"
#include "trainer/files/parameter_digest.h"

namespace ventris {
namespace {

constexpr const char* kSafetensorsFormat = "ventris safetensors 1";
constexpr const char* kRoundedFormat = "ventris safetensors 2";  // of less than f32
constexpr const char* kTokenizer = "tokenizer";
constexpr const char* kSourceTokenizer = "source_tokenizer";
constexpr std::string_view kScales = "scales/";  // before the name of a parameter

std::string_view type_of(FilePrecision precision) {
  return precision == FilePrecision::kInt8 ? "I8" : precision == FilePrecision::kBF16 ? "BF16" : "F32";
}

size_t width_of(std::string_view type) {
  return type == "I8" ? sizeof(int8_t) : type == "BF16" ? sizeof(BF16) : sizeof(float);
}

/// Finds a tensor of the type, or refuses the file.
const data::SafeTensor& require(const data::SafetensorsFile& file, const std::string& name,
                                std::string_view type) {
  const data::SafeTensor* tensor = file.find(name);
  if (tensor == nullptr) fail(ExitCode::kBadData, "{}: parameter {} is missing", file.origin(), name);
  if (tensor->type != type) {
    fail(ExitCode::kBadData, "{}: parameter {} is of type {}, but {} is expected", file.origin(), name,
         tensor->type, type);
  }
  return *tensor;
}

std::vector<float> read_safetensors_scales(const data::SafetensorsFile& file,
                                           const LogicalParameter& parameter) {
  const data::SafeTensor& tensor = require(file, std::string(kScales) + parameter.name, "F32");
  if (tensor.shape != shape_of_scales(parameter)) {
    fail(ExitCode::kBadData, "{}: {} has another shape than the scales of this model", file.origin(),
         tensor.name);
  }
  const std::span<const uint8_t> bytes = file.data(tensor);
  std::vector<float> scales(bytes.size() / sizeof(float));
  std::memcpy(scales.data(), bytes.data(), bytes.size());
  return scales;
}

/// `values` have the size of the parameter.
void read_safetensors_parameter(const data::SafetensorsFile& file, const LogicalParameter& parameter,
                                FilePrecision of_file, std::vector<float>& values) {
  const FilePrecision precision = precision_of(parameter, of_file);
  const data::SafeTensor& tensor = require(file, parameter.name, type_of(precision));
  require_shape(file.origin(), parameter, tensor.shape);
  const std::span<const uint8_t> from = file.data(tensor);
  if (precision == FilePrecision::kF32) {
    std::memcpy(values.data(), from.data(), from.size());
    return;
  }
  widen(parameter, precision, from.data(),
        precision == FilePrecision::kInt8 ? read_safetensors_scales(file, parameter) : std::vector<float>(),
        file.origin(), values);
}

/// Whether a model whose file has that precision has a tensor of the name.
bool is_known(std::string_view name, const ParameterStore& store, FilePrecision precision) {
  if (precision == FilePrecision::kInt8 && name.starts_with(kScales)) {
    const LogicalParameter* parameter = store.find(name.substr(kScales.size()));
    return parameter != nullptr && precision_of(*parameter, precision) == FilePrecision::kInt8;
  }
  return name == kTokenizer || name == kSourceTokenizer || store.find(name) != nullptr;
}

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
  const bool rounded = metadata("format") == kRoundedFormat;
  if (metadata("format") != kSafetensorsFormat && !rounded) {
    fail(ExitCode::kBadData, "{}: expected the safetensors file of 'ventris export', but its format is '{}'",
         model.path, metadata("format"));
  }
  for (const auto& [key, value] : file.metadata()) {
    // A damaged name of the digest must not make the file one without a digest.
    constexpr std::array<std::string_view, 7> kKeys = {
        "digest", "format", "config", "provenance", kDigestAttribute, kPrecisionAttribute, "probes"};
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      fail(ExitCode::kBadData, "{}: its metadata have the unknown key '{}'", model.path, key);
    }
  }
  const FilePrecision precision =
      rounded ? precision_named(metadata(kPrecisionAttribute), model.path) : FilePrecision::kF32;
  const auto tokenizer_of = [&](const char* name) {
    const std::span<const uint8_t> model = file.data(require(file, name, "U8"));
    return std::string(model.begin(), model.end());
  };
  data::TokenizerModels tokenizers{.target = tokenizer_of(kTokenizer), .source = {}};
  if (file.find(kSourceTokenizer) != nullptr) tokenizers.source = tokenizer_of(kSourceTokenizer);
  begin_loading(model, context, transformer_config_from_json(metadata("config"), model.path), tokenizers,
                dtype, bytes.size(), precision);
  for (const data::SafeTensor& tensor : file.tensors()) {
    if (!is_known(tensor.name, model.store, precision)) {
      fail(ExitCode::kBadData, "{}: parameter {} is unknown: this model has no such parameter", model.path,
           tensor.name);
    }
  }
  fill_parameters(
      context, model.store, model.store.values(), model.path, ChannelOrder::kPairs,
      [&](const LogicalParameter& parameter, std::vector<float>& values) {
        read_safetensors_parameter(file, parameter, precision, values);
      },
      OnFailure::kLoseValues,
      [&](ConstTensor values) {
        const std::string* recorded = file.find_metadata(kDigestAttribute);
        if (recorded != nullptr) require_parameter_digest(model.store, values, *recorded, model.path);
      });
  model.probes = metadata("probes");
}

void save_safetensors(Context& context, const std::string& path, const LoadedModel& model,
                      const std::string& provenance, const std::string& probes, FilePrecision precision) {
  const ModelArrays arrays(context, model.store, ChannelOrder::kPairs);
  std::vector<data::SafeTensor> tensors;
  for (const LogicalParameter& parameter : arrays.logical()) {
    const FilePrecision held = precision_of(parameter, precision);
    data::SafeTensor tensor{
        .name = parameter.name, .type = type_of(held), .shape = {parameter.rows, parameter.cols}};
    if (parameter.vector) tensor.shape = {parameter.cols};
    tensors.push_back(tensor);
    if (held != FilePrecision::kInt8) continue;
    tensors.push_back(
        {.name = std::string(kScales) + parameter.name, .type = "F32", .shape = shape_of_scales(parameter)});
  }
  // By decreasing size of their elements, so that each begins at a multiple of it, as PyTorch requires.
  std::stable_sort(tensors.begin(), tensors.end(), [](const data::SafeTensor& a, const data::SafeTensor& b) {
    return width_of(a.type) > width_of(b.type);
  });
  const data::TokenizerModels tokenizers = model.tokenizers->models();
  tensors.push_back({.name = kTokenizer, .type = "U8", .shape = {std::ssize(tokenizers.target)}});
  if (!tokenizers.source.empty())
    tensors.push_back({.name = kSourceTokenizer, .type = "U8", .shape = {std::ssize(tokenizers.source)}});
  data::SafeMetadata metadata = {{"format", kSafetensorsFormat},
                                 {"config", to_json(model.config)},
                                 {"provenance", provenance},
                                 {kDigestAttribute, parameter_digest(arrays.store(), arrays.values())},
                                 {"probes", probes}};
  if (precision != FilePrecision::kF32) {
    metadata.front().second = kRoundedFormat;
    metadata.emplace_back(kPrecisionAttribute, name_of(precision));
  }
  Array array;
  std::vector<BF16> rounded;
  Int8Matrix matrix;
  const auto quantize = [&](const std::string& name) {
    matrix = int8_matrix(arrays.get(name), outputs_of(*arrays.store().find(name)));
  };
  data::write_safetensors(path, metadata, tensors, [&](const data::SafeTensor& tensor) -> std::string_view {
    if (tensor.name == kTokenizer) return tokenizers.target;
    if (tensor.name == kSourceTokenizer) return tokenizers.source;
    if (tensor.name.starts_with(kScales)) {
      quantize(tensor.name.substr(kScales.size()));
      return bytes_of(matrix.scales);
    }
    if (tensor.type == "I8") {
      quantize(tensor.name);
      return bytes_of(matrix.values);
    }
    array = arrays.get(tensor.name);
    if (tensor.type == "F32") return bytes_of(array.values);
    return bytes_of(rounded = bf16_values(array.values));
  });
}

}  // namespace ventris
