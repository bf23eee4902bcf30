// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/progress_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainer/run_metrics.h"
#include "trainer/text.h"
#include "trainer/train_profile.h"

namespace ventris {
namespace {

// The training loss has smoothed labels, so its exponential is not a perplexity.
std::string loss_text(double loss, double perplexity, bool smooths) {
  return fmt::format("{}loss {:.4f}  perplexity {}", smooths ? "smoothed " : "", loss,
                     perplexity_text(perplexity));
}

std::string loss_text(const IntervalMetrics& metrics, bool smooths) {
  if (metrics.has_loss()) return loss_text(metrics.loss(), metrics.perplexity(), smooths);
  return metrics.skipped_steps > 0 ? "loss not finite" : "loss not yet read";
}

// "" without a device.
std::string device_use_text(const IntervalMetrics& metrics) {
  if (!metrics.device) return "";
  return fmt::format("  {} per GPU  {} used", flop_rate_text(metrics.device->flops_per_second),
                     bytes_text(metrics.device->memory_bytes));
}

}  // namespace

std::string duration_text(double seconds) {
  const int64_t total = std::llround(std::max(0.0, seconds));
  if (total >= 3600) return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} s", total);
}

std::string perplexity_text(double perplexity) {
  return perplexity < 1e7 ? fmt::format("{:.2f}", perplexity) : fmt::format("{:.2e}", perplexity);
}

std::string progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left,
                          bool smooths) {
  const std::string skipped =
      metrics.skipped_steps > 0 ? fmt::format("  {} skipped", metrics.skipped_steps) : "";
  return fmt::format("step {}/{}  epoch {:.2f}  {}  lr {:.3e}  {:.0f} target tokens/s{}{}  {} left",
                     metrics.step, max_steps, metrics.epoch, loss_text(metrics, smooths),
                     metrics.learning_rate, metrics.target_tokens_per_second(), device_use_text(metrics),
                     skipped, duration_text(seconds_left));
}

std::string short_progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left) {
  return fmt::format("step {}/{}  {}  {} left  {:.0f} tokens/s", metrics.step, max_steps,
                     loss_text(metrics, false), duration_text(seconds_left),
                     metrics.target_tokens_per_second());
}

std::string scores_text(const ValidationMetrics& metrics, bool smooths) {
  std::string text = loss_text(metrics.loss, metrics.perplexity(), smooths);
  if (metrics.has_bleu) text += fmt::format("  BLEU {:.2f}", metrics.bleu);
  if (metrics.bleu_interval)
    text += fmt::format(" ({:.2f} to {:.2f})", metrics.bleu_interval->low, metrics.bleu_interval->high);
  if (metrics.has_chrf) text += fmt::format("  chrF {:.2f}", metrics.chrf);
  return text;
}

}  // namespace ventris
