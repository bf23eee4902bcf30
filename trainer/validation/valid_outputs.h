// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/validation/validation_sets.h"

namespace ventris {

/// Translations of the validation sets of a run: valid/00001000/news.txt in its folder, one line for each
/// sentence, written atomically and the same whenever a step is validated again.

/// Writes the translations of each set, none for sets that were not translated, and beside them the texts of
/// the same lines. Errors: DataError kCannotCreate, kIo.
void write_valid_outputs(const std::string& model_dir, int64_t step, const ValidationSets& sets,
                         const std::vector<std::vector<std::string>>& translations);

/// The texts beside them, of the same lines: valid/news.source.txt and valid/news.reference.txt.
enum class ValidSide { kSource, kReference };
std::string path_of_valid_text(const std::string& model_dir, const std::string& set, ValidSide side);

/// The translations that a run folder has, by rising step. Folders that cannot be listed have none.
struct ValidOutput {
  int64_t step = 0;
  std::string set = {};
};
std::string path_of_valid_output(const std::string& model_dir, int64_t step, const std::string& set);
std::vector<ValidOutput> list_valid_outputs(const std::string& model_dir);

/// Removes those of later steps than `step` (-1: all), which a run that resumes there has not reached: it may
/// validate after other steps now. Errors: Error kIo.
void remove_later_valid_outputs(const std::string& model_dir, int64_t step);

}  // namespace ventris
