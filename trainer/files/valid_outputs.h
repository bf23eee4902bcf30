#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// Translations of the validation sets of a run: valid/00001000/news.txt in its folder, one line for each
/// sentence, written atomically and the same whenever a step is validated again.

/// Errors: DataError kCannotCreate, kIo.
void write_valid_output(const std::string& model_dir, int64_t step, const std::string& set,
                        const std::vector<std::string>& translations);

/// Removes those of later steps than `step` (-1: all), which a run that resumes there has not reached: it may
/// validate after other steps now. Errors: Error kIo.
void remove_later_valid_outputs(const std::string& model_dir, int64_t step);

}  // namespace ventris
