// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// A validation set at a step, for --valid-script to score.
struct ScriptTask {
  int64_t step = 0;
  std::string set;
  auto operator<=>(const ScriptTask&) const = default;
};

/// Its texts, one line for each sentence.
struct ScriptTexts {
  std::vector<std::string> sources, references, translations;
};

/// Those that wait for their score: valid-script/00001000-news/ in the folder of a run, with sources.txt,
/// references.txt and translations.txt.
std::string path_of_script_texts(const std::string& model_dir, const ScriptTask& task);

/// Complete and on the disk, or not at all. Line ends inside a line become spaces. Throws DataError
/// kCannotCreate, kIo.
void write_script_texts(const std::string& model_dir, const ScriptTask& task, const ScriptTexts& texts);

/// In the order of their steps. Throws Error(kIo).
std::vector<ScriptTask> waiting_script_texts(const std::string& model_dir);

/// Throws Error(kIo).
void remove_script_texts(const std::string& model_dir, const ScriptTask& task);

/// Those of steps above `last_step` (-1: all), which a run that resumes there has not reached. Throws
/// Error(kIo).
void remove_later_script_texts(const std::string& model_dir, int64_t last_step);

}  // namespace ventris
