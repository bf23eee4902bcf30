// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/prepare_report.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <string_view>

#include "launch/output.h"
#include "trainer/observers/progress_text.h"

namespace ventris {

namespace {

double mean_weight(const data::PrepareCounts& counts) {
  return counts.kept == 0 ? 0.0 : counts.weights / static_cast<double>(counts.kept);
}

nlohmann::json to_json(const data::PrepareCounts& counts, bool cut) {
  nlohmann::json json = {{"weights_mean", mean_weight(counts)}};
  for (const auto& [name, count] : data::kPrepareCounts) {
    // The file's names of counts of tokens end with "words".
    const std::string_view words = "words";
    std::string key = cut && count == &data::PrepareCounts::too_long ? "cut_too_long" : name;
    if (key.ends_with(words)) key.replace(key.size() - words.size(), words.size(), "tokens");
    json[key] = counts.*count;
  }
  return json;
}

std::string describe_counts(const std::string& name, const data::PrepareCounts& counts, bool cut) {
  std::string text =
      fmt::format("{}: {} pairs read, {} kept ({} source tokens, {} target tokens, {} unknown)\n", name,
                  grouped(counts.read), grouped(counts.kept), grouped(counts.source_tokens),
                  grouped(counts.target_tokens), grouped(counts.unknown_tokens));
  const auto line = [&text](int64_t count, const char* what) {
    if (count > 0) text += fmt::format("  {} {}\n", grouped(count), what);
  };
  line(counts.empty, "dropped: a side is empty");
  line(counts.overlap, "dropped: a side is a line of the validation or a test set");
  line(counts.too_long, cut ? "cut: longer than --max-length" : "dropped: longer than --max-length");
  line(counts.bad_ratio, "dropped: the lengths differ by more than --max-length-ratio");
  line(counts.duplicate, "dropped: duplicates");
  line(counts.near_duplicate, "dropped: near duplicates");
  line(counts.repaired_crlf, "repaired: carriage return removed from the line end");
  line(counts.repaired_nul, "repaired: NUL bytes replaced by spaces");
  return text;
}

std::string describe_counts(const data::PreparedCorpus& prepared) {
  const data::TrainingCorpus& corpus = prepared.corpus;
  std::string text = describe_counts(corpus.name, prepared.counts, false);
  if (!corpus.source_tag.empty()) text += fmt::format("  tag of the source: {}\n", corpus.source_tag);
  if (!corpus.target_tag.empty()) text += fmt::format("  tag of the target: {}\n", corpus.target_tag);
  const double mean = mean_weight(prepared.counts);
  if (mean != 1.0) text += fmt::format("  weights: {:.4g} in the mean\n", mean);
  return text;
}

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// "tokenizing  1,200,000 pairs  48,000 pairs/s  3 min 20 s left": after `seconds` in this phase.
std::string text_of(const data::PrepareProgress& progress, double seconds) {
  std::string text = fmt::format("{}  {} pairs", progress.phase, grouped(progress.pairs));
  constexpr double kFewSeconds = 0.02;  // too few for a rate
  if (progress.all_bytes <= 0 || progress.bytes <= 0 || seconds < kFewSeconds) {
    return text + fmt::format("  for {}", duration_text(seconds));
  }
  text += fmt::format("  {} pairs/s", grouped(std::llround(static_cast<double>(progress.pairs) / seconds)));
  const double left = seconds * static_cast<double>(progress.all_bytes - progress.bytes) /
                      static_cast<double>(progress.bytes);
  return text + fmt::format("  {} left", duration_text(left));
}

}  // namespace

nlohmann::json prepare_json(const data::PrepareReport& report) {
  nlohmann::json corpora = nlohmann::json::array();
  for (const data::PreparedCorpus& prepared : report.corpora) {
    nlohmann::json entry = to_json(prepared.counts, false);
    entry["name"] = prepared.corpus.name;
    entry["source_tag"] = prepared.corpus.source_tag;
    entry["target_tag"] = prepared.corpus.target_tag;
    corpora.push_back(entry);
  }
  nlohmann::json result = {{"digest", report.digest},
                           {"vocab_size", report.vocab_size},
                           {"tokenizer_sentences", report.tokenizer_sentences},
                           {"corpora", corpora},
                           {"train", to_json(report.train, false)},
                           {"valid", to_json(report.valid, true)}};
  if (report.source_vocab_size > 0) {
    result["source_vocab_size"] = report.source_vocab_size;
    result["source_tokenizer_sentences"] = report.source_tokenizer_sentences;
  }
  return result;
}

std::string prepare_text(const data::PrepareReport& report) {
  std::string text;
  const auto add_training = [&text](const char* tokenizer, int64_t sentences) {
    if (sentences > 0) text += fmt::format("{}: trained on {} sentences\n", tokenizer, grouped(sentences));
  };
  if (report.source_vocab_size > 0) add_training("tokenizer of sources", report.source_tokenizer_sentences);
  add_training(report.source_vocab_size > 0 ? "tokenizer of targets" : "tokenizer",
               report.tokenizer_sentences);
  for (const data::PreparedCorpus& prepared : report.corpora) text += describe_counts(prepared);
  if (report.corpora.size() > 1) text += describe_counts("all", report.train, false);
  if (report.valid.read > 0) text += describe_counts("valid", report.valid, true);
  return text;
}

void PrepareProgressLine::show(const data::PrepareProgress& progress) {
  constexpr double kLiveSeconds = 0.5;
  const Clock::time_point now = Clock::now();
  const bool live = line_.is_possible();
  const bool begins = phase_ != progress.phase;
  if (begins) {
    phase_ = progress.phase;
    phase_begin_ = now;
  }
  const double period = live ? kLiveSeconds : log_seconds_;
  if (!is_rank_zero_ || period == 0.0) return;
  if (!(live && begins) && seconds_between(last_shown_, now) < period) return;
  last_shown_ = now;
  const std::string text = text_of(progress, seconds_between(phase_begin_, now));
  if (live) {
    line_.show(text);
  } else {
    tell(text);
  }
}

}  // namespace ventris
