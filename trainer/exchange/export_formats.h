// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/weights.h"

// Private to the files of trainer/ that write and read other programs' formats.

namespace ventris {

/// Each writes its files into the existing `folder` and returns their paths, first the file of the
/// parameters, without which no program accepts the folder. Requires that the format can express the model
/// (trainer/exchange/export_limits.h) and that its parameters are rounded to the precision.
std::vector<std::string> export_ctranslate2(Context& context, const LoadedModel& model,
                                            const std::string& folder, FilePrecision precision);
std::vector<std::string> export_huggingface(Context& context, const LoadedModel& model,
                                            const std::string& folder, FilePrecision precision);
std::vector<std::string> export_marian(Context& context, const LoadedModel& model, const std::string& folder);

/// A file of the folder, written atomically; returns its path.
std::string write_in_folder(const std::string& folder, const std::string& name, const std::string& content);

/// The tokens of the vocabulary by id.
std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer);

}  // namespace ventris
