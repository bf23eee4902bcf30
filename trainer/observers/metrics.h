// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/io/folder_lock.h"
#include "trainer/observers/metric_events.h"

namespace ventris {

struct ScriptResult;

/// Statistics since the last log line. Sums are over all ranks, without skipped steps.
struct IntervalSums {
  double loss = 0.0;  // over target tokens
  double nll = 0.0;   // likewise
  int64_t target_tokens = 0;
  int64_t source_tokens = 0;
  double flops = 0.0;    // of the model (model/flop_count.h)
  double seconds = 0.0;  // of training steps only, without validation and checkpoints
};

/// How far the steps of an interval used the CUDA devices.
struct DeviceUse {
  double flops_per_second = 0.0;  // of the model on one device, the mean over the ranks
  int64_t memory_bytes = 0;       // in use by all programs on the first rank's device
};

/// One line of metrics.jsonl for an interval.
struct IntervalMetrics {
  int64_t step = 0;
  double epoch = 0.0;
  IntervalSums sums;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;  // of the last step that was not skipped
  int64_t target_tokens = 0;   // trained on since the start
  double elapsed_seconds = 0.0;
  int64_t skipped_steps = 0;
  std::string stage = {};                                   // of the step; "" without a plan of stages
  std::vector<std::pair<std::string, int64_t>> pairs = {};  // drawn of each corpus since the start; likewise
  std::optional<DeviceUse> device = {};                     // on CUDA

  bool has_loss() const { return sums.target_tokens > 0; }
  double loss() const { return sums.loss / static_cast<double>(sums.target_tokens); }
  double nll() const { return sums.nll / static_cast<double>(sums.target_tokens); }
  double perplexity() const;
  double target_tokens_per_second() const;
  double source_tokens_per_second() const;
};

/// A 95% confidence interval.
struct ScoreInterval {
  double low = 0.0;
  double high = 0.0;
};

/// Of the set that decides which model is the best.
struct ValidationMetrics {
  int64_t step = 0;
  double loss = 0.0;  // label-smoothed, per token
  double nll = 0.0;
  double perplexity() const;
  bool has_bleu = false;
  double bleu = 0.0;
  bool has_chrf = false;
  double chrf = 0.0;
  std::optional<ScoreInterval> bleu_interval = {};
  std::string signature = {};  // of BLEU; "" where it was logged before, as the next
  std::string chrf_signature = {};
  std::string name = {};                     // of the set, in `sets`
  std::vector<ValidationMetrics> sets = {};  // the others

  /// The value of `metric`: bleu, chrf, loss or perplexity.
  double of(const std::string& metric) const;
};

/// True if `a` is better than `b` by that metric.
bool is_better(const std::string& metric, double a, double b);

/// exp(nll), kept finite.
double perplexity_of(double nll);

/// A start that resumed a run.
struct ResumedStart {
  int64_t step = 0;  // of the checkpoint
  std::string checkpoint;
  std::string program;  // name and version
  std::string device;
  int ranks = 1;
  int hosts = 1;
  int64_t lost_steps = 0;  // that the start before had computed after the checkpoint, as far as is known
  std::string previous_state = {};  // how that ended (StatusRecord::state, or "killed"); "" if unknown
  std::optional<int> previous_exit_code = {};
  std::string previous_message = {};
};

/// Appends to metrics.jsonl in a run folder: one JSON object a line, with the step, the type of the line,
/// the time at which it was written (now_utc()) and its format (data/io/file_format.h). docs/metrics.md
/// lists the values. A log that was removed meanwhile is restarted, with an event that reports it, unless the
/// folder was replaced. Throws Error(kIo, kCannotCreate), and data::NewerFormat if a line is of a later
/// version of the program.
class MetricsLog {
 public:
  /// Keeps the lines of steps up to `last_step` of an earlier run (-1: none) and drops the others; if that
  /// step must be validated again, also the line of its validation, which is not in the checkpoint
  /// (trainer/observers/metrics_cut.h).
  MetricsLog(const std::string& model_dir, int64_t last_step, bool validates_last_step = false);
  /// The largest step of the lines that were dropped, or `last_step`.
  int64_t last_dropped() const { return last_dropped_; }
  /// Also hands each line, once it is written, to `listener`.
  void set_listener(std::function<void(const nlohmann::ordered_json& line)> listener);
  void write(const IntervalMetrics& metrics);
  void write(const ValidationMetrics& metrics);
  /// {..., "digest": "..."}: the digest of the parameters after a step.
  void write_digest(int64_t step, const std::string& digest);
  /// {..., "event": "stage_end", "ended_stage": "warm", "end": "until bt 2"}: the last step of a stage.
  void write_stage_end(int64_t step, const std::string& stage, const std::string& end);
  /// {..., "event": "plateau", "factor": 0.1}: a drop of the learning rate; the product of all drops so far.
  void write_plateau(int64_t step, double factor);
  /// {..., "event": "resumed", ...}: a start that goes on after that step.
  void write_resumed(const ResumedStart& start);
  /// {..., "event": "skipped", "place": "the loss"}: a step without an update, and where NaN or Inf was.
  void write_skipped(int64_t step, const std::string& place);
  /// {..., "event": "valid_script", "of_step": 1000, "set": "news", "score": 0.81}, or with "error", after
  /// the present step.
  void write_script(int64_t step, const ScriptResult& result);

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
