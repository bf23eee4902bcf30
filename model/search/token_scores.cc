// SPDX-License-Identifier: Apache-2.0
#include "model/search/token_scores.h"

#include <algorithm>

#include "backend/device/transfer.h"
#include "backend/ops/repetition_penalty.h"
#include "backend/ops/top_k.h"

namespace ventris {

TokenRules::TokenRules(const BeamSearchOptions& options, int64_t vocab_size)
    : options_(options), vocab_size_(vocab_size) {
  clear();
}

void TokenRules::clear() {
  labels_.clear();
  any_forced_ = false;
  banned_.clear();
  banned_begin_.assign(1, 0);
  repeated_.clear();
  repeated_begin_.assign(1, 0);
  draws_.clear();
}

/// Bans the tokens that would make the last no_repeat_ngram - 1 tokens and themselves a sequence that already
/// occurs.
void TokenRules::ban_repeated_ngrams(std::span<const int32_t> tokens) {
  const auto kept = static_cast<size_t>(options_.no_repeat_ngram) - 1;
  if (tokens.size() <= kept) return;
  const auto last = tokens.last(kept);
  for (size_t begin = 0; begin + kept < tokens.size(); ++begin) {
    const auto here = tokens.subspan(begin, kept);
    if (std::equal(here.begin(), here.end(), last.begin())) banned_.push_back(tokens[begin + kept]);
  }
}

void TokenRules::add(std::span<const int32_t> tokens, int32_t forced) {
  labels_.push_back(std::max(forced, 0));
  any_forced_ = any_forced_ || forced >= 0;
  if (forced < 0) {
    const auto first = banned_.end() - banned_.begin();
    if (options_.no_repeat_ngram > 0) ban_repeated_ngrams(tokens);
    std::sort(banned_.begin() + first, banned_.end());
    banned_.erase(std::unique(banned_.begin() + first, banned_.end()), banned_.end());
    // All except the begin mark, the unknown token and the end mark: then the output ends, even below the
    // minimum length.
    const bool nothing_else = banned_.end() - banned_.begin() - first >= vocab_size_ - 3;
    if (static_cast<int64_t>(tokens.size()) < options_.min_length && !nothing_else) {
      banned_.push_back(options_.end_id);
    }
  }
  banned_begin_.push_back(static_cast<int32_t>(banned_.size()));
  if (options_.repetition_penalty != 1.0F) {
    const auto first = repeated_.end() - repeated_.begin();
    repeated_.insert(repeated_.end(), tokens.begin(), tokens.end());
    std::sort(repeated_.begin() + first, repeated_.end());
    repeated_.erase(std::unique(repeated_.begin() + first, repeated_.end()), repeated_.end());
  }
  repeated_begin_.push_back(static_cast<int32_t>(repeated_.size()));
}

std::span<const int32_t> TokenRules::banned_of(int64_t row) const {
  const auto r = static_cast<size_t>(row);
  return std::span(banned_).subspan(static_cast<size_t>(banned_begin_[r]),
                                    static_cast<size_t>(banned_begin_[r + 1] - banned_begin_[r]));
}

TokenScores::TokenScores(Context& context, int64_t vocab_size, const BeamSearchOptions& options)
    : context_(context),
      options_(options),
      vocab_size_(vocab_size),
      tokens_per_row_(std::min<int64_t>(options.beam_size, vocab_size - 2)),
      banned_memory_(context.device(), 1024, "beam search"),
      banned_(banned_memory_.allocate_array<int32_t>(3)),
      staged_(context) {
  const int32_t banned[3] = {options.begin_id, options.unknown_id, -1};
  copy_to_device(context_, banned_, banned, sizeof(banned));
  if (options.sample) {
    samplers_.assign(static_cast<size_t>(context.pool().threads()),
                     TokenSampler(options.sampling, vocab_size));
  }
}

size_t TokenScores::bytes(int64_t rows) const {
  return static_cast<size_t>(rows * (2 * tokens_per_row_ + 1)) * sizeof(float);
}

TokenScores::Scores TokenScores::pieces(void* block, int64_t rows) const {
  auto* values = static_cast<float*>(block);
  float* forced = values + 2 * rows * tokens_per_row_;
  return {values, reinterpret_cast<int32_t*>(values + rows * tokens_per_row_), forced};
}

void TokenScores::reserve(int64_t rows) {
  if (rows <= capacity_) return;
  capacity_ = std::max(rows, capacity_ * 3 / 2);
  synchronize(context_);  // pending work may use the old memory
  memory_ = Arena(context_.device(), bytes(capacity_), "beam search");
  block_ = memory_.allocate(bytes(capacity_));
}

/// Empty if no row has a rule, the usual case.
void TokenScores::send_lists(const TokenRules& rules) {
  lists_ = {};
  const bool labels = rules.any_forced();
  const bool banned = rules.any_banned() && !options_.sample;
  const bool repeated = rules.any_repeated();
  if (!labels && !banned && !repeated) return;
  staged_.begin(rules.labels().size() + rules.banned().size() + rules.banned_begin().size() +
                rules.repeated().size() + rules.repeated_begin().size());
  if (labels) lists_.labels = staged_.add(rules.labels());
  if (banned) {
    lists_.banned = staged_.add(rules.banned());
    lists_.banned_begin = staged_.add(rules.banned_begin());
  }
  if (repeated) {
    lists_.repeated = staged_.add(rules.repeated());
    lists_.repeated_begin = staged_.add(rules.repeated_begin());
  }
  staged_.send();
}

/// Draws the tokens of the rows [begin, begin + logits.rows).
void TokenScores::draw(ConstTensor logits, int64_t begin, const TokenRules& rules) {
  const HostCopy host(context_, logits);
  const auto& draws = rules.draws();
  const auto row_before = [](const TokenRules::Draw& draw, int64_t row) { return draw.row < row; };
  const auto first = std::lower_bound(draws.begin(), draws.end(), begin, row_before);
  const auto end = std::lower_bound(first, draws.end(), begin + logits.rows, row_before);
  const auto offset = first - draws.begin();
  context_.pool().for_each(end - first, [&](int64_t index, int thread) {
    const TokenRules::Draw& wanted = first[index];
    const auto banned_here = rules.banned_of(wanted.row);
    std::vector<int32_t> banned = {options_.begin_id, options_.unknown_id};
    banned.insert(banned.end(), banned_here.begin(), banned_here.end());
    drawn_[static_cast<size_t>(offset + index)] =
        samplers_[static_cast<size_t>(thread)].draw(host.view().row_range(wanted.row - begin, 1), banned,
                                                    uniform_number(options_.sampling.seed, wanted.key));
  });
}

void TokenScores::compute(SearchModels& models, const TokenRules& rules) {
  const int64_t rows = rules.rows();
  reserve(rows);
  send_lists(rules);
  drawn_.resize(rules.draws().size());
  const Scores device = pieces(block_, rows);
  const int64_t max = IncrementalDecoder::logit_rows(context_.device());
  for (int64_t begin = 0; begin < rows; begin += max) {
    const Tensor logits = models.logits(begin, std::min(max, rows - begin));
    if (lists_.repeated != nullptr) {
      repetition_penalty(context_, {.logits = logits,
                                    .tokens = lists_.repeated,
                                    .begin = lists_.repeated_begin + begin,
                                    .penalty = options_.repetition_penalty});
    }
    if (lists_.labels != nullptr) {
      log_probability(context_, {.logits = logits,
                                 .labels = lists_.labels + begin,
                                 .vocab = vocab_size_,
                                 .log_probabilities = device.forced + begin});
    }
    if (options_.sample) {
      draw(logits, begin, rules);
      continue;
    }
    log_softmax_top_k(context_,
                      {.logits = logits,
                       .vocab = vocab_size_,
                       .k = static_cast<int>(tokens_per_row_),
                       .banned = banned_,
                       .row_banned = lists_.banned,
                       .row_banned_begin = lists_.banned == nullptr ? nullptr : lists_.banned_begin + begin,
                       .values = device.values + begin * tokens_per_row_,
                       .indices = device.tokens + begin * tokens_per_row_});
  }
  if (options_.sample && lists_.labels == nullptr) return;
  const int64_t numbers = lists_.labels != nullptr ? 2 * tokens_per_row_ + 1 : 2 * tokens_per_row_;
  copy_.resize(bytes(rows));
  copy_to_host(context_, copy_.data(), block_, static_cast<size_t>(rows * numbers) * sizeof(float));
  scores_ = pieces(copy_.data(), rows);
}

}  // namespace ventris
