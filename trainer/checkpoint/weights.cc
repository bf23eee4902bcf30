// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/weights.h"

#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "backend/device/error.h"
#include "data/io/element_type.h"
#include "data/io/file_format.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/parameter_digest.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/options/model_config.h"
#include "trainer/text.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAveragedAttribute = "averaged_checkpoints";
constexpr const char* kProbeDataset = "/probe";

std::string dataset_of(const std::string& group, const std::string& array) {
  if (!array.starts_with(kScales)) return group + "/" + array;
  return std::string(kScalesGroup) + "/" + array.substr(kScales.size());
}

ArraysInFile arrays_in_group(const data::Hdf5Reader& reader, const std::string& group) {
  if (!reader.exists(group)) {
    fail(ExitCode::kBadData, "{}: holds no parameters (no group {}); expected a checkpoint or a weights file",
         reader.path(), group);
  }
  ArraysInFile file{.origin = reader.path(), .names = {}, .form = {}, .read = {}};
  for (const std::string& path : reader.datasets(group)) file.names.insert(path.substr(group.size() + 1));
  if (group == kModelGroup && reader.exists(kScalesGroup)) {
    for (const std::string& path : reader.datasets(kScalesGroup))
      file.names.insert(std::string(kScales) + path.substr(std::strlen(kScalesGroup) + 1));
  }
  file.form = [&reader, group](const std::string& name, const std::string& expected) {
    const std::string dataset = dataset_of(group, name);
    const std::vector<int64_t> shape = reader.dimensions(dataset, "an array of " + expected);
    return fmt::format("{} [{}]", name_of(reader.type(dataset)), fmt::join(shape, ", "));
  };
  file.read = [&reader, group](const StoredArray& array, void* to) {
    reader.read(dataset_of(group, array.name), array.type, array.shape, to);
  };
  return file;
}

/// The precision of a group of parameters.
FilePrecision precision_in(const data::Hdf5Reader& reader, const std::string& group) {
  return group == kModelGroup ? read_precision(reader) : FilePrecision::kF32;
}

/// Throws Error(kBadData) unless the arrays are those of the model.
void check_all_arrays(const ArraysInFile& file, const ParameterStore& store, FilePrecision precision) {
  const auto refuse = [&](const std::string& name, const std::string& what) {
    fail(ExitCode::kBadData, "{}: parameter {} {}", file.origin, name, what);
  };
  std::set<std::string> unknown = file.names;
  std::vector<StoredArray> needed;
  for (const LogicalParameter& parameter : store.logical()) {
    for (const StoredArray& array : arrays_of(parameter, precision)) {
      unknown.erase(array.name);
      needed.push_back(array);
    }
  }
  if (!unknown.empty()) refuse(*unknown.begin(), "is unknown: this model has no such parameter");
  for (const StoredArray& array : needed) {
    if (!file.names.contains(array.name)) refuse(array.name, "is missing");
    const std::string expected = fmt::format("{} [{}]", name_of(array.type), fmt::join(array.shape, ", "));
    const std::string form = file.form(array.name, expected);
    if (form != expected) refuse(array.name, fmt::format("is {}, but this model needs {}", form, expected));
  }
}

}  // namespace

std::string newest_checkpoint(const std::string& folder,
                              const std::function<void(const std::string& path)>& read) {
  std::vector<std::string> paths = list_checkpoints(folder);
  for (; !paths.empty(); paths.pop_back()) {
    try {
      read(paths.back());
      return paths.back();
    } catch (const std::exception&) {
      continue;
    }
  }
  return "";
}

std::string resolve_model_file(const std::string& file_or_dir) {
  std::error_code error;
  if (!fs::is_directory(file_or_dir, error)) return file_or_dir;
  const std::string best = read_best(file_or_dir);
  const bool best_is_gone = !best.empty() && !fs::exists(best, error) && !error;
  if (!best.empty() && !best_is_gone) return best;
  const std::vector<std::string> paths = list_checkpoints(file_or_dir);
  if (best_is_gone) {
    const std::string other =
        newest_checkpoint(file_or_dir, [](const std::string& path) { read_config(data::Hdf5Reader(path)); });
    fail(ExitCode::kMissingInput,
         "{}: is missing, but best.json of its folder names it as the best checkpoint. {}", best,
         other.empty() ? "The folder holds no other that is sound; restore the file"
                       : fmt::format("Restore the file, or give another, such as the newest: {}", other));
  }
  if (paths.empty()) {
    const std::string of_marian = (fs::path(file_or_dir) / "model.npz").string();
    fail(ExitCode::kMissingInput,
         "{}: the folder holds no checkpoint; expected the --model-dir of `ventris train`, "
         "a checkpoint or a weights file{}",
         file_or_dir,
         data::is_there(of_marian)
             ? fmt::format(". It holds a model of Marian: `ventris import --input {}` reads that", of_marian)
             : "");
  }
  return paths.back();
}

bool is_model_format(const std::string& format) {
  return format == kWeightsFormat || format == kRoundedWeightsFormat || format == kCheckpointFormat;
}

TransformerConfig read_config(const data::Hdf5Reader& reader) {
  const std::string format =
      reader.has_attribute("/", "format") ? reader.string_attribute("/", "format") : "";
  if (!is_model_format(format)) {
    fail(ExitCode::kBadData, "{}: expected a checkpoint or a weights file, but its format is '{}'",
         reader.path(), format);
  }
  return transformer_config_from_json(reader.string_attribute("/", "config"), reader.path());
}

FilePrecision read_precision(const data::Hdf5Reader& reader) {
  const bool rounded =
      reader.has_attribute("/", "format") && reader.string_attribute("/", "format") == kRoundedWeightsFormat;
  if (!rounded) return FilePrecision::kF32;
  return precision_named(reader.string_attribute("/", kPrecisionAttribute), reader.path());
}

data::TokenizerModels read_tokenizer_models(const data::Hdf5Reader& reader) {
  const auto read = [&](const char* dataset) {
    const std::vector<uint8_t> bytes = reader.read_bytes(dataset);
    return std::string(bytes.begin(), bytes.end());
  };
  return {.target = read(kTokenizerDataset),
          .source = reader.exists(kSourceTokenizerDataset) ? read(kSourceTokenizerDataset) : ""};
}

void check_same_network(const TransformerConfig& in_file, const TransformerConfig& expected,
                        const std::string& path) {
  TransformerConfig comparable = in_file;
  copy_training_settings(expected, comparable);
  if (comparable == expected) return;
  fail(ExitCode::kBadData, "{}: the file holds another model: {}", path, differences(comparable, expected));
}

void read_arrays(Context& context, const ArraysInFile& file, const ParameterStore& store, Tensor flat,
                 FilePrecision precision, const std::string& digest) {
  check_all_arrays(file, store, precision);
  fill_parameters(
      context, store, flat, file.origin, ChannelOrder::kPairs,
      [&](const LogicalParameter& parameter, std::vector<float>& values) {
        const std::vector<StoredArray> arrays = arrays_of(parameter, precision);
        const FilePrecision held = precision_of(parameter, precision);
        uint8_t* const elements = end_of(values, held);
        file.read(arrays.front(), elements);
        if (held == FilePrecision::kF32) return;
        std::vector<float> scales;
        if (held == FilePrecision::kInt8) {
          const bool rows = outputs_of(parameter) == Outputs::kRows;
          scales.resize(static_cast<size_t>(rows ? parameter.rows : parameter.cols));
          file.read(arrays.back(), scales.data());
        }
        widen(parameter, held, elements, scales, file.origin, values);
      },
      [&](ConstTensor values) {
        if (digest.empty()) return;
        const std::string present = parameter_digest(store, values);
        if (present == digest) return;
        fail(ExitCode::kBadData,
             "{}: its parameters have the digest {}, but the file records {}: they are not the saved ones; "
             "use another copy or an earlier checkpoint",
             file.origin, present, digest);
      });
}

void write_parameters(data::Hdf5Writer& writer, const std::string& group, const ModelArrays& parameters,
                      FilePrecision precision) {
  StoredValues values(parameters, precision);
  for (const LogicalParameter& parameter : parameters.logical()) {
    for (const StoredArray& array : arrays_of(parameter, precision)) {
      writer.write(dataset_of(group, array.name), array.type, array.shape, values.bytes(array.name).data());
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
                     const ParameterStore& store, Tensor flat) {
  const bool has_digest = group == kModelGroup && reader.has_attribute("/", kDigestAttribute);
  read_arrays(context, arrays_in_group(reader, group), store, flat, precision_in(reader, group),
              has_digest ? reader.string_attribute("/", kDigestAttribute) : "");
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
    for (const StoredArray& array : arrays_of(parameter, precision)) {
      uint64_t bytes = size_of(array.type);
      for (const int64_t extent : array.shape) bytes *= static_cast<uint64_t>(extent);
      needed += bytes;
    }
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
  check_all_arrays(arrays_in_group(reader, group), model.store, precision_in(reader, group));
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
    read_parameters(context, reader, use == ModelUse::kParameters ? kModelGroup : group_to_load(reader),
                    model->store, model->store.values());
    if (reader.has_attribute("/", kAveragedAttribute))
      model->averaged_checkpoints = reader.int_attribute("/", kAveragedAttribute);
    if (reader.exists(kProbeDataset)) {
      const std::vector<uint8_t> probes = reader.read_bytes(kProbeDataset);
      model->probes.assign(probes.begin(), probes.end());
    }
  }
  const bool translates = use == ModelUse::kTranslation || use == ModelUse::kTranslationInInt8;
  if (translates && can_pack(context, model->store)) {
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
