// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/weights.h"

#include <fmt/ranges.h>

#include <optional>
#include <utility>
#include <vector>

#include "backend/error.h"
#include "data/files/element_type.h"
#include "data/files/file_format.h"
#include "data/files/hdf5_reader.h"
#include "data/files/hdf5_writer.h"
#include "model/packed_parameters.h"
#include "trainer/files/config_json.h"
#include "trainer/files/model_arrays.h"
#include "trainer/files/model_files.h"
#include "trainer/files/parameter_digest.h"
#include "trainer/files/safetensors_model.h"
#include "trainer/text.h"

namespace ventris {
namespace {

constexpr const char* kAveragedAttribute = "averaged_checkpoints";
constexpr const char* kProbeDataset = "/probe";

std::string dataset_of(const std::string& group, const LogicalParameter& parameter) {
  return group + "/" + parameter.name;
}

[[noreturn]] void refuse_weights(const data::Hdf5Reader& reader, const std::string& name,
                                 const std::string& what) {
  fail(ExitCode::kBadData, "{}: parameter {} {}", reader.path(), name, what);
}

/// Every dataset of the group belongs to a parameter, and, with `int8_of`, to one that files of that
/// precision have in int8.
void check_names(const data::Hdf5Reader& reader, const std::string& group, const ParameterStore& store,
                 std::optional<FilePrecision> int8_of = std::nullopt) {
  for (const std::string& path : reader.datasets(group)) {
    const std::string name = path.substr(group.size() + 1);
    const LogicalParameter* parameter = store.find(name);
    if (parameter == nullptr) refuse_weights(reader, name, "is unknown: this model has no such parameter");
    if (int8_of && precision_of(*parameter, *int8_of) != FilePrecision::kInt8) {
      refuse_weights(reader, name, "has scales, but is not in int8");
    }
  }
}

/// Names and precision of a group of parameters.
FilePrecision checked_group(const data::Hdf5Reader& reader, const std::string& group,
                            const ParameterStore& store) {
  if (!reader.exists(group)) {
    fail(ExitCode::kBadData, "{}: holds no parameters (no group {}); expected a checkpoint or a weights file",
         reader.path(), group);
  }
  check_names(reader, group, store);
  const FilePrecision precision = group == kModelGroup ? read_precision(reader) : FilePrecision::kF32;
  if (precision != FilePrecision::kF32 && reader.exists(kScalesGroup)) {
    check_names(reader, kScalesGroup, store, precision);
  }
  return precision;
}

data::ElementType element_type_of(FilePrecision precision) {
  switch (precision) {
    case FilePrecision::kF32:
      return data::ElementType::kF32;
    case FilePrecision::kBF16:
      return data::ElementType::kBF16;
    case FilePrecision::kInt8:
      return data::ElementType::kI8;
  }
  return data::ElementType::kF32;
}

/// The dataset of a parameter is there, of its type and shape, and so are its scales.
void require_hdf5_parameter(const data::Hdf5Reader& reader, const std::string& group,
                            const LogicalParameter& parameter, FilePrecision file) {
  const std::string dataset = dataset_of(group, parameter);
  if (!reader.exists(dataset)) refuse_weights(reader, parameter.name, "is missing");
  const FilePrecision precision = precision_of(parameter, file);
  const data::ElementType type = element_type_of(precision);
  const std::vector<int64_t> shape = shape_in_files(parameter);
  const std::string expected = fmt::format("an array of {} [{}]", name_of(type), fmt::join(shape, ", "));
  require_shape(reader.path(), parameter, reader.dimensions(dataset, expected));
  reader.require(dataset, type, shape);
  if (precision != FilePrecision::kInt8) return;
  const std::string scales = dataset_of(kScalesGroup, parameter);
  if (!reader.exists(scales))
    refuse_weights(reader, parameter.name, "is in int8, but its scales are missing");
  reader.require(scales, data::ElementType::kF32, shape_of_scales(parameter));
}

std::vector<float> read_hdf5_scales(const data::Hdf5Reader& reader, const LogicalParameter& parameter) {
  const std::vector<int64_t> shape = shape_of_scales(parameter);
  std::vector<float> scales(static_cast<size_t>(shape[0] * shape[1]));
  reader.read(dataset_of(kScalesGroup, parameter), data::ElementType::kF32, shape, scales.data());
  return scales;
}

/// `values` have the size of the parameter.
void read_hdf5_parameter(const data::Hdf5Reader& reader, const std::string& group,
                         const LogicalParameter& parameter, FilePrecision file, std::vector<float>& values) {
  require_hdf5_parameter(reader, group, parameter, file);
  const std::string dataset = dataset_of(group, parameter);
  const std::vector<int64_t> shape = shape_in_files(parameter);
  const FilePrecision precision = precision_of(parameter, file);
  if (precision == FilePrecision::kF32) {
    reader.read(dataset, data::ElementType::kF32, shape, values.data());
    return;
  }
  const bool int8 = precision == FilePrecision::kInt8;
  uint8_t* elements = end_of(values, precision);
  reader.read(dataset, element_type_of(precision), shape, elements);
  widen(parameter, precision, elements, int8 ? read_hdf5_scales(reader, parameter) : std::vector<float>(),
        reader.path(), values);
}

}  // namespace

void write_parameters(data::Hdf5Writer& writer, const std::string& group, const ModelArrays& parameters,
                      FilePrecision precision) {
  for (const LogicalParameter& parameter : parameters.logical()) {
    const Array array = parameters.get(parameter.name);
    const std::string dataset = dataset_of(group, parameter);
    switch (precision_of(parameter, precision)) {
      case FilePrecision::kF32:
        writer.write(dataset, data::ElementType::kF32, array.shape(), array.values.data());
        break;
      case FilePrecision::kBF16:
        writer.write(dataset, data::ElementType::kBF16, array.shape(), bf16_values(array.values).data());
        break;
      case FilePrecision::kInt8: {
        const Int8Matrix matrix = int8_matrix(array, outputs_of(parameter));
        writer.write(dataset, data::ElementType::kI8, array.shape(), matrix.values.data());
        writer.write(dataset_of(kScalesGroup, parameter), data::ElementType::kF32, shape_of_scales(parameter),
                     matrix.scales.data());
        break;
      }
    }
  }
}

void write_model(data::Hdf5Writer& writer, const TransformerConfig& config, const ModelArrays& parameters,
                 const data::TokenizerModels& tokenizers, FilePrecision precision) {
  write_parameters(writer, kModelGroup, parameters, precision);
  const auto write_tokenizer = [&](const char* dataset, const std::string& model) {
    writer.write(dataset, data::ElementType::kU8, std::vector<int64_t>{std::ssize(model)}, model.data());
  };
  write_tokenizer(kTokenizerDataset, tokenizers.target);
  if (!tokenizers.source.empty()) write_tokenizer(kSourceTokenizerDataset, tokenizers.source);
  writer.write_attribute("/", "config", to_json(config));
  writer.write_attribute("/", kDigestAttribute, parameter_digest(parameters.store(), parameters.values()));
}

void read_parameters(Context& context, const data::Hdf5Reader& reader, const std::string& group,
                     const ParameterStore& store, Tensor flat, OnFailure on_failure) {
  const FilePrecision precision = checked_group(reader, group, store);
  // Only of /model, and not in files of older versions.
  const bool has_digest = group == kModelGroup && reader.has_attribute("/", kDigestAttribute);
  fill_parameters(
      context, store, flat, reader.path(), ChannelOrder::kPairs,
      [&](const LogicalParameter& parameter, std::vector<float>& values) {
        read_hdf5_parameter(reader, group, parameter, precision, values);
      },
      on_failure,
      [&](ConstTensor values) {
        if (!has_digest) return;
        require_parameter_digest(store, values, reader.string_attribute("/", kDigestAttribute),
                                 reader.path());
      });
}

void read_model(Context& context, const data::Hdf5Reader& reader, ParameterStore& store) {
  read_parameters(context, reader, kModelGroup, store, store.values());
}

void save_weights(Context& context, const std::string& path, const TransformerConfig& config,
                  const ParameterStore& store, const data::TokenizerModels& tokenizers,
                  const std::string& provenance, const std::string& probes, int64_t averaged_checkpoints,
                  FilePrecision precision) {
  data::Hdf5Writer writer(path);
  write_model(writer, config, ModelArrays(context, store, ChannelOrder::kPairs), tokenizers, precision);
  if (!probes.empty()) {
    const std::vector<int64_t> bytes = {static_cast<int64_t>(probes.size())};
    writer.write(kProbeDataset, data::ElementType::kU8, bytes, probes.data());
  }
  const bool rounded = precision != FilePrecision::kF32;
  writer.write_attribute("/", "format", std::string(rounded ? kRoundedWeightsFormat : kWeightsFormat));
  if (rounded) writer.write_attribute("/", kPrecisionAttribute, std::string(name_of(precision)));
  writer.write_attribute("/", "provenance", provenance);
  if (averaged_checkpoints > 1) writer.write_attribute("/", kAveragedAttribute, averaged_checkpoints);
  writer.commit();
}

namespace {

/// The group that load_model() reads.
const char* group_to_load(const data::Hdf5Reader& reader) {
  return reader.exists(kAverageGroup) ? kAverageGroup : kModelGroup;
}

/// begin_loading() without the memory of the store.
void declare_model(LoadedModel& model, const TransformerConfig& config,
                   const data::TokenizerModels& tokenizers, uint64_t file_bytes, FilePrecision precision) {
  model.config = config;
  model.tokenizers = std::make_unique<data::TokenizerPair>(tokenizers, model.path);
  const auto check_size = [&](const char* side, const data::Tokenizer& tokenizer, int64_t tokens) {
    if (tokenizer.vocab_size() == tokens) return;
    fail(ExitCode::kBadData, "{}: its tokenizer{} has {} tokens, but its model has {}", model.path, side,
         tokenizer.vocab_size(), tokens);
  };
  const bool shared = model.tokenizers->shared();
  if (shared != (config.source_vocab_size == 0)) {
    fail(ExitCode::kBadData, "{}: it has {}, but its model has {}", model.path,
         shared ? "one tokenizer" : "two tokenizers", shared ? "two vocabularies" : "one vocabulary");
  }
  check_size(shared ? "" : " of targets", model.tokenizers->target(), config.vocab_size);
  check_size(" of sources", model.tokenizers->source(), config.source_vocab());
  model.ids = declare_transformer(config, model.store);
  // Before memory is allocated by the configuration.
  uint64_t needed = 0;
  for (const LogicalParameter& parameter : model.store.logical()) {
    needed += static_cast<uint64_t>(bytes_in_file(parameter, precision));
  }
  if (needed > file_bytes) {
    fail(ExitCode::kBadData,
         "{}: its configuration describes {} parameters, which take {} bytes, "
         "but the file has only {}: parameters are missing",
         model.path, model.store.parameter_count(), needed, file_bytes);
  }
  constexpr uint64_t kBytesOfPositions = uint64_t{256} << 20;
  const auto positions = static_cast<uint64_t>(config.max_positions) * static_cast<uint64_t>(config.d_model);
  if (positions * sizeof(float) > file_bytes + kBytesOfPositions) {
    fail(ExitCode::kBadData, "{}: {} positions of {} numbers are more than a model of its size can have",
         model.path, config.max_positions, config.d_model);
  }
}

}  // namespace

void begin_loading(LoadedModel& model, Context& context, const TransformerConfig& config,
                   const data::TokenizerModels& tokenizers, DType dtype, uint64_t file_bytes,
                   FilePrecision precision) {
  declare_model(model, config, tokenizers, file_bytes, precision);
  model.store.allocate(context.device(), dtype, /*gradients=*/false);
}

void check_model(const data::Hdf5Reader& reader) {
  LoadedModel model;
  model.path = reader.path();
  declare_model(model, read_config(reader), read_tokenizer_models(reader),
                static_cast<uint64_t>(reader.file_bytes()), read_precision(reader));
  const std::string group = group_to_load(reader);
  const FilePrecision precision = checked_group(reader, group, model.store);
  for (const LogicalParameter& parameter : model.store.logical())
    require_hdf5_parameter(reader, group, parameter, precision);
  if (reader.exists(kProbeDataset)) reader.read_bytes(kProbeDataset);
}

namespace {

std::unique_ptr<LoadedModel> load_file(Context& context, const std::string& path, DType dtype, ModelUse use) {
  auto model = std::make_unique<LoadedModel>();
  model->path = path;
  if (is_safetensors(model->path)) {
    load_safetensors(context, *model, dtype);
  } else {
    const data::Hdf5Reader reader(model->path);
    const TransformerConfig config = read_config(reader);  // first: detects a file of another kind
    begin_loading(*model, context, config, read_tokenizer_models(reader), dtype,
                  static_cast<uint64_t>(reader.file_bytes()), read_precision(reader));
    read_parameters(context, reader, group_to_load(reader), model->store, model->store.values(),
                    OnFailure::kLoseValues);
    if (reader.has_attribute("/", kAveragedAttribute))
      model->averaged_checkpoints = reader.int_attribute("/", kAveragedAttribute);
    if (reader.exists(kProbeDataset)) {
      const std::vector<uint8_t> probes = reader.read_bytes(kProbeDataset);
      model->probes.assign(probes.begin(), probes.end());
    }
  }
  if (use != ModelUse::kAny && can_pack(context, model->store)) {
    pack_parameters(context, model->ids, model->store,
                    use == ModelUse::kTranslationInInt8 ? Packing::kInt8 : packing_of(dtype));
  } else {
    VENTRIS_CHECK(use != ModelUse::kTranslationInInt8, "{}: int8 on {}", model->path,
                  name_of(context.device()));
    model->store.refresh_compute_copy(context);
  }
  return model;
}

/// `what` is wrong with the checkpoint that was chosen from a run folder: names the newest that can be
/// loaded.
[[noreturn]] void refuse_checkpoint(Context& context, const std::string& folder, DType dtype,
                                    const std::string& what) {
  const std::string sound = newest_checkpoint(
      folder, [&](const std::string& path) { load_file(context, path, dtype, ModelUse::kAny); });
  fail(ExitCode::kBadData, "{}. {}", without_full_stop(what),
       sound.empty()
           ? "No checkpoint of that folder is sound"
           : fmt::format("Of the same folder {} is sound: give that file in place of the folder", sound));
}

}  // namespace

std::unique_ptr<LoadedModel> load_model(Context& context, const std::string& file_or_dir, DType dtype,
                                        ModelUse use) {
  const std::string path = resolve_model_file(file_or_dir);
  if (path == file_or_dir) return load_file(context, path, dtype, use);
  try {
    return load_file(context, path, dtype, use);
  } catch (const data::NewerFormat&) {
    throw;  // no damage
  } catch (const data::DataError& error) {
    if (error.kind() != data::ErrorKind::kBadData) throw;
    refuse_checkpoint(context, file_or_dir, dtype, error.what());
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadData) throw;
    refuse_checkpoint(context, file_or_dir, dtype, error.what());
  }
}

}  // namespace ventris
