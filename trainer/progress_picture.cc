// SPDX-License-Identifier: Apache-2.0
#include "trainer/progress_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "trainer/progress_text.h"
#include "trainer/text.h"

namespace ventris {
namespace {

// Cells of the numbers beside the curve, and of the curve: from a width of both on it is beside them.
constexpr size_t kNumbersColumns = 42;
constexpr size_t kLeastCurveColumns = 16;
constexpr size_t kCurveLabelColumns = 7;  // of a value and a blank
constexpr size_t kMostMiddleRows = 8;
constexpr size_t kLowCurveRows = 3;
constexpr size_t kLeastBarColumns = 8;

using Rows = std::vector<std::string>;

std::string coloured(const std::string& text, const PictureStyle& style) {
  return style.colours && !text.empty() ? "\033[36m" + text + "\033[0m" : text;  // cyan
}

/// The first of the texts that fits, or the last.
std::string fitting(size_t columns, const Rows& texts) {
  const auto found = std::ranges::find_if(texts, [&](const auto& text) { return cells_of(text) <= columns; });
  return found == texts.end() ? texts.back() : *found;
}

/// Text with blanks behind it up to so many cells.
std::string padded(const std::string& text, size_t columns) {
  const std::string cut = cut_to_cells(text, columns);
  return cut + std::string(columns - cells_of(cut), ' ');
}

std::string bar(double fraction, size_t columns, const PictureStyle& style) {
  const double part = std::clamp(fraction, 0.0, 1.0);
  if (style.charset == Charset::kAscii) {
    const auto full = static_cast<size_t>(part * static_cast<double>(columns - 2));
    return "[" + std::string(full, '#') + std::string(columns - 2 - full, '.') + "]";
  }
  // Braille, as the curve: unlike blocks it has one width everywhere, also where East Asian fonts make the
  // characters wide whose width Unicode leaves open.
  const auto halves = static_cast<size_t>(part * static_cast<double>(2 * columns));
  std::string text;
  for (size_t i = 0; i < columns; ++i) text += 2 * i + 2 <= halves ? "⣿" : 2 * i + 1 == halves ? "⣇" : "⣀";
  return text;
}

/// At most six characters.
std::string value_text(double value) {
  if (value < 100.0) return fmt::format("{:.3f}", value);
  return value < 1e5 ? fmt::format("{:.0f}", value) : fmt::format("{:.0e}", value);
}

class Picture {
 public:
  Picture(const PicturedRun& run, size_t columns, const PictureStyle& style)
      : run_(run), columns_(columns), style_(style) {}

  Rows draw(size_t rows) const {
    Rows picture = {first_row()};
    if (rows == 1) return picture;
    const size_t below = rows < 3 ? 0 : rows < 7 ? 1 : 2;
    const size_t middle = std::min(rows - 1 - below, kMostMiddleRows);
    const bool beside = columns_ >= kNumbersColumns + kLeastCurveColumns;
    // A narrow terminal has a low curve below the numbers, if there is room.
    const bool is_below = !beside && columns_ >= kLeastCurveColumns && middle == kMostMiddleRows;
    const size_t numbers = is_below ? middle - kLowCurveRows : middle;
    Rows left = numbers_in(numbers);
    left.resize(numbers);
    if (beside) {
      const Rows right = curve(columns_ - kNumbersColumns, middle);
      for (size_t i = 0; i < numbers; ++i) left[i] = padded(left[i], kNumbersColumns) + right[i];
    }
    picture.insert(picture.end(), left.begin(), left.end());
    if (is_below) std::ranges::copy(curve(columns_, kLowCurveRows), std::back_inserter(picture));
    if (below > 0) picture.push_back(time_row());
    if (below > 1) picture.push_back(memory_row());
    return picture;
  }

  /// One row for all, the most important first.
  std::string only_row() const {
    const std::string loss = run_.loss ? fmt::format("loss {:.4f}", *run_.loss) : "no loss yet";
    const std::string text = fmt::format("{}/{}  {}{}", run_.step, run_.max_steps, loss, left_text("  "));
    return fitting(columns_, {"step " + text, text});
  }

 private:
  std::string first_row() const {
    const std::string step = fmt::format("step {}/{}", run_.step, run_.max_steps);
    const std::string doing = run_.activity.empty() ? "" : ", " + in_charset(run_.activity, style_.charset);
    const std::string epoch = fmt::format("  epoch {:.2f}", run_.epoch);
    const std::string stage = run_.stage.empty() ? "" : "  stage " + in_charset(run_.stage, style_.charset);
    const std::string percent = fmt::format("{:.1f} %", 100.0 * std::clamp(run_.fraction, 0.0, 1.0));
    const std::string text =
        fitting(columns_, {step + doing + epoch + stage, step + doing + epoch, step + doing, step,
                           fmt::format("{}/{}", run_.step, run_.max_steps)});
    const size_t used = cells_of(text) + percent.size() + 4;  // with blanks between them
    if (used + kLeastBarColumns > columns_) return text;
    return text + "  " + coloured(bar(run_.fraction, columns_ - used, style_), style_) + "  " + percent;
  }

  /// At most `rows` of numbers, the most important ones, in the order of the full picture.
  Rows numbers_in(size_t rows) const {
    Rows numbers = {loss_row()};
    if (rows >= 4) numbers.push_back(speed_row());
    if (rows >= 5) numbers.insert(numbers.begin() + 1, rate_row());
    if (!run_.validates || rows < 2) return numbers;
    if (rows >= 6) {  // a table with as many validations as there is room for
      numbers.push_back(
          fmt::format("{:>10}{:>10}{:>12}{:>8}", "validation", "loss", "perplexity", score_title()));
      for (size_t i = 0; i < kPicturedValidations && numbers.size() + 1 < rows; ++i)
        numbers.push_back(i < run_.validations.size() ? table_row(run_.validations[i]) : "");
    } else if (rows >= 3) {
      numbers.push_back(run_.validations.empty() ? "no validation yet" : long_row(run_.validations.front()));
    }
    numbers.push_back(best_row());
    return numbers;
  }

  std::string loss_row() const {
    if (!run_.loss) return run_.skipped_steps > 0 ? "loss not finite" : "no loss yet";
    const std::string loss = fmt::format("loss {:.4f}", *run_.loss);
    const std::string perplexity = "  perplexity " + perplexity_text(run_.perplexity.value_or(0.0));
    return fitting(number_columns(),
                   {(run_.smooths ? "smoothed " : "") + loss + perplexity, loss + perplexity, loss});
  }
  std::string rate_row() const {
    if (run_.learning_rate <= 0.0) return "";
    const std::string rate = fmt::format("lr {:.3e}", run_.learning_rate);
    return fitting(number_columns(),
                   {rate + fmt::format("  gradient norm {:.4g}", run_.gradient_norm), rate});
  }
  std::string speed_row() const {
    if (run_.target_tokens_per_second <= 0.0) return counted(run_.ranks, "rank");
    const std::string speed = fmt::format("{:.0f} target tokens/s", run_.target_tokens_per_second);
    const std::string ranks = "  " + counted(run_.ranks, "rank");
    const std::string skipped = run_.skipped_steps > 0 ? fmt::format("  {} skipped", run_.skipped_steps) : "";
    return fitting(number_columns(), {speed + ranks + skipped, speed + skipped, speed,
                                      fmt::format("{:.0f} tokens/s", run_.target_tokens_per_second)});
  }
  size_t number_columns() const { return std::min(columns_, kNumbersColumns - 1); }

  bool has_score() const { return run_.metric == "bleu" || run_.metric == "chrf"; }
  std::string score_title() const { return has_score() ? metric_text(run_.metric) : ""; }

  std::string table_row(const PicturedValidation& validation) const {
    const auto number = [](const std::optional<double>& value, const char* format) {
      return value ? fmt::format(fmt::runtime(format), *value) : std::string("-");
    };
    return fmt::format("{:>10}{:>10}{:>12}{:>8}", validation.step, number(validation.loss, "{:.4f}"),
                       validation.perplexity ? perplexity_text(*validation.perplexity) : "-",
                       has_score() ? number(validation.score, "{:.2f}") : "");
  }
  std::string long_row(const PicturedValidation& validation) const {
    const std::string step = fmt::format("{}:", validation.step);
    const std::string loss = validation.loss ? fmt::format(" loss {:.4f}", *validation.loss) : "";
    const std::string score =
        validation.score ? fmt::format(" {} {:.2f}", score_title(), *validation.score) : "";
    return fitting(number_columns(), {"validated at " + step + loss + score, step + loss + score,
                                      step + (score.empty() ? loss : score)});
  }
  std::string best_row() const {
    if (run_.best_step == 0) return "no best yet";
    const std::string value =
        has_score() ? fmt::format("{:.2f}", run_.best) : fmt::format("{:.4f}", run_.best);
    return fitting(number_columns(),
                   {fmt::format("best {} {} at step {}", metric_text(run_.metric), value, run_.best_step),
                    fmt::format("best {} at {}", value, run_.best_step)});
  }

  /// "" before it is known.
  std::string left_text(const char* blanks) const {
    return run_.seconds_left ? fmt::format("{}{} left", blanks, duration_text(*run_.seconds_left)) : "";
  }

  std::string time_row() const {
    const std::string left = left_text("");
    const std::string elapsed =
        fmt::format("{}{} elapsed", left.empty() ? "" : "  ", duration_text(run_.elapsed_seconds));
    std::string saved = "  no checkpoint yet";
    if (run_.saved_step) saved = fmt::format("  checkpoint of step {}", *run_.saved_step);
    const std::string ago =
        run_.saved_by_this_start ? fmt::format(" {} ago", duration_text(run_.saved_seconds)) : "";
    return fitting(columns_, {left + elapsed + saved + ago, left + elapsed + saved, left + elapsed, left});
  }

  std::string memory_row() const {
    const std::string own = "memory " + bytes_text(run_.memory.resident);
    const std::string rank = run_.ranks > 1 ? " of rank 0" : "";
    std::string host;
    if (run_.memory.total > 0)
      host = fmt::format(", host {} of {}", bytes_text(run_.memory.used), bytes_text(run_.memory.total));
    std::string device;
    if (run_.device_total > 0)
      device = fmt::format(", device {} of {}", bytes_text(run_.device_used), bytes_text(run_.device_total));
    const std::string name = "  " + in_charset(run_.name, style_.charset);
    return fitting(columns_, {own + rank + host + device + name, own + rank + host + device,
                              own + rank + device, own + rank, own});
  }

  /// The curve of the loss with the values of its edges before it and their steps below; without if it is too
  /// low.
  Rows curve(size_t columns, size_t rows) const {
    const std::vector<CurvePoint>& points = run_.curve.points();
    if (points.size() < 2) return Rows(rows);
    const size_t width = columns - kCurveLabelColumns;
    const size_t height = rows > 2 ? rows - 1 : rows;
    const DrawnCurve drawn = draw_curve(points, width, height, style_.charset);
    Rows text;
    for (size_t i = 0; i < height; ++i) {
      const std::string label = i == 0            ? value_text(drawn.high)
                                : i + 1 == height ? value_text(drawn.low)
                                                  : "";
      std::string line = drawn.rows[i];
      line.erase(line.find_last_not_of(' ') + 1);
      text.push_back(fmt::format("{:>{}} ", label, kCurveLabelColumns - 1) + coloured(line, style_));
    }
    if (height == rows) return text;
    const std::string first = fmt::format("{}", points.front().step);
    const std::string last = fmt::format("{}", points.back().step);
    const bool fit = first.size() + last.size() < width;
    text.push_back(fmt::format("{:>{}} ", "loss", kCurveLabelColumns - 1) +
                   (fit ? first + fmt::format("{:>{}}", last, width - first.size()) : last));
    return text;
  }

  const PicturedRun& run_;
  const size_t columns_;
  const PictureStyle style_;
};

}  // namespace

std::vector<std::string> progress_picture(const PicturedRun& run, const TerminalSize& size,
                                          const PictureStyle& style) {
  const size_t columns = std::clamp<size_t>(size.columns == 0 ? 80 : size.columns, 2, kWidestPicture + 1) - 1;
  const size_t rows = size.rows == 0 ? 24 : size.rows;
  const Picture picture(run, columns, style);
  const bool low = rows < kLowestPicture;
  Rows text =
      low ? Rows{picture.only_row()} : picture.draw(std::min<size_t>(rows / 2 - 1, kMostMiddleRows + 3));
  for (std::string& row : text) {
    row = cut_to_cells(row, columns);
    row.erase(row.find_last_not_of(' ') + 1);
  }
  return text;
}

}  // namespace ventris
