// SPDX-License-Identifier: Apache-2.0
#include "data/mix_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "data/corpus.h"
#include "data/error.h"
#include "data/text/text_reader.h"

namespace ventris::data {

namespace {

constexpr int64_t kMaxCount = 1000000000;  // times the pairs of a corpus it still fits in 64 bits
// With these a checkpoint's record of a run with a plan stays below 64 KiB, the limit of an HDF5 attribute.
constexpr size_t kMaxStages = 256;
constexpr size_t kMaxCorpora = 1000;
constexpr std::string_view kUntil = "until";
constexpr std::string_view kSteps = "steps";
constexpr std::string_view kStalled = "stalled";
constexpr const char* kForm =
    "a stage is a line like 'NAME: clean .7 bt .3 until bt 2', which ends with 'until N steps', "
    "'until CORPUS EPOCHS' or 'until stalled VALIDATIONS', or lasts to the end of training";

/// A line of a plan, for messages.
struct Place {
  const std::string& origin;
  int64_t line;

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kBadConfiguration, "{}, line {}: {}; {}", origin, line,
         fmt::format(format, std::forward<Args>(args)...), kForm);
  }
};

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word && word.front() != '#';) words.push_back(word);
  return words;
}

template <typename T>
std::optional<T> number_in(const std::string& word) {
  T number{};
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || rest != end) return {};
  return number;
}

int64_t count_in(const std::string& word, std::string_view what, const Place& place) {
  const std::optional<int64_t> count = number_in<int64_t>(word);
  if (!count || *count < 1 || *count > kMaxCount)
    place.refuse("'{}' is no number of {} from 1 to {}", word, what, kMaxCount);
  return *count;
}

StageEnd end_in(const std::vector<std::string>& words, const Place& place) {
  if (words.size() != 2) place.refuse("'until' is followed by {} words, not 2", words.size());
  if (words[0] == kStalled) return {StageEnd::Kind::kStalled, count_in(words[1], "validations", place)};
  if (words[1] == kSteps) return {StageEnd::Kind::kSteps, count_in(words[0], kSteps, place)};
  if (words[1] == "inf") return {};
  return {StageEnd::Kind::kEpochs, count_in(words[1], "epochs", place), words[0]};
}

MixStage stage_in(std::vector<std::string> words, size_t number, const Place& place) {
  MixStage stage{.name = std::to_string(number), .shares = {}, .end = {}};
  if (words.front().ends_with(':')) {
    stage.name = words.front().substr(0, words.front().size() - 1);
    if (stage.name.empty()) place.refuse("the stage has an empty name");
    words.erase(words.begin());
  }
  const auto until = std::find(words.begin(), words.end(), kUntil);
  if (until != words.end()) stage.end = end_in({until + 1, words.end()}, place);
  for (auto word = words.begin(); word != until; word += 2) {
    if (word + 1 == until) place.refuse("'{}' has no share", *word);
    const std::optional<double> share = number_in<double>(*(word + 1));
    if (!share || !std::isfinite(*share) || *share < 0.0)
      place.refuse("'{}' is no share of {}: expected a number, 0 or more", *(word + 1), *word);
    stage.shares.push_back({*word, *share});
  }
  return stage;
}

bool draws(const MixStage& stage, const std::string& corpus) {
  return std::any_of(stage.shares.begin(), stage.shares.end(),
                     [&](const MixShare& share) { return share.corpus == corpus && share.share > 0.0; });
}

template <typename... Args>
[[noreturn]] void refuse_stage(const std::string& origin, const MixStage& stage,
                               fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kBadConfiguration, "{}: stage {}: {}", origin, stage.name,
       fmt::format(format, std::forward<Args>(args)...));
}

void check_stage(const MixStage& stage, const std::string& origin) {
  std::set<std::string> corpora;
  double sum = 0.0;
  for (const auto& [corpus, share] : stage.shares) {
    if (!corpora.insert(corpus).second) refuse_stage(origin, stage, "names the corpus {} twice", corpus);
    sum += share;
  }
  if (!(sum > 0.0) || !std::isfinite(sum))
    refuse_stage(origin, stage, "its shares sum to {}; at least one corpus needs a positive share", sum);
  if (stage.end.kind == StageEnd::Kind::kEpochs && !draws(stage, stage.end.corpus)) {
    refuse_stage(origin, stage, "would end after epochs of {}, of which it draws no pairs; give it a share",
                 stage.end.corpus);
  }
}

}  // namespace

MixPlan parse_mix_plan(std::string_view text, const std::string& origin) {
  MixPlan plan;
  std::istringstream in{std::string(without_byte_order_mark(text))};  // which some editors write
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const Place place{origin, ++number};
    if (line.size() > kMaxMixBytes) place.refuse("it has {} bytes, of at most {}", line.size(), kMaxMixBytes);
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    if (plan.stages.size() > kMaxStages) break;  // check_mix_plan() refuses that
    plan.stages.push_back(stage_in(words, plan.stages.size() + 1, place));
  }
  if (plan.empty()) fail(ErrorKind::kBadConfiguration, "{}: has no stage; {}", origin, kForm);
  check_mix_plan(plan, origin);
  return plan;
}

std::string to_text(const StageEnd& end) {
  switch (end.kind) {
    case StageEnd::Kind::kNever:
      return "";
    case StageEnd::Kind::kSteps:
      return fmt::format("{} {} {}", kUntil, end.count, kSteps);
    case StageEnd::Kind::kEpochs:
      return fmt::format("{} {} {}", kUntil, end.corpus, end.count);
    case StageEnd::Kind::kStalled:
      return fmt::format("{} {} {}", kUntil, kStalled, end.count);
  }
  return "";
}

std::string to_text(const MixPlan& plan) {
  std::string text;
  for (const MixStage& stage : plan.stages) {
    text += stage.name + ":";
    for (const auto& [corpus, share] : stage.shares) text += fmt::format(" {} {}", corpus, share);
    if (stage.end.kind != StageEnd::Kind::kNever) text += " " + to_text(stage.end);
    text += '\n';
  }
  return text;
}

void check_mix_plan(const MixPlan& plan, const std::string& origin) {
  const size_t bytes = to_text(plan).size();
  if (plan.stages.size() > kMaxStages || bytes > kMaxMixBytes) {
    fail(ErrorKind::kBadConfiguration,
         "{}: has {} stages in {} bytes; a plan has at most {} stages and {} bytes without comments", origin,
         plan.stages.size(), bytes, kMaxStages, kMaxMixBytes);
  }
  std::set<std::string> names;
  for (const MixStage& stage : plan.stages) {
    if (!names.insert(stage.name).second)
      refuse_stage(origin, stage, "two stages have this name; give each its own");
    check_stage(stage, origin);
    if (stage.end.kind == StageEnd::Kind::kNever && &stage != &plan.stages.back()) {
      refuse_stage(origin, stage,
                   "has no end, so the stages after it would never begin; only the last may have none");
    }
  }
}

void check_corpora(const MixPlan& plan, const std::vector<CorpusPart>& parts, const std::string& path) {
  if (!plan.empty() && parts.size() > kMaxCorpora) {
    fail(ErrorKind::kBadConfiguration,
         "--mix: {} has {} corpora; at most {} can be mixed, so prepare similar ones as one", path,
         parts.size(), kMaxCorpora);
  }
  for (const MixStage& stage : plan.stages) {
    for (const auto& [corpus, share] : stage.shares) {
      const auto part = std::find_if(parts.begin(), parts.end(),
                                     [&name = corpus](const CorpusPart& any) { return any.name == name; });
      if (part == parts.end()) {
        std::vector<std::string> names;
        for (const CorpusPart& any : parts) names.push_back(any.name);
        fail(ErrorKind::kBadConfiguration,
             "--mix: stage {} draws from the corpus {}, which {} does not have; its corpora are {}",
             stage.name, corpus, path, fmt::join(names, ", "));
      }
      if (share > 0.0 && part->pairs == 0) {
        fail(ErrorKind::kBadConfiguration,
             "--mix: stage {} draws from the corpus {} of {}, which has no pairs; give it the share 0",
             stage.name, corpus, path);
      }
    }
  }
}

}  // namespace ventris::data
