// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ventris {

/// Writes a file of TensorBoard events (trainer/observers/event_file.h) beside metrics.jsonl. Its scalars are
/// the numbers of the lines of that log, as f32, at the times of the lines. Throws Error(kIo, kCannotCreate).
class TensorBoardLog {
 public:
  /// After the log was cut (MetricsLog): a new file with the scalars of its lines takes the place of those of
  /// earlier starts, so that no step is there twice. Files of other programs are left alone.
  explicit TensorBoardLog(const std::string& model_dir);
  /// Writes the numbers of a line; those of nested objects with the names of all, joined by "/". Of events
  /// only the score of one of --valid-script: as "valid_script/SET", at the step of its validation.
  void write_line(const nlohmann::ordered_json& line);

 private:
  void append(const std::string& frames);

  std::string path_;
  std::ofstream file_;
};

}  // namespace ventris
