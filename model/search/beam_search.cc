// SPDX-License-Identifier: Apache-2.0
#include "model/search/beam_search.h"

#include <algorithm>
#include <utility>

#include "backend/device/elementary.h"
#include "model/search/beam_search_sentence.h"
#include "model/search/search_models.h"
#include "model/search/token_scores.h"

namespace ventris {
namespace {

BeamSearchOptions checked(BeamSearchOptions options, const TransformerConfig& config, Device device) {
  if (options.sample) options.beam_size = options.n_best;
  if (options.batch_rows == 0) options.batch_rows = rows_that_suit(device);
  const auto check = [](const char* option, double value, double low, double high) {
    // As floats: 0.01 is a double just above the float 0.01.
    const bool inside = static_cast<float>(value) >= static_cast<float>(low) &&
                        static_cast<float>(value) <= static_cast<float>(high);
    if (!inside) {
      fail(ExitCode::kBadConfiguration, "--{} is {}: it must be from {} to {}", option, value, low, high);
    }
  };
  check("beam-size", options.beam_size, 1, 1024);
  check("n-best", options.n_best, 1, options.beam_size);
  check("length-penalty", static_cast<double>(options.length_penalty), -100, 100);
  check("max-extra-length", options.max_extra_length, 0, 1 << 20);
  check("max-length", options.max_length, 0, 1 << 20);
  check("min-length", options.min_length, 0, 1 << 20);
  check("no-repeat-ngram", options.no_repeat_ngram, 0, 1 << 20);
  check("repetition-penalty", static_cast<double>(options.repetition_penalty), 0.01, 100);
  check("temperature", static_cast<double>(options.sampling.temperature), 0.001, 1000);
  check("top-k", options.sampling.top_k, 0, 1 << 24);
  check("top-p", static_cast<double>(options.sampling.top_p), 1e-6, 1);
  check("batch-rows", static_cast<double>(options.batch_rows), 1, 1 << 24);
  check("batch-sentences", static_cast<double>(options.batch_sentences), 0, 1 << 24);
  check("end mark", options.end_id, 0, static_cast<double>(config.vocab_size - 1));
  check("end mark of sources", options.source_end_id, 0, static_cast<double>(config.source_vocab() - 1));
  check("begin mark", options.begin_id, 0, static_cast<double>(config.vocab_size - 1));
  return options;
}

/// A sentence in a batch, and the rows of its live hypotheses in the step.
struct Running {
  BeamSearchSentence sentence;
  size_t index;  // in the sources
  int32_t first_row = 0;
};

}  // namespace

struct BeamSearch::Impl {
  Impl(Context& context, std::span<const SearchModel> models_in, const BeamSearchOptions& options_in)
      : options(checked(options_in, first(models_in).config, context.device())),
        models(context, models_in,
               std::max<int64_t>(options.batch_rows, first(models_in).config.max_positions)),
        rules(options, models.vocab_size()),
        scores(context, models.vocab_size(), options) {}

  static const SearchModel& first(std::span<const SearchModel> models) {
    check_models(models);
    return models[0];
  }

  using Results = std::vector<std::vector<Hypothesis>>;
  void translate_batch(std::span<const SourceSentence> sources, std::span<const size_t> batch,
                       Results& results);
  void begin(std::span<const SourceSentence> sources, std::span<const size_t> batch);
  int max_tokens(const SourceSentence& source) const;
  /// Adds the rules for the live hypotheses of a sentence to those of the step.
  void add_rules(const Running& running, uint64_t number);
  /// `draw`: the first of the sentence's draws, advanced to that of the next sentence.
  std::vector<BeamSearchSentence::Candidate> candidates_of(const Running& running, size_t& draw) const;

  const BeamSearchOptions options;
  SearchModels models;
  TokenRules rules;
  TokenScores scores;
  std::function<void(size_t source, const SearchStep& step)> watcher;
};

/// Runs the encoders and passes their output to the decoders.
void BeamSearch::Impl::begin(std::span<const SourceSentence> sources, std::span<const size_t> batch) {
  std::vector<int32_t> ids;
  std::vector<int32_t> position;
  std::vector<int32_t> offsets = {0};
  for (const size_t index : batch) {
    const std::vector<int32_t>& tokens = sources[index].tokens;
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    ids.push_back(options.source_end_id);
    for (size_t i = 0; i <= tokens.size(); ++i) position.push_back(static_cast<int32_t>(i));
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  models.begin({.source_ids = ids, .source_position = position, .source_offsets = offsets},
               static_cast<int64_t>(batch.size()) * options.beam_size);
}

int BeamSearch::Impl::max_tokens(const SourceSentence& source) const {
  int64_t max = static_cast<int64_t>(source.tokens.size()) + options.max_extra_length;
  if (options.max_length > 0) max = std::min<int64_t>(max, options.max_length);
  max = std::max(max, static_cast<int64_t>(source.prefix.size()));
  return static_cast<int>(std::min<int64_t>(max, models.max_positions() - 1));
}

void BeamSearch::Impl::add_rules(const Running& running, uint64_t number) {
  const BeamSearchSentence& sentence = running.sentence;
  const int32_t forced = sentence.forced_token();
  for (int h = 0; h < sentence.live(); ++h) {
    const auto position = static_cast<uint32_t>(sentence.tokens(h).size());
    rules.add(sentence.tokens(h), forced);
    if (!options.sample || forced >= 0) continue;
    if (!sentence.at_first_free_token()) {
      rules.add_draw({.sentence = number, .stream = sentence.stream(h), .position = position});
      continue;
    }
    for (uint32_t stream = 0; stream < static_cast<uint32_t>(options.n_best); ++stream) {
      rules.add_draw({.sentence = number, .stream = stream, .position = position});
    }
  }
}

std::vector<BeamSearchSentence::Candidate> BeamSearch::Impl::candidates_of(const Running& running,
                                                                           size_t& draw) const {
  std::vector<BeamSearchSentence::Candidate> candidates;
  const BeamSearchSentence& sentence = running.sentence;
  const int32_t forced = sentence.forced_token();
  for (int h = 0; h < sentence.live(); ++h) {
    const int64_t row = int64_t{running.first_row} + h;
    const double so_far = sentence.log_probability(h);
    if (forced >= 0) {
      const double more =
          sentence.in_prefix() ? 0.0 : static_cast<double>(scores.forced_log_probability(row));
      candidates.push_back({h, forced, so_far + more, sentence.stream(h)});
      continue;
    }
    if (options.sample) {
      for (; draw < rules.draws().size() && rules.draws()[draw].row == row; ++draw) {
        const DrawnToken& drawn = scores.drawn(draw);
        candidates.push_back(
            {h, drawn.token, so_far + drawn.log_probability, rules.draws()[draw].key.stream});
      }
      continue;
    }
    for (int i = 0; i < scores.tokens_per_row() && scores.tokens(row)[i] >= 0; ++i) {
      candidates.push_back(
          {h, scores.tokens(row)[i], so_far + static_cast<double>(scores.log_probabilities(row)[i])});
    }
  }
  return candidates;
}

void BeamSearch::Impl::translate_batch(std::span<const SourceSentence> sources, std::span<const size_t> batch,
                                       Results& results) {
  begin(sources, batch);
  std::vector<Running> running;
  std::vector<int32_t> parents;
  std::vector<int32_t> tokens;
  for (const size_t index : batch) {
    const SourceSentence& source = sources[index];
    const auto row = static_cast<int32_t>(running.size());
    running.push_back({BeamSearchSentence(options, source.prefix, max_tokens(source)), index, row});
    parents.push_back(row);
    tokens.push_back(options.begin_id);
  }
  while (!running.empty()) {
    models.step(parents, tokens);
    rules.clear();
    for (const Running& r : running) add_rules(r, sources[r.index].number);
    scores.compute(models, rules);
    parents.clear();
    tokens.clear();
    size_t draw = 0;
    std::vector<Running> still_running;
    for (Running& r : running) {
      SearchStep step;
      const std::vector<int> continued =
          r.sentence.advance(candidates_of(r, draw), watcher ? &step : nullptr);
      if (watcher) watcher(r.index, step);
      if (r.sentence.done()) {
        results[r.index] = r.sentence.result();
        continue;
      }
      const auto first_row = static_cast<int32_t>(parents.size());
      for (size_t h = 0; h < continued.size(); ++h) {
        parents.push_back(r.first_row + continued[h]);
        tokens.push_back(r.sentence.last_token(static_cast<int>(h)));
      }
      r.first_row = first_row;
      still_running.push_back(std::move(r));
    }
    running = std::move(still_running);
  }
}

/// On a CPU few rows are efficient, as they stay in its caches; a GPU needs a few thousand hypotheses.
int64_t rows_that_suit(Device device) {
  return device == Device::kCpu ? 1024 : 16384;
}

BeamSearch::BeamSearch(Context& context, std::span<const SearchModel> models,
                       const BeamSearchOptions& options)
    : impl_(std::make_unique<Impl>(context, models, options)) {}

BeamSearch::BeamSearch(Context& context, const TransformerConfig& config, ParameterStore& store,
                       const TransformerIds& ids, const BeamSearchOptions& options) {
  const SearchModel model{config, store, ids};
  impl_ = std::make_unique<Impl>(context, std::span(&model, 1), options);
}

BeamSearch::~BeamSearch() = default;

/// log p / ((5 + length) / 6)^alpha, equation 14 of Wu et al. 2016; the length includes the end mark.
double search_score(const BeamSearchOptions& options, double log_probability, int tokens) {
  const double alpha = static_cast<double>(options.length_penalty);
  return log_probability / portable_pow((5.0 + tokens + 1.0) / 6.0, alpha);
}

void BeamSearch::watch(std::function<void(size_t source, const SearchStep& step)> watcher) {
  impl_->watcher = std::move(watcher);
}

const BeamSearchOptions& BeamSearch::options() const {
  return impl_->options;
}

Device BeamSearch::device() const {
  return impl_->models.device();
}

std::vector<std::vector<Hypothesis>> BeamSearch::translate(std::span<const std::vector<int32_t>> sources) {
  std::vector<SourceSentence> sentences;
  for (const std::vector<int32_t>& source : sources) {
    sentences.push_back({.tokens = source, .number = sentences.size()});
  }
  return translate(std::span<const SourceSentence>(sentences));
}

std::vector<std::vector<Hypothesis>> BeamSearch::translate(std::span<const SourceSentence> sources) {
  Impl::Results results(sources.size());
  std::vector<size_t> order;
  const int max = impl_->models.max_positions();
  for (size_t i = 0; i < sources.size(); ++i) {
    const SourceSentence& source = sources[i];
    VENTRIS_CHECK(
        static_cast<int>(source.tokens.size()) < max && static_cast<int>(source.prefix.size()) < max,
        "source {} has {} tokens and a prefix of {}; the model has {} positions", i, source.tokens.size(),
        source.prefix.size(), max);
    if (source.tokens.empty()) {
      results[i] = {Hypothesis{}};
    } else {
      order.push_back(i);
    }
  }
  // Sentences of similar length together, so that they end at about the same step.
  const auto rows_of = [&](size_t index) { return static_cast<int64_t>(sources[index].tokens.size()) + 1; };
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return rows_of(x) > rows_of(y); });
  const int64_t limit = impl_->options.batch_sentences;
  const size_t together = limit > 0 ? static_cast<size_t>(limit) : order.size();
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    int64_t rows = 0;
    do {
      rows += rows_of(order[end]);
      ++end;
    } while (end < order.size() && end - begin < together &&
             rows + rows_of(order[end]) <= impl_->options.batch_rows);
    impl_->translate_batch(sources, std::span(order).subspan(begin, end - begin), results);
    begin = end;
  }
  return results;
}

}  // namespace ventris
