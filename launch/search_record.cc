// SPDX-License-Identifier: Apache-2.0
#include "launch/search_record.h"

#include <algorithm>

namespace ventris {

void SearchRecorder::add(const SearchStep& step) {
  const bool first = record_.steps.empty();
  std::vector<SearchNode>& nodes = record_.steps.emplace_back();
  std::vector<int> live;
  for (size_t i = 0; i < step.considered.size(); ++i) {
    const SearchStep::Candidate& candidate = step.considered[i];
    SearchNode& node = nodes.emplace_back();
    node.parent = first ? -1 : live_[static_cast<size_t>(candidate.hypothesis)];
    node.token = candidate.token;
    node.log_probability = candidate.log_probability;
    // The tokens before the end mark, or as many as if it followed.
    const auto tokens = static_cast<int>(record_.steps.size()) - (candidate.token == options_.end_id ? 1 : 0);
    node.score = search_score(options_, candidate.log_probability, tokens);
    node.kept = i < step.kept;
    node.ended = node.kept && candidate.token == options_.end_id;
    if (node.kept && !node.ended) live.push_back(static_cast<int>(i));
  }
  live_ = std::move(live);
}

std::vector<int32_t> SearchRecorder::path(size_t step, int node) const {
  std::vector<int32_t> tokens;
  for (int at = node; at >= 0; --step) {
    const SearchNode& here = record_.steps[step][static_cast<size_t>(at)];
    tokens.push_back(here.token);
    at = here.parent;
    if (step == 0) break;
  }
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

void SearchRecorder::mark_paths(const std::vector<int32_t>& translation,
                                const std::vector<int32_t>* reference) {
  const auto with_end = [&](std::vector<int32_t> tokens) {
    tokens.push_back(options_.end_id);
    return tokens;
  };
  const auto begins = [](const std::vector<int32_t>& whole, const std::vector<int32_t>& begin) {
    return begin.size() <= whole.size() && std::equal(begin.begin(), begin.end(), whole.begin());
  };
  const std::vector<int32_t> won = with_end(translation);
  const std::vector<int32_t> wanted = reference != nullptr ? with_end(*reference) : std::vector<int32_t>{};
  for (size_t step = 0; step < record_.steps.size(); ++step) {
    for (size_t i = 0; i < record_.steps[step].size(); ++i) {
      SearchNode& node = record_.steps[step][i];
      const std::vector<int32_t> tokens = path(step, static_cast<int>(i));
      node.winner = node.kept && begins(won, tokens);
      node.reference = reference != nullptr && begins(wanted, tokens);
    }
  }
}

void SearchRecorder::add_attention(const std::vector<int32_t>& source, AttentionMapper& mapper, int layers) {
  record_.attention.resize(static_cast<size_t>(layers));
  // From the last step back, so that one pass of the decoder serves a hypothesis and all that it continues.
  std::vector<std::vector<int32_t>> targets;
  int rows = 0;
  std::vector<std::pair<size_t, int64_t>> places;  // of each row: the target, and the position there
  for (size_t step = record_.steps.size(); step-- > 0;) {
    for (size_t i = 0; i < record_.steps[step].size(); ++i) {
      if (!record_.steps[step][i].kept || record_.steps[step][i].attention >= 0) continue;
      std::vector<int32_t> tokens = path(step, static_cast<int>(i));
      if (record_.steps[step][i].ended) tokens.pop_back();
      targets.push_back(std::move(tokens));
      int node = static_cast<int>(i);
      for (size_t at = step; node >= 0; --at) {
        SearchNode& here = record_.steps[at][static_cast<size_t>(node)];
        if (here.attention >= 0) break;  // so have all before it
        here.attention = rows++;
        places.emplace_back(targets.size() - 1, static_cast<int64_t>(at));
        node = here.parent;
        if (at == 0) break;
      }
    }
  }
  std::vector<TokenPair> pairs;
  for (const std::vector<int32_t>& target : targets) pairs.push_back({source, target});
  for (int layer = 0; layer < layers; ++layer) {
    const std::vector<AttentionMap> maps = mapper.cross_attention(pairs, layer);
    for (const auto& [target, position] : places) {
      const AttentionMap& map = maps[target];
      const auto begin = map.weights.begin() + static_cast<std::ptrdiff_t>(position * map.keys);
      record_.attention[static_cast<size_t>(layer)].emplace_back(
          begin, begin + static_cast<std::ptrdiff_t>(map.keys));
    }
  }
}

SearchRecord SearchRecorder::take(const std::vector<int32_t>& source, const std::vector<int32_t>& translation,
                                  const std::vector<int32_t>* reference, AttentionMapper& mapper,
                                  int layers) {
  mark_paths(translation, reference);
  add_attention(source, mapper, layers);
  return std::move(record_);
}

}  // namespace ventris
