// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/io/folder_lock.h"
#include "trainer/observer.h"

namespace ventris {

/// Appends to metrics.jsonl in a run folder: one JSON object a line, with the step, the type of the line,
/// the time at which it was written (now_utc()) and its format (data/io/file_format.h). docs/metrics.md
/// lists the values. A log that was removed meanwhile is restarted, with an event that reports it, unless the
/// folder was replaced. Throws Error(kIo, kCannotCreate), and data::NewerFormat if a line is of a later
/// version of the program.
class MetricsLog final : public Observer {
 public:
  /// Keeps the lines of steps up to `last_step` of an earlier run (-1: none) and drops the others; if that
  /// step must be validated again, also the line of its validation, which is not in the checkpoint
  /// (trainer/observers/metrics_cut.h).
  MetricsLog(const std::string& model_dir, int64_t last_step, bool validates_last_step = false);
  /// The largest step of the lines that were dropped, or `last_step`.
  int64_t last_dropped() const { return last_dropped_; }
  /// Also hands each line, once it is written, to `listener`.
  void set_listener(std::function<void(const nlohmann::ordered_json& line)> listener);
  /// {..., "event": "resumed", ...}: a start that resumed after that step.
  void on_start(const RunStart& start) override;
  /// {..., "event": "skipped", "place": "the loss"}: a step without an update, and where NaN or Inf was.
  void on_skipped_step(const SkippedStep& skipped) override;
  void on_interval(const IntervalMetrics& metrics) override;
  /// {..., "digest": "..."}: the digest of the parameters after a step.
  void on_digest(const StepDigest& digest) override;
  void on_validation(const ValidationMetrics& metrics) override;
  /// {..., "event": "valid_script", "of_step": 1000, "set": "news", "score": 0.81}, or with "error", after
  /// the present step.
  void on_script_result(const ScriptResult& result) override;
  /// {..., "event": "plateau", "factor": 0.1}.
  void on_rate_drop(const RateDrop& drop) override;
  /// {..., "event": "stage_end", "ended_stage": "warm", "end": "until bt 2"}.
  void on_stage_end(const StageChange& ended) override;

 private:
  void write_event(int64_t step, const char* event, const nlohmann::ordered_json& members);
  void write_line(const nlohmann::ordered_json& line);
  void append(nlohmann::ordered_json line);
  bool was_removed() const;
  std::string path_;
  data::FolderIdentity folder_;  // at the start
  int64_t last_dropped_;
  std::ofstream file_;
  std::function<void(const nlohmann::ordered_json& line)> listener_;
};

}  // namespace ventris
