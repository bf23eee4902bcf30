// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string_view>
#include <vector>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "data/io/safetensors.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/parameter_digest.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/options/model_config.h"

namespace ventris {
namespace {

constexpr const char* kSafetensorsFormat = "ventris safetensors 1";
constexpr const char* kRoundedFormat = "ventris safetensors 2";  // of less than f32
constexpr const char* kTokenizer = "tokenizer";
constexpr const char* kSourceTokenizer = "source_tokenizer";

std::string_view safetensors_type(data::ElementType type) {
  return type == data::ElementType::kI8 ? "I8" : type == data::ElementType::kBF16 ? "BF16" : "F32";
}

/// The arrays that hold the model; `file` must outlive them.
ArraysInFile arrays_in_safetensors(const data::SafetensorsFile& file) {
  ArraysInFile arrays{.origin = file.origin(), .names = {}, .form = {}, .read = {}};
  for (const data::SafeTensor& tensor : file.tensors()) {
    if (tensor.name != kTokenizer && tensor.name != kSourceTokenizer) arrays.names.insert(tensor.name);
  }
  arrays.form = [&file](const std::string& name, const std::string&) {
    const data::SafeTensor& tensor = *file.find(name);
    std::string type(tensor.type);
    std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
    return fmt::format("{} [{}]", type, fmt::join(tensor.shape, ", "));
  };
  arrays.read = [&file](const StoredArray& array, void* to) {
    const std::span<const uint8_t> bytes = file.data(*file.find(array.name));
    std::memcpy(to, bytes.data(), bytes.size());
  };
  return arrays;
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
    const data::SafeTensor* tensor = file.find(name);
    if (tensor == nullptr) return std::string();
    if (tensor->type != "U8")
      fail(ExitCode::kBadData, "{}: {} is of type {}; expected is U8", model.path, name, tensor->type);
    const std::span<const uint8_t> bytes = file.data(*tensor);
    return std::string(bytes.begin(), bytes.end());
  };
  const data::TokenizerModels tokenizers{.target = tokenizer_of(kTokenizer),
                                         .source = tokenizer_of(kSourceTokenizer)};
  if (tokenizers.target.empty()) fail(ExitCode::kBadData, "{}: the tokenizer is missing", model.path);
  begin_loading(model, context, transformer_config_from_json(metadata("config"), model.path), tokenizers,
                dtype, bytes.size(), precision);
  read_arrays(context, arrays_in_safetensors(file), model.store, model.store.values(), precision,
              metadata(kDigestAttribute));
  model.probes = metadata("probes");
}

void save_safetensors(Context& context, const std::string& path, const LoadedModel& model,
                      const std::string& provenance, const std::string& probes, FilePrecision precision) {
  const ModelArrays arrays(context, model.store, ChannelOrder::kPairs);
  std::vector<data::SafeTensor> tensors;
  for (const LogicalParameter& parameter : arrays.logical()) {
    for (const StoredArray& array : arrays_of(parameter, precision))
      tensors.push_back({.name = array.name, .type = safetensors_type(array.type), .shape = array.shape});
  }
  // By decreasing size of their elements, so that each begins at a multiple of it, as PyTorch requires.
  for (const std::string_view type : {"I8", "BF16", "F32"}) {
    std::stable_partition(tensors.begin(), tensors.end(),
                          [&](const data::SafeTensor& tensor) { return tensor.type == type; });
  }
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
  StoredValues values(arrays, precision);
  data::write_safetensors(path, metadata, tensors, [&](const data::SafeTensor& tensor) -> std::string_view {
    if (tensor.name == kTokenizer) return tokenizers.target;
    if (tensor.name == kSourceTokenizer) return tokenizers.source;
    return values.bytes(tensor.name);
  });
}

}  // namespace ventris
