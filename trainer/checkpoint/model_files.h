// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "data/io/hdf5_reader.h"
#include "data/text/tokenizer.h"
#include "model/transformer_config.h"
#include "trainer/checkpoint/file_precision.h"

// Shared by the files of trainer/ that read and write models.

namespace ventris {

/// Of a SentencePiece model: that of both sides, or of targets beside one of sources.
constexpr const char* kTokenizerDataset = "/tokenizer";
constexpr const char* kSourceTokenizerDataset = "/source_tokenizer";

/// Values of the attribute "format" of our files.
constexpr const char* kWeightsFormat = "ventris weights 1";
constexpr const char* kRoundedWeightsFormat = "ventris weights 2";  // with bf16 or int8
constexpr const char* kCheckpointFormat = "ventris checkpoint 1";

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

/// Writes a small file: to a temporary name, fsynced, renamed, the folder fsynced. Throws
/// DataError kCannotCreate or kIo.
void write_file_atomically(const std::string& path, const std::string& content);

}  // namespace ventris
