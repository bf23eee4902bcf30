// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trainer/files/event_file.h"

namespace ventris {

/// The folder of a run with its event files.
std::string path_of_events(const std::string& model_dir);

/// Removes from the event files of a run what is of steps after `last_step` (-1: everything), late values at
/// the end (EventFilePart), and files without other values. Each file is truncated once or removed, so that a
/// kill leaves no half of an event; those of other programs are left alone. Returns the last step that is
/// left, or -1. Throws data::DataError and Error(kIo).
int64_t cut_event_files(const std::string& model_dir, int64_t last_step);

/// Writes a file of TensorBoard events (trainer/files/event_file.h) beside metrics.jsonl, a new one for each
/// start. Its scalars are the numbers of the lines of that log, as f32, at the times of the lines. Throws
/// Error(kIo, kCannotCreate) and data::DataError.
class TensorBoardLog {
 public:
  /// After the log was cut (MetricsLog): cuts the files of earlier starts at `last_step`, or, if that step
  /// must be validated again, before it, and writes the scalars of the lines that these do not have.
  TensorBoardLog(const std::string& model_dir, int64_t last_step, bool validates_last_step);
  /// Writes the numbers of a line; those of nested objects with the names of all, joined by "/". Of events
  /// only the score of one of --valid-script: as "valid_script/SET", at the step of its validation.
  void write_line(const nlohmann::ordered_json& line);
  /// Nothing for an event without values.
  void write(const Event& event);
  const std::string& path() const { return path_; }

 private:
  void append(const std::string& frames);
  void catch_up(const std::string& log, int64_t after_step);

  std::string path_;
  std::ofstream file_;
};

}  // namespace ventris
