// SPDX-License-Identifier: Apache-2.0
#include "launch/foreign/marian_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "backend/error.h"

namespace ventris {
namespace {

using Pairs = std::vector<std::pair<const char*, const char*>>;

/// What --task stands for, as `marian --task NAME --dump-config expand` prints it (1.12.42).
const Pairs* options_of_task(const std::string& name) {
  static const Pairs common = {{"enc-depth", "6"},
                               {"dec-depth", "6"},
                               {"tied-embeddings-all", "true"},
                               {"transformer-ffn-activation", "relu"},
                               {"transformer-dropout", "0.1"},
                               {"cost-type", "ce-mean-words"},
                               {"max-length", "100"},
                               {"mini-batch-fit", "true"},
                               {"sync-sgd", "true"},
                               {"label-smoothing", "0.1"},
                               {"clip-norm", "0"},
                               {"exponential-smoothing", "0.0001"},
                               {"beam-size", "8"},
                               {"normalize", "1"},
                               {"type", "transformer"}};
  static const Pairs base = {{"dim-emb", "512"},
                             {"transformer-heads", "8"},
                             {"transformer-dim-ffn", "2048"},
                             {"optimizer-params", "0.9 0.98 1e-09"},
                             {"learn-rate", "0.0003"},
                             {"lr-decay-inv-sqrt", "16000"},
                             {"lr-warmup", "16000"}};
  static const Pairs big = {{"dim-emb", "1024"},
                            {"transformer-heads", "16"},
                            {"transformer-dim-ffn", "4096"},
                            {"optimizer-params", "0.9 0.998 1e-09"},
                            {"learn-rate", "0.0002"},
                            {"lr-decay-inv-sqrt", "8000"},
                            {"lr-warmup", "8000"}};
  static const Pairs post_norm = {{"transformer-preprocess", ""}, {"transformer-postprocess", "dan"}};
  static const Pairs pre_norm = {{"transformer-preprocess", "n"},
                                 {"transformer-postprocess", "da"},
                                 {"transformer-postprocess-top", "n"}};
  static const std::map<std::string, Pairs> tasks = [] {
    std::map<std::string, Pairs> all;
    const auto add = [&all](const char* task, const Pairs& size, const Pairs& norm) {
      Pairs& own = all[task] = common;
      own.insert(own.end(), size.begin(), size.end());
      own.insert(own.end(), norm.begin(), norm.end());
    };
    add("transformer-base", base, post_norm);
    add("transformer-big", big, post_norm);
    add("transformer-base-prenorm", base, pre_norm);
    add("transformer-big-prenorm", big, pre_norm);
    return all;
  }();
  const auto found = tasks.find(name);
  return found == tasks.end() ? nullptr : &found->second;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// "true", "yes" and "on" are one value; so are "0.1" and "1e-1".
std::string normalized(const std::string& text) {
  if (text == "true" || text == "yes" || text == "on") return "true";
  if (text == "false" || text == "no" || text == "off") return "false";
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? fmt::format("{}", value) : text;
}

}  // namespace

MarianSettings::MarianSettings(MarianUse use, const std::vector<ForeignSetting>& given, std::string origin)
    : use_(use), origin_(std::move(origin)) {
  take_task(given);
  for (const ForeignSetting& setting : given) {
    given_[setting.key] = setting;
    if (setting.key != "version" && !find_marian_option(use, setting.key)) {
      fail(ExitCode::kBadConfiguration,
           "{}: Marian 1.12 has no option of this name. Expected is a YAML file of {}", place_of(setting.key),
           use == MarianUse::kTraining ? "marian" : "marian-decoder");
    }
  }
}

void MarianSettings::take_task(const std::vector<ForeignSetting>& given) {
  for (const ForeignSetting& setting : given) {
    if (setting.key != "task") continue;
    given_["task"] = setting;
    for (const std::string& name : setting.values) {
      const Pairs* const pairs = options_of_task(name);
      if (pairs == nullptr)
        refuse("task", "transformer-base or transformer-big, with -prenorm or without; others have no rule");
      for (const auto& [key, value] : *pairs) given_[key] = {key, words_of(value), setting.line};
    }
  }
}

bool MarianSettings::is_changed(const std::string& key) const {
  const auto found = given_.find(key);
  if (found == given_.end()) return false;
  std::vector<std::string> standard = words_of(find_marian_option(use_, key)->standard);
  std::vector<std::string> values = list(key);
  for (std::string& text : standard) text = normalized(text);
  for (std::string& text : values) text = normalized(text);
  return values != standard;
}

std::vector<std::string> MarianSettings::list(const std::string& key) const {
  const auto found = given_.find(key);
  if (found == given_.end()) return words_of(find_marian_option(use_, key)->standard);
  std::vector<std::string> values;
  for (const std::string& value : found->second.values) {
    if (!value.empty()) values.push_back(value);
  }
  return values;
}

std::string MarianSettings::text(const std::string& key) const {
  return fmt::format("{}", fmt::join(list(key), " "));
}

bool MarianSettings::flag(const std::string& key) const {
  const std::string value = normalized(text(key));
  if (value == "true") return true;
  if (value == "false" || value.empty()) return false;
  refuse(key, "true or false");
}

double MarianSettings::number_in(const std::string& key, const std::string& text) const {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    refuse(key, "a number");
  return value;
}

double MarianSettings::number(const std::string& key) const {
  return number_in(key, text(key));
}

int64_t MarianSettings::integer(const std::string& key) const {
  const double value = number(key);
  constexpr double kMax = 1e15;  // exact in a double
  if (std::floor(value) != value || std::abs(value) > kMax) refuse(key, "a whole number");
  return static_cast<int64_t>(value);
}

std::vector<double> MarianSettings::numbers(const std::string& key) const {
  std::vector<double> values;
  for (const std::string& item : list(key)) values.push_back(number_in(key, item));
  return values;
}

MarianPeriod MarianSettings::period_in(const std::string& key, std::string_view text) const {
  MarianPeriod period{.value = 0.0, .unit = 'u'};
  if (!text.empty() && std::string_view("ute").find(text.back()) != std::string_view::npos) {
    period.unit = text.back();
    text.remove_suffix(1);
  }
  double factor = 1.0;
  if (!text.empty()) {
    constexpr std::string_view kPrefixes = "kKMGT";
    constexpr double kFactors[] = {1e3, 1e3, 1e6, 1e9, 1e12};
    const size_t which = kPrefixes.find(text.back());
    if (which != std::string_view::npos) {
      factor = kFactors[which];
      text.remove_suffix(1);
    }
  }
  period.value = std::round(factor * number_in(key, std::string(text)));
  if (period.value < 0.0 || period.value > 1e15) refuse(key, "a number from 0, such as 10000u, 2Gt or 30e");
  return period;
}

MarianPeriod MarianSettings::period(const std::string& key) const {
  return period_in(key, text(key));
}

std::vector<MarianPeriod> MarianSettings::periods(const std::string& key) const {
  std::vector<MarianPeriod> all;
  for (const std::string& item : list(key)) all.push_back(period_in(key, item));
  return all;
}

void MarianSettings::set(const std::string& ours, const std::string& value) {
  conversion_.options.emplace_back(ours, value);
}

void MarianSettings::set(const std::string& ours, double value) {
  set(ours, fmt::format("{}", value));
}

void MarianSettings::set(const std::string& ours, int64_t value) {
  set(ours, fmt::format("{}", value));
}

std::string MarianSettings::place_of(const std::string& key) const {
  const auto found = given_.find(key);
  if (found == given_.end()) return fmt::format("{}: by default {}", origin_, key);
  return fmt::format("{}:{}: {}", origin_, found->second.line, key);
}

void MarianSettings::remark(ConversionRemark::Kind kind, const std::string& key, const std::string& why,
                            const std::string& settled_by) {
  conversion_.remarks.push_back({kind, fmt::format("{} {}", place_of(key), text(key)), why, settled_by});
}

void MarianSettings::missing(const std::string& key, const std::string& why, const std::string& settled_by) {
  remark(ConversionRemark::Kind::kMissing, key, why, settled_by);
}

void MarianSettings::differs(const std::string& key, const std::string& how) {
  remark(ConversionRemark::Kind::kDiffers, key, how, "");
}

void MarianSettings::refuse(const std::string& key, const std::string& expected) const {
  constexpr size_t kMaxShown = 60;
  fail(ExitCode::kBadConfiguration, "{}: '{}'; expected {}", place_of(key), text(key).substr(0, kMaxShown),
       expected);
}

void MarianSettings::remark_on_others(MarianUse use) {
  for (const auto& [key, setting] : given_) {
    const auto option = find_marian_option(use, key);
    if (!option || option->reason.empty() || !is_changed(key)) continue;
    const bool is_missing = option->fate == MarianFate::kMissing;
    remark(is_missing ? ConversionRemark::Kind::kMissing : ConversionRemark::Kind::kNeedless, key,
           std::string(option->reason), key == "pretrained-model" ? "init" : "");
  }
}

}  // namespace ventris
