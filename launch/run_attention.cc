// SPDX-License-Identifier: Apache-2.0
#include "launch/run_attention.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backend/error.h"
#include "data/error.h"
#include "data/files/file_io.h"
#include "launch/attention_page.h"
#include "launch/job.h"
#include "launch/sentence_attention.h"
#include "launch/valid_samples.h"
#include "trainer/files/run_folder.h"
#include "trainer/inference/model_set.h"
#include "trainer/text.h"

namespace ventris {
namespace {

/// The result of `function`, or what its error says in `problem`.
template <typename Function>
bool without_problem(std::string& problem, const Function& function) {
  try {
    function();
    return true;
  } catch (const Error& error) {
    problem = error.what();
  } catch (const data::DataError& error) {
    problem = error.what();
  }
  return false;
}

/// Which checkpoints of a run are shown.
struct Chosen {
  std::string problem = {};
  std::vector<std::string> paths = {};  // by step
  size_t model = 0;
  bool model_is_best = false;
  size_t kept = 0;
};

/// At most `most` of 0 to size - 1, rising and evenly spread, with `model` in place of the nearest; with the
/// first and the last if there is room.
std::vector<int64_t> numbers_around(int64_t model, int64_t size, int64_t most) {
  std::vector<int64_t> numbers = evenly_spread(size, most, /*with_ends=*/true);
  if (std::ranges::find(numbers, model) != numbers.end()) return numbers;
  const std::ptrdiff_t ends = numbers.size() >= 3 ? 1 : 0;
  *std::ranges::min_element(numbers.begin() + ends, numbers.end() - ends, {},
                            [&](int64_t number) { return std::abs(number - model); }) = model;
  return numbers;
}

Chosen choose(const std::string& folder, int most) {
  Chosen chosen;
  std::vector<std::string> all;
  const bool is_listed = without_problem(chosen.problem, [&] { all = list_checkpoints(folder); });
  if (is_listed && all.empty()) chosen.problem = folder + ": has no checkpoint yet";
  if (all.empty()) return chosen;
  std::string best;
  without_problem(chosen.problem, [&] { best = read_best(folder); });
  const auto found = std::ranges::find(all, best);
  chosen.kept = all.size();
  chosen.model_is_best = found != all.end();
  const auto model = chosen.model_is_best ? found - all.begin() : std::ssize(all) - 1;
  for (const int64_t number : numbers_around(model, std::ssize(all), most)) {
    if (number == model) chosen.model = chosen.paths.size();
    chosen.paths.push_back(all[static_cast<size_t>(number)]);
  }
  return chosen;
}

/// The groups of `attention`, or null if they do not fit in `room`, which is reduced otherwise.
nlohmann::ordered_json groups_that_fit(const SentenceAttention& attention, size_t& room, bool& leaves_out) {
  const size_t bytes = bytes_of_maps(attention);
  if (bytes > room) {
    leaves_out = true;
    return nullptr;
  }
  room -= bytes;
  return attention_groups(attention);
}

}  // namespace

std::vector<std::string> RunAttention::warnings(const std::string& folder) const {
  std::vector<std::string> found;
  const auto add = [&](const std::string& text) {
    if (!text.empty() && std::ranges::find(found, text) == found.end()) found.push_back(text);
  };
  add(problem);
  bool leaves_out = false;
  for (const CheckpointAttention& checkpoint : checkpoints) {
    add(checkpoint.problem);
    for (const SentenceOfCheckpoint& sentence : checkpoint.sentences) {
      for (const std::string& text : {sentence.problem, sentence.given_problem})
        if (!text.empty()) add(folder + ": " + text);
    }
    leaves_out = leaves_out || checkpoint.leaves_out_maps;
  }
  if (leaves_out) {
    add(
        fmt::format("{}: the page has no room for the maps of all checkpoints, at most {} MiB; a smaller "
                    "--checkpoints, or fewer sentences, leave more room",
                    folder, kMaxReportMapBytes >> 20));
  }
  return found;
}

RunAttentionReader::RunAttentionReader(const Job& job, AttentionRequest request)
    : job_(job), request_(std::move(request)) {
  const size_t references = request_.references.size();
  if (references != 0 && references != request_.sentences.size()) {
    fail(ExitCode::kUsage,
         "--reference is given {} and --sentence {}: give none, or one for each sentence in their order",
         counted(std::ssize(request_.references), "time"), counted(std::ssize(request_.sentences), "time"));
  }
  for (std::string& sentence : request_.sentences) sentence = one_line(sentence, "--sentence");
  for (std::string& reference : request_.references) reference = one_line(reference, "--reference");
  if (is_asked()) context_ = make_decoding_context(job, request_.decoding);
}

std::vector<RunAttention> RunAttentionReader::read(const std::vector<std::string>& folders) {
  std::vector<RunAttention> runs;
  struct Place {
    size_t rank;  // models first, then the newest of each run
    size_t run;
    size_t checkpoint;
  };
  std::vector<Place> order;
  std::vector<Chosen> chosen;
  for (const std::string& folder : folders) {
    const Chosen& of = chosen.emplace_back(choose(folder, request_.checkpoints));
    for (size_t i = 0; i < of.paths.size(); ++i)
      order.push_back({i == of.model ? 0 : of.paths.size() - i, chosen.size() - 1, i});
    runs.push_back({.problem = of.problem, .model_is_best = of.model_is_best, .kept = of.kept});
    runs.back().checkpoints.resize(of.paths.size());
  }
  std::ranges::stable_sort(order, {}, &Place::rank);
  size_t room = kMaxReportMapBytes;
  for (const Place& place : order) {
    CheckpointAttention& attention = runs[place.run].checkpoints[place.checkpoint];
    attention = compute(chosen[place.run].paths[place.checkpoint], room);
    room -= attention.map_bytes;
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<CheckpointAttention> there;
    for (size_t j = 0; j < runs[i].checkpoints.size(); ++j) {
      CheckpointAttention& attention = runs[i].checkpoints[j];
      if (!attention.problem.empty() && !data::is_there(attention.path))
        continue;  // removed meanwhile by the run
      if (j <= chosen[i].model) runs[i].model = there.size();
      there.push_back(std::move(attention));
    }
    runs[i].checkpoints = std::move(there);
  }
  return runs;
}

CheckpointAttention RunAttentionReader::compute(const std::string& path, size_t room) {
  CheckpointAttention attention{.path = path, .step = step_of_checkpoint(path)};
  const size_t before = room;
  without_problem(attention.problem, [&] {
    const ModelSet models(*context_, {path}, request_.decoding.precision);
    SentenceMapper mapper(*context_, job_.communicator, models, request_.decoding.search);
    for (size_t i = 0; i < request_.sentences.size(); ++i) {
      SentenceOfCheckpoint& of = attention.sentences.emplace_back();
      const auto sentence = [&](const std::vector<std::string>& texts, const char* option) {
        return SentenceMapper::Sentence{
            texts[i], texts.size() == 1 ? option : fmt::format("{} number {}", option, i + 1)};
      };
      const SentenceMapper::Sentence source = sentence(request_.sentences, "--sentence");
      const bool translates = without_problem(of.problem, [&] {
        const SentenceAttention translated = mapper.translated(source);
        of.translation = translated.target;
        of.translated = groups_that_fit(translated, room, attention.leaves_out_maps);
      });
      if (!translates || request_.references.empty()) continue;
      without_problem(of.given_problem, [&] {
        of.given = groups_that_fit(mapper.given(source, sentence(request_.references, "--reference")), room,
                                   attention.leaves_out_maps);
      });
    }
  });
  attention.map_bytes = before - room;
  return attention;
}

}  // namespace ventris
