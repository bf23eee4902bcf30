// SPDX-License-Identifier: Apache-2.0
#include "launch/options/spelling.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "backend/device/error.h"
#include "launch/options/foreign_names.h"
#include "launch/options/help.h"

namespace ventris {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> table((a.size() + 1) * width);
  const auto at = [&table, width](size_t i, size_t j) -> size_t& { return table[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

bool is_number(const std::string& word) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error != std::errc::invalid_argument && end == word.data() + word.size();
}

bool is_short_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && !is_number(word);
}

const Option* find_alias(const Command& command, const std::string& word) {
  for (const Option& option : command.options.options()) {
    if (std::find(option.aliases.begin(), option.aliases.end(), word) != option.aliases.end()) return &option;
  }
  return nullptr;
}

}  // namespace

bool waits_for_value(const Command& command, const std::string& word) {
  if (word == "--config") return true;
  const Option* option = command.options.find(word.substr(2));
  return option != nullptr && !option->operand && option->arity == Arity::kOne;
}

std::vector<std::string> spelled_in_full(const Command& command, const std::vector<std::string>& words) {
  std::vector<std::string> result;
  bool is_value = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--") {
      result.insert(result.end(), word, words.end());
      break;
    }
    if (word->starts_with("--")) {
      const size_t end = std::min(word->find('='), word->size());
      const Option* option = find_alias(command, word->substr(0, end));
      result.push_back(option == nullptr ? *word : "--" + option->name + word->substr(end));
      is_value = waits_for_value(command, result.back());
      continue;
    }
    if (is_value || !is_short_option(*word)) {
      result.push_back(*word);
      is_value = false;
      continue;
    }
    const Option* option = find_alias(command, *word);
    if (option == nullptr) {
      const bool takes_files = std::any_of(command.options.options().begin(), command.options.options().end(),
                                           [](const Option& o) { return o.operand; });
      fail(ExitCode::kUsage, "unknown option {}; {}{}", *word, suggestion(command, *word),
           takes_files ? fmt::format("; a file of that name is ./{}", *word) : std::string());
    }
    result.push_back("--" + option->name);
    is_value = waits_for_value(command, result.back());
  }
  return result;
}

std::string name_of_alias(const Command& command, const std::string& name) {
  const Option* option = find_alias(command, "--" + name);
  return option == nullptr ? name : option->name;
}

std::string suggestion(const Command& command, const std::string& name, bool in_file) {
  const std::string advice = advice_for_foreign_name(command, name, in_file);
  if (!advice.empty()) return advice;
  std::vector<std::string> names;
  if (!in_file) names = {"config", "help"};
  for (const Option& option : command.options.options()) {
    if (!option.operand) names.push_back(option.name);
  }
  // A single dash before a long name is a typing error; a single letter is not similar to any name.
  const std::string bare = name.starts_with("-") ? name.substr(1) : name;
  const std::string near = bare.size() > 1 ? nearest(bare, names) : "";
  if (near.empty()) return fmt::format("'{}' lists the options", help_in_full_line(command));
  return in_file ? fmt::format("did you mean '{}'?", near) : fmt::format("did you mean --{}?", near);
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // A prefix of a name is similar to it, however long the rest is.
    const bool prefix = word.size() >= 3 && candidate.rfind(word, 0) == 0;
    // Words of very different lengths are not similar; this also bounds the table for a word of any length.
    const size_t longer = std::max(word.size(), candidate.size());
    if (!prefix && longer - std::min(word.size(), candidate.size()) >= best_distance) continue;
    const size_t distance = prefix ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ventris
