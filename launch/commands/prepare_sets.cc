// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/prepare_sets.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>

#include "backend/device/error.h"

namespace ventris {

namespace {

// SRC TGT SRC TGT ...
std::vector<data::PairFiles> pairs_of_files(const std::string& option,
                                            const std::vector<std::string>& files) {
  if (files.size() % 2 != 0) {
    fail(ExitCode::kUsage, "--{} needs pairs of files, source then target, but {} were given", option,
         files.size());
  }
  std::vector<data::PairFiles> pairs;
  for (size_t i = 0; i < files.size(); i += 2) pairs.push_back({files[i], files[i + 1]});
  return pairs;
}

/// Calls `take` with each group of as many values as `form` has words.
void for_each_group(const std::string& option, const std::string& form,
                    const std::vector<std::string>& values,
                    const std::function<void(const std::string* group)>& take) {
  const auto size = static_cast<size_t>(1 + std::ranges::count(form, ' '));
  if (values.size() % size != 0) {
    fail(ExitCode::kUsage, "--{} takes {} values each time, {}, but {} were given: {}", option, size, form,
         values.size(), values.back());
  }
  for (size_t i = 0; i < values.size(); i += size) take(&values[i]);
}

}  // namespace

std::vector<data::TrainingCorpus> training_corpora(const SetOptions& options) {
  std::vector<data::TrainingCorpus> corpora;
  if (!options.train_sets.empty()) {
    corpora.push_back({.name = "train", .files = pairs_of_files("train-sets", options.train_sets)});
  }
  for_each_group("train-set", "NAME SRC TGT", options.train_set, [&](const std::string* group) {
    corpora.push_back({.name = group[0], .files = {{group[1], group[2]}}});
  });
  for_each_group("train-tsv", "NAME FILE", options.train_tsv, [&](const std::string* group) {
    corpora.push_back({.name = group[0], .files = {{group[1], ""}}});
  });
  const auto set = [&](const std::string& option, const std::string& form,
                       const std::vector<std::string>& values,
                       const std::function<void(data::TrainingCorpus&, const std::string& value)>& store) {
    std::set<std::string> given;
    for_each_group(option, form, values, [&](const std::string* group) {
      if (!given.insert(group[0]).second) {
        fail(ExitCode::kUsage, "--{} {} {}: {} has one already; give it once", option, group[0], group[1],
             group[0]);
      }
      const auto named = std::ranges::find(corpora, group[0], &data::TrainingCorpus::name);
      if (named == corpora.end()) {
        fail(ExitCode::kUsage,
             "--{} {} {}: there is no corpus of that name; give it with --train-set {} SRC TGT", option,
             group[0], group[1], group[0]);
      }
      store(*named, group[1]);
    });
  };
  set("source-tag", "NAME TAG", options.source_tag,
      [](data::TrainingCorpus& corpus, const std::string& tag) { corpus.source_tag = tag; });
  set("target-tag", "NAME TAG", options.target_tag,
      [](data::TrainingCorpus& corpus, const std::string& tag) { corpus.target_tag = tag; });
  set("weights", "NAME FILE", options.weights,
      [](data::TrainingCorpus& corpus, const std::string& path) { corpus.weights = path; });
  return corpora;
}

std::vector<data::PairFiles> validation_files(const SetOptions& options) {
  return pairs_of_files("valid-sets", options.valid_sets);
}

std::vector<data::NamedValidSet> named_valid_sets(const SetOptions& options) {
  std::vector<data::NamedValidSet> sets;
  for_each_group("valid-set", "NAME SRC TGT", options.valid_set, [&](const std::string* group) {
    sets.push_back({.name = group[0], .files = {group[1], group[2]}});
  });
  return sets;
}

}  // namespace ventris
