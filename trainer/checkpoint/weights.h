// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/device/context.h"
#include "data/io/hdf5_reader.h"
#include "data/text/tokenizer.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/file_precision.h"
#include "trainer/checkpoint/model_arrays.h"

namespace ventris {

namespace data {
class Hdf5Writer;
}

/// Datasets of SentencePiece models: one for both sides, or one for targets and one for sources.
inline constexpr const char* kTokenizerDataset = "/tokenizer";
inline constexpr const char* kSourceTokenizerDataset = "/source_tokenizer";

/// Values of the attribute "format" of our files.
inline constexpr const char* kWeightsFormat = "ventris weights 1";
inline constexpr const char* kRoundedWeightsFormat = "ventris weights 2";  // with bf16 or int8
inline constexpr const char* kCheckpointFormat = "ventris checkpoint 1";

/// The file of a weights file, a checkpoint or a run folder (its best checkpoint, otherwise the newest).
/// Throws Error(kMissingInput) if there is none.
std::string resolve_model_file(const std::string& file_or_dir);

/// The newest checkpoint of a run folder for which `read` does not throw, or "".
std::string newest_checkpoint(const std::string& folder,
                              const std::function<void(const std::string& path)>& read);

/// Whether that attribute is one of these.
bool is_model_format(const std::string& format);

/// The configuration in a weights file or checkpoint. Throws Error(kBadData) if the file is of another kind.
TransformerConfig read_config(const data::Hdf5Reader& reader);

/// The precision of /model in a weights file or checkpoint. Throws Error or DataError (kBadData) if it names
/// an unknown one.
FilePrecision read_precision(const data::Hdf5Reader& reader);

/// The SentencePiece models in a weights file or checkpoint.
data::TokenizerModels read_tokenizer_models(const data::Hdf5Reader& reader);

/// Throws Error(kBadData), naming `path` and each setting that differs, unless both describe networks of the
/// same function and shape. Dropout and label smoothing may differ: they are of training, not of the network.
void check_same_network(const TransformerConfig& in_file, const TransformerConfig& expected,
                        const std::string& path);

/// Groups of the parameters, of the scales of those in int8, and of the moving average of all.
inline constexpr const char* kModelGroup = "/model";
inline constexpr const char* kScalesGroup = "/model_scales";
inline constexpr const char* kAverageGroup = "/ema";

/// Writes <group>/<logical name> for every logical parameter, and, of those in int8, /model_scales/<logical
/// name>. The values must be rounded with round_parameters().
void write_parameters(data::Hdf5Writer& writer, const std::string& group, const ModelArrays& parameters,
                      FilePrecision precision = FilePrecision::kF32);
/// Reads a group into `flat`, with the layout of store.values() and on the context's device. Errors: those of
/// read_model().
void read_parameters(Context& context, const data::Hdf5Reader& reader, const std::string& group,
                     const ParameterStore& store, Tensor flat);

/// Writes the parameters as write_parameters(), their digest and the config JSON (attributes
/// "parameter_digest" and "config" of /), and the tokenizer.
void write_model(data::Hdf5Writer& writer, const TransformerConfig& config, const ModelArrays& parameters,
                 const data::TokenizerModels& tokenizers, FilePrecision precision = FilePrecision::kF32);

/// Reads /model into the master values (store allocated, shapes checked by name). Throws
/// DataError/Error(kBadData) naming the file and the parameter that is missing, unknown, or of another shape,
/// or that has NaN, Inf or invalid values for its precision, or both digests if they differ; then the values
/// are undefined.
void read_model(Context& context, const data::Hdf5Reader& reader, ParameterStore& store);

/// Writes a weights file: everything that translation needs. `provenance` is free text (command, step,
/// version), `probes` JSON (trainer/exchange/probe.h), or empty for none; the weights are the mean of
/// `averaged_checkpoints`, rounded with round_parameters() for the precision.
void save_weights(Context& context, const std::string& path, const TransformerConfig& config,
                  const ParameterStore& store, const data::TokenizerModels& tokenizers,
                  const std::string& provenance, const std::string& probes = "",
                  int64_t averaged_checkpoints = 1, FilePrecision precision = FilePrecision::kF32);

/// Reads all parameters into `flat` as read_parameters(), if they are exactly the arrays of the file; their
/// digest must be `digest` if that is not empty.
void read_arrays(Context& context, const ArraysInFile& file, const ParameterStore& store, Tensor flat,
                 FilePrecision precision, const std::string& digest);

/// A model for inference, from a weights file, a safetensors file of ours, a checkpoint, or a run folder (its
/// best checkpoint, otherwise the newest). Of a checkpoint with a moving average of the parameters, the
/// average.
struct LoadedModel {
  std::string path;  // the file that was read
  TransformerConfig config;
  ParameterStore store;
  TransformerIds ids;
  std::unique_ptr<data::TokenizerPair> tokenizers;
  int64_t averaged_checkpoints = 1;  // of which the weights are the mean
  std::string probes;                // JSON, or empty if the file has none
};
enum class ModelUse {
  kAny,
  kParameters,         // of a checkpoint the parameters, not their moving average
  kTranslation,        // parameters are packed if possible (model/transformer_parameters.h)
  kTranslationInInt8,  // the same as 8-bit integers; only f32 on the CPU
};
std::unique_ptr<LoadedModel> load_model(Context& context, const std::string& file_or_dir, DType dtype,
                                        ModelUse use = ModelUse::kAny);

/// Throws as load_model() does for an HDF5 file, whose values it does not read: configuration, tokenizers,
/// and names, types and shapes of the parameters. Takes no memory for them.
void check_model(const data::Hdf5Reader& reader);

/// The first steps of loading a model: takes the configuration and the tokenizers, and allocates the store.
/// Throws Error(kBadData) if they do not fit each other, or if a file of `file_bytes` cannot hold the
/// parameters in that precision, before memory is allocated for them.
void begin_loading(LoadedModel& model, Context& context, const TransformerConfig& config,
                   const data::TokenizerModels& tokenizers, DType dtype, uint64_t file_bytes,
                   FilePrecision precision = FilePrecision::kF32);

/// Whether a file begins as a safetensors file does. False for one that cannot be read.
bool is_safetensors(const std::string& path);

/// Reads model.path, a safetensors file of ours, into all other members of the model, except the compute
/// copy. Throws DataError or Error(kBadData), naming the file and the parameter that is missing, unknown or
/// of another type or shape, or that has NaN, Inf or invalid values for its precision, or both digests of the
/// parameters if they differ.
void load_safetensors(Context& context, LoadedModel& model, DType dtype);

/// Writes a safetensors file: the logical parameters by name, with the scales of those in int8, then the
/// tokenizer as U8, and in the metadata digest, format, config, provenance, parameter_digest, probes, and the
/// precision if it is not f32. The parameters must be rounded with round_parameters() for it.
void save_safetensors(Context& context, const std::string& path, const LoadedModel& model,
                      const std::string& provenance, const std::string& probes, FilePrecision precision);

}  // namespace ventris
