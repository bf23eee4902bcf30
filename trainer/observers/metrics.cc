// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/metrics.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/file_io.h"
#include "trainer/json_text.h"
#include "trainer/observers/metrics_cut.h"
#include "trainer/observers/validation_script.h"
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

double per_second(int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace

double perplexity_of(double nll) {
  return std::exp(std::min(nll, 700.0));
}

double IntervalMetrics::perplexity() const {
  return perplexity_of(nll());
}
double IntervalMetrics::target_tokens_per_second() const {
  return per_second(sums.target_tokens, sums.seconds);
}
double IntervalMetrics::source_tokens_per_second() const {
  return per_second(sums.source_tokens, sums.seconds);
}
double ValidationMetrics::perplexity() const {
  return perplexity_of(nll);
}

double ValidationMetrics::of(const std::string& metric) const {
  if (metric == "bleu") return bleu;
  if (metric == "chrf") return chrf;
  return metric == "loss" ? loss : perplexity();
}

bool is_better(const std::string& metric, double a, double b) {
  return metric == "bleu" || metric == "chrf" ? a > b : a < b;
}

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

void MetricsLog::write(const IntervalMetrics& metrics) {
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

void MetricsLog::write_digest(int64_t step, const std::string& digest) {
  OrderedJson line = metrics_line(step, "digest");
  line["digest"] = digest;
  write_line(line);
}

void MetricsLog::write_event(int64_t step, const char* event, const OrderedJson& members) {
  OrderedJson line = metrics_line(step, "event");
  line["event"] = event;
  line.update(members);
  write_line(line);
}

void MetricsLog::write_stage_end(int64_t step, const std::string& stage, const std::string& end) {
  write_event(step, kStageEndEvent, {{"ended_stage", stage}, {"end", end}});
}

void MetricsLog::write_plateau(int64_t step, double factor) {
  write_event(step, kPlateauEvent, {{"factor", factor}});
}

void MetricsLog::write_resumed(const ResumedStart& start) {
  OrderedJson members = {{"checkpoint", start.checkpoint}, {"program", start.program},
                         {"device", start.device},         {"ranks", start.ranks},
                         {"hosts", start.hosts},           {"lost_steps", start.lost_steps}};
  if (!start.previous_state.empty()) members["previous_state"] = start.previous_state;
  if (start.previous_exit_code) members["previous_exit_code"] = *start.previous_exit_code;
  if (!start.previous_message.empty()) members["previous_message"] = start.previous_message;
  write_event(start.step, kResumedEvent, members);
}

void MetricsLog::write_skipped(int64_t step, const std::string& place) {
  write_event(step, kSkippedEvent, {{"place", place}});
}

void MetricsLog::write_script(int64_t step, const ScriptResult& result) {
  OrderedJson members = {{"of_step", result.of_step}, {"set", result.set}};
  if (result.score) {
    members["score"] = *result.score;
  } else {
    members["error"] = result.error;
  }
  write_event(step, kValidScriptEvent, members);
}

void MetricsLog::write(const ValidationMetrics& metrics) {
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
