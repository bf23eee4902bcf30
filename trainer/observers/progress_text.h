// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris {

struct IntervalMetrics;
struct ValidationMetrics;

/// Texts about a training for a person.

/// "1 h 05 min", "3 min 20 s", "12 s".
std::string duration_text(double seconds);
/// "12.34"; that of a diverging model has hundreds of digits: "1.00e+09".
std::string perplexity_text(double perplexity);
/// One line of numbers. The loss is labelled smoothed if `smooths`; perplexity is not smoothed.
std::string progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left,
                          bool smooths);
/// The most important of them first, for a narrow terminal, which truncates the line.
std::string short_progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left);
/// The scores of a validation.
std::string scores_text(const ValidationMetrics& metrics, bool smooths);

}  // namespace ventris
