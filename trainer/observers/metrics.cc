// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/metrics.h"

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/file_io.h"
#include "trainer/json_text.h"
#include "trainer/observers/metric_events.h"
#include "trainer/observers/metrics_cut.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson metrics_line(int64_t step, const char* type) {
  return {{"step", step}, {"type", type}, {"time", now_utc()}};
}

/// The scores of a set, with `prefix` before the names that lines had before there were several sets.
void add_scores(OrderedJson& to, const std::string& prefix, const ValidationMetrics& metrics) {
  // A diverged model may have no finite loss, which is then omitted.
  if (std::isfinite(metrics.loss)) to[prefix + "loss"] = metrics.loss;
  if (std::isfinite(metrics.nll)) to[prefix + "perplexity"] = metrics.perplexity();
  if (metrics.has_bleu) to[prefix + "bleu"] = metrics.bleu;
  if (metrics.bleu_interval) {
    to["bleu_low"] = metrics.bleu_interval->low;
    to["bleu_high"] = metrics.bleu_interval->high;
  }
  if (metrics.has_chrf) to[prefix + "chrf"] = metrics.chrf;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& model_dir, int64_t last_step, bool validates_last_step)
    : path_(model_dir + "/metrics.jsonl"),
      folder_(model_dir),
      last_dropped_(cut_metrics(path_, last_step, validates_last_step)) {
  file_.open(path_, std::ios::app);
  if (!file_) fail(ExitCode::kCannotCreate, "{}: cannot open the file: {}", path_, std::strerror(errno));
}

void MetricsLog::set_listener(std::function<void(const OrderedJson& line)> listener) {
  listener_ = std::move(listener);
}

bool MetricsLog::was_removed() const {
  struct stat status {};
  return ::stat(path_.c_str(), &status) != 0 && errno == ENOENT && folder_.holds();
}

void MetricsLog::write_line(const OrderedJson& line) {
  if (was_removed()) {
    file_.close();
    file_.open(path_, std::ios::app);
    OrderedJson event = metrics_line(line["step"], "event");
    event["event"] = "removed";
    append(std::move(event));
  }
  append(line);
}

void MetricsLog::append(OrderedJson line) {
  line[data::kFormatKey] = data::kMetricsFormat;
  const std::string text = json_text(line);
  file_ << text << std::endl;
  if (file_) {
    if (listener_) listener_(line);
    return;
  }
  const int error = errno;
  fail(ExitCode::kIo, "{}: cannot write {} bytes at its end: {}.{} Free space or write elsewhere", path_,
       text.size() + 1, std::strerror(error), data::room_at(path_));
}

void MetricsLog::on_interval(const IntervalMetrics& metrics) {
  OrderedJson line = metrics_line(metrics.step, "interval");
  line["epoch"] = metrics.epoch;
  if (metrics.has_loss()) {
    line["loss"] = metrics.loss();
    line["nll"] = metrics.nll();
    line["perplexity"] = metrics.perplexity();
  }
  line["learning_rate"] = metrics.learning_rate;
  line["gradient_norm"] = metrics.gradient_norm;
  line["target_tokens"] = metrics.target_tokens;
  line["target_tokens_per_second"] = metrics.target_tokens_per_second();
  line["source_tokens_per_second"] = metrics.source_tokens_per_second();
  if (metrics.device) {
    line["model_flops_per_second"] = metrics.device->flops_per_second;
    line["device_memory_bytes"] = metrics.device->memory_bytes;
  }
  line["elapsed_seconds"] = metrics.elapsed_seconds;
  line["skipped_steps"] = metrics.skipped_steps;
  if (!metrics.stage.empty()) {
    line["stage"] = metrics.stage;
    for (const auto& [corpus, pairs] : metrics.pairs) line["pairs"][corpus] = pairs;
  }
  write_line(line);
}

void MetricsLog::on_digest(const StepDigest& digest) {
  OrderedJson line = metrics_line(digest.step, "digest");
  line["digest"] = digest.digest;
  write_line(line);
}

void MetricsLog::write_event(int64_t step, const char* event, const OrderedJson& members) {
  OrderedJson line = metrics_line(step, "event");
  line["event"] = event;
  line.update(members);
  write_line(line);
}

void MetricsLog::on_stage_end(const StageChange& ended) {
  write_event(ended.step, kStageEndEvent, {{"ended_stage", ended.name}, {"end", ended.end}});
}

void MetricsLog::on_rate_drop(const RateDrop& drop) {
  write_event(drop.step, kPlateauEvent, {{"factor", drop.factor}});
}

void MetricsLog::on_start(const RunStart& start) {
  if (!start.resumed) return;
  const ResumedStart& resumed = *start.resumed;
  OrderedJson members = {{"checkpoint", resumed.checkpoint}, {"program", resumed.program},
                         {"device", resumed.device},         {"ranks", start.ranks},
                         {"hosts", resumed.hosts},           {"lost_steps", resumed.lost_steps}};
  if (!resumed.previous_state.empty()) members["previous_state"] = resumed.previous_state;
  if (resumed.previous_exit_code) members["previous_exit_code"] = *resumed.previous_exit_code;
  if (!resumed.previous_message.empty()) members["previous_message"] = resumed.previous_message;
  write_event(start.step, kResumedEvent, members);
}

void MetricsLog::on_skipped_step(const SkippedStep& skipped) {
  write_event(skipped.step, kSkippedEvent, {{"place", skipped.place}});
}

void MetricsLog::on_script_result(const ScriptResult& result) {
  OrderedJson members = {{"of_step", result.of_step}, {"set", result.set}};
  if (result.score) {
    members["score"] = *result.score;
  } else {
    members["error"] = result.error;
  }
  write_event(result.step, kValidScriptEvent, members);
}

void MetricsLog::on_validation(const ValidationMetrics& metrics) {
  OrderedJson line = metrics_line(metrics.step, kValidationType);
  add_scores(line, "valid_", metrics);
  for (const ValidationMetrics& set : metrics.sets) {
    OrderedJson scores = OrderedJson::object();
    add_scores(scores, "", set);
    line["sets"][set.name] = std::move(scores);
  }
  if (!metrics.signature.empty()) line["signature"] = metrics.signature;
  if (!metrics.chrf_signature.empty()) line["chrf_signature"] = metrics.chrf_signature;
  write_line(line);
}

}  // namespace ventris
