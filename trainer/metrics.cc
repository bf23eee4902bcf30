#include "trainer/metrics.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/error.h"
#include "data/files/disk_room.h"
#include "data/files/file_io.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/model_files.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kValidation = "validation";

// Older lines without types have only the step and numbers of a validation.
bool is_of_validation(const Json& line) {
  if (line.contains("type")) return line["type"] == kValidation;
  return std::all_of(line.items().begin(), line.items().end(), [](const auto& item) {
    return item.key() == "step" || item.key().starts_with("valid_");
  });
}

// The end of a stage that a validation brought, which the validation writes again.
bool is_of_stall(const Json& line) {
  return text_in(line, "event") == kStageEndEvent && text_in(line, "end").starts_with("until stalled ");
}

bool is_written_by_validation(const Json& line) {
  return is_of_validation(line) || is_of_stall(line) || text_in(line, "event") == kPlateauEvent;
}

Json line_of(int64_t step, const char* type) {
  return {{"step", step}, {"type", type}, {"time", now_utc()}};
}

/// The scores of a set, with `prefix` before the names that lines had before there were several sets.
void add_scores(Json& to, const std::string& prefix, const ValidationMetrics& metrics) {
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

std::vector<std::string> lines_up_to(const std::string& path, int64_t last_step, bool validates_last_step) {
  std::vector<std::string> kept;
  errno = 0;
  std::ifstream in(path);
  if (!in && errno == ENOENT) return kept;
  for (std::string line; std::getline(in, line);) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    refuse_newer_format(object, path);
    int64_t step = 0;
    const bool whole = object.is_object() && object.contains("step") && read_number(object["step"], step);
    if (!whole) continue;
    const bool again = validates_last_step && step == last_step && is_written_by_validation(object);
    if (step <= last_step && !again) kept.push_back(line);
  }
  if (!in.is_open() || in.bad()) {
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path, std::strerror(errno));
  }
  return kept;
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
    : path_(model_dir + "/metrics.jsonl"), folder_(model_dir) {
  std::error_code not_there;
  if (std::filesystem::is_other(path_, not_there)) data::check_is_no_other_thing(path_);  // a pipe has no end
  std::string kept;
  for (const std::string& line : lines_up_to(path_, last_step, validates_last_step)) kept += line + '\n';
  write_file_atomically(path_, kept);
  file_.open(path_, std::ios::app);
  if (!file_) fail(ExitCode::kCannotCreate, "{}: cannot open the file: {}", path_, std::strerror(errno));
}

bool MetricsLog::was_removed() const {
  struct stat status {};
  return ::stat(path_.c_str(), &status) != 0 && errno == ENOENT && folder_.holds();
}

void MetricsLog::write_line(const Json& line) {
  if (was_removed()) {
    file_.close();
    file_.open(path_, std::ios::app);
    Json event = line_of(line["step"], "event");
    event["event"] = "removed";
    append(std::move(event));
  }
  append(line);
}

void MetricsLog::append(Json line) {
  line[data::kFormatKey] = data::kMetricsFormat;
  const std::string text = json_text(line);
  file_ << text << std::endl;
  if (file_) return;
  const int error = errno;
  fail(ExitCode::kIo, "{}: cannot write {} bytes at its end: {}.{} Free space or write elsewhere", path_,
       text.size() + 1, std::strerror(error), data::room_at(path_));
}

void MetricsLog::write(const IntervalMetrics& metrics) {
  Json line = line_of(metrics.step, "interval");
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
  line["elapsed_seconds"] = metrics.elapsed_seconds;
  line["skipped_steps"] = metrics.skipped_steps;
  if (!metrics.stage.empty()) {
    line["stage"] = metrics.stage;
    for (const auto& [corpus, pairs] : metrics.pairs) line["pairs"][corpus] = pairs;
  }
  write_line(line);
}

void MetricsLog::write_digest(int64_t step, const std::string& digest) {
  Json line = line_of(step, "digest");
  line["digest"] = digest;
  write_line(line);
}

void MetricsLog::write_stage_end(int64_t step, const std::string& stage, const std::string& end) {
  Json line = line_of(step, "event");
  line.update(Json{{"event", kStageEndEvent}, {"ended_stage", stage}, {"end", end}});
  write_line(line);
}

void MetricsLog::write_plateau(int64_t step, double factor) {
  Json line = line_of(step, "event");
  line.update(Json{{"event", kPlateauEvent}, {"factor", factor}});
  write_line(line);
}

void MetricsLog::write_repair(int64_t step, const std::string& part, const std::vector<int>& ranks) {
  Json line = line_of(step, "event");
  line.update(Json{{"event", "repair"}, {"part", part}, {"ranks", ranks}});
  write_line(line);
}

void MetricsLog::write(const ValidationMetrics& metrics) {
  Json line = line_of(metrics.step, kValidation);
  add_scores(line, "valid_", metrics);
  if (metrics.p_value) line["p_value"] = *metrics.p_value;
  for (const ValidationMetrics& set : metrics.sets) {
    Json scores = Json::object();
    add_scores(scores, "", set);
    line["sets"][set.name] = std::move(scores);
  }
  if (!metrics.signature.empty()) line["signature"] = metrics.signature;
  if (!metrics.chrf_signature.empty()) line["chrf_signature"] = metrics.chrf_signature;
  write_line(line);
}

}  // namespace ventris
