// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/work_sharing.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "backend/device/error.h"
#include "comm/communicator.h"

namespace ventris {
namespace {

constexpr int64_t kPiecesOfARank = 8;
constexpr int64_t kMinRows = 192;  // a smaller chunk costs more than it balances
/// Cost of a step of the decoder in addition to its rows, in rows of the source.
constexpr double kStepCost = 8.0;
/// Sentences of one message: with long translations, and many of each, below the 2^31 - 1 bytes of MPI.
constexpr size_t kGathered = 1024;

/// gather_numbers() of the sentences from `first` to before `end`.
void gather_slice(Communicator& communicator, const std::vector<std::vector<double>>& mine, size_t first,
                  size_t end, std::vector<std::vector<double>>& all) {
  std::vector<double> flat;  // of each sentence its index, the count of its numbers, and these
  for (size_t i = first; i < end; ++i) {
    if (mine[i].empty()) continue;
    flat.push_back(static_cast<double>(i));
    flat.push_back(static_cast<double>(mine[i].size()));
    flat.insert(flat.end(), mine[i].begin(), mine[i].end());
  }
  const std::string bytes(reinterpret_cast<const char*>(flat.data()), flat.size() * sizeof(double));
  for (const std::string& from : communicator.all_gather(bytes)) {
    std::vector<double> numbers(from.size() / sizeof(double));
    std::memcpy(numbers.data(), from.data(), numbers.size() * sizeof(double));
    for (size_t at = 0; at + 2 <= numbers.size();) {
      const auto index = static_cast<size_t>(numbers[at]);
      const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(at) + 2;
      const auto count = static_cast<std::ptrdiff_t>(numbers[at + 1]);
      VENTRIS_CHECK(index < all.size() && count <= numbers.end() - begin, "{} numbers of sentence {} of {}",
                    count, index, all.size());
      all[index].assign(begin, begin + count);
      at += 2 + static_cast<size_t>(count);
    }
  }
}

using Hypotheses = std::vector<std::vector<Hypothesis>>;

/// For gather_numbers().
std::vector<double> numbers_of(const std::vector<Hypothesis>& hypotheses) {
  std::vector<double> numbers;
  for (const Hypothesis& hypothesis : hypotheses) {
    numbers.insert(numbers.end(), {hypothesis.log_probability, hypothesis.score,
                                   static_cast<double>(hypothesis.tokens.size())});
    numbers.insert(numbers.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
  }
  return numbers;
}

std::vector<Hypothesis> hypotheses_of(const std::vector<double>& numbers) {
  std::vector<Hypothesis> hypotheses;
  for (auto at = numbers.begin(); at != numbers.end();) {
    Hypothesis& hypothesis = hypotheses.emplace_back();
    hypothesis.log_probability = *at++;
    hypothesis.score = *at++;
    const auto tokens = static_cast<std::ptrdiff_t>(*at++);
    std::transform(at, at + tokens, std::back_inserter(hypothesis.tokens),
                   [](double token) { return static_cast<int32_t>(token); });
    at += tokens;
  }
  return hypotheses;
}

}  // namespace

int64_t pieces_for(Device device, int ranks) {
  return device == Device::kCpu && ranks > 1 ? kPiecesOfARank * ranks : 1;
}

std::vector<Chunk> cut_into_chunks(const std::vector<int64_t>& rows, const ChunkLimits& limits) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return rows[x] > rows[y]; });
  int64_t left = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  std::vector<Chunk> chunks;
  int64_t max_rows = 0;
  for (const size_t index : order) {
    if (chunks.empty() || chunks.back().rows + rows[index] > max_rows ||
        std::ssize(chunks.back().sentences) == limits.sentences) {
      chunks.push_back({.cost = kStepCost * static_cast<double>(rows[index])});
      max_rows = std::min(limits.rows, std::max(kMinRows, left / limits.pieces));
    }
    Chunk& chunk = chunks.back();
    chunk.sentences.push_back(index);
    chunk.rows += rows[index];
    chunk.cost += static_cast<double>(rows[index]);
    left -= rows[index];
  }
  return chunks;
}

std::vector<int> deal_by_cost(const std::vector<Chunk>& chunks, int ranks) {
  std::vector<size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return chunks[x].cost > chunks[y].cost; });
  std::vector<double> load(static_cast<size_t>(ranks), 0.0);
  std::vector<int> rank(chunks.size());
  for (const size_t index : order) {
    const auto min = std::min_element(load.begin(), load.end());
    *min += chunks[index].cost;
    rank[index] = static_cast<int>(min - load.begin());
  }
  return rank;
}

std::vector<Chunk> chunks_of_this_rank(const Communicator& communicator, const std::vector<int64_t>& rows,
                                       const ChunkLimits& limits) {
  const std::vector<Chunk> chunks = cut_into_chunks(rows, limits);
  const std::vector<int> ranks = deal_by_cost(chunks, communicator.size());
  std::vector<Chunk> own;
  for (size_t c = 0; c < chunks.size(); ++c)
    if (ranks[c] == communicator.rank()) own.push_back(chunks[c]);
  return own;
}

std::vector<std::vector<double>> gather_numbers(Communicator& communicator,
                                                const std::vector<std::vector<double>>& mine) {
  std::vector<std::vector<double>> all(mine.size());
  for (size_t first = 0; first < mine.size(); first += kGathered)
    gather_slice(communicator, mine, first, std::min(first + kGathered, mine.size()), all);
  return all;
}

std::optional<Hypotheses> translate_on_all_ranks(Communicator& communicator, BeamSearch& search,
                                                 const std::vector<SourceSentence>& sources,
                                                 const std::function<bool()>& abandon) {
  std::vector<int64_t> rows;
  for (const SourceSentence& source : sources) rows.push_back(static_cast<int64_t>(source.tokens.size()) + 1);
  const ChunkLimits limits = {.rows = search.options().batch_rows,
                              .sentences = search.options().batch_sentences,
                              .pieces = pieces_for(search.device(), communicator.size())};
  std::vector<std::vector<double>> mine(sources.size() + 1);  // the last: that a rank abandoned the work
  for (const Chunk& own : chunks_of_this_rank(communicator, rows, limits)) {
    if (abandon && abandon()) {
      mine.back() = {1.0};
      break;
    }
    std::vector<SourceSentence> chunk;
    for (const size_t index : own.sentences) chunk.push_back(sources[index]);
    const Hypotheses found = search.translate(chunk);
    for (size_t i = 0; i < found.size(); ++i) mine[own.sentences[i]] = numbers_of(found[i]);
  }
  const std::vector<std::vector<double>> all = gather_numbers(communicator, mine);
  if (!all.back().empty()) return std::nullopt;
  Hypotheses hypotheses(sources.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) hypotheses[i] = hypotheses_of(all[i]);
  return hypotheses;
}

}  // namespace ventris
