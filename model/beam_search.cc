#include "model/beam_search.h"

#include <algorithm>
#include <numeric>

#include "model/batch_stage.h"
#include "model/beam_search_sentence.h"
#include "model/incremental_decoder.h"
#include "model/transformer.h"
#include "model/word_scores.h"

namespace ventris {
namespace {

/// A processor has enough to do with few rows, which stay in its caches; a GPU needs a few thousand
/// hypotheses.
int64_t rows_that_suit(Device device) {
  return device == Device::kCpu ? 1024 : 16384;
}

BeamSearchOptions checked(BeamSearchOptions options, const TransformerConfig& config, Device device) {
  if (options.batch_rows == 0) options.batch_rows = rows_that_suit(device);
  const auto check = [](const char* option, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
      fail(ExitCode::kBadConfiguration, "--{} is {}: it must be from {} to {}", option, value, low, high);
    }
  };
  // The beam never wants more words than may be produced: all but the begin mark and the unknown word.
  check("beam-size", options.beam_size, 1,
        static_cast<double>(std::min<int64_t>(1024, config.vocab_size - 2)));
  check("n-best", options.n_best, 1, options.beam_size);
  check("length-penalty", static_cast<double>(options.length_penalty), -100, 100);
  check("max-extra-length", options.max_extra_length, 0, 1 << 20);
  check("batch-rows", static_cast<double>(options.batch_rows), 1, 1 << 24);
  check("end mark", options.end_id, 0, static_cast<double>(config.vocab_size - 1));
  check("begin mark", options.begin_id, 0, static_cast<double>(config.vocab_size - 1));
  return options;
}

/// A sentence in a batch, and where its live hypotheses are among the rows of the step.
struct Running {
  BeamSearchSentence sentence;
  size_t index;  // in the sources
  int32_t first_row = 0;
};

}  // namespace

struct BeamSearch::Impl {
  Impl(Context& context_in, const TransformerConfig& config_in, ParameterStore& store,
       const TransformerIds& ids, const BeamSearchOptions& options_in)
      : context(context_in),
        config(config_in),
        options(checked(options_in, config_in, context.device())),
        source_rows(std::max<int64_t>(options.batch_rows, config.max_positions)),
        encoder(context, config, store, ids,
                {.source_rows = source_rows, .target_rows = 1, .sentences = static_cast<int>(source_rows)},
                /*training=*/false),
        decoder(context, config, store, ids),
        stage(context, {.source_rows = source_rows, .sentences = static_cast<int>(source_rows)},
              StagedRows::kExact),
        scores(context, config.vocab_size, options) {}

  using Results = std::vector<std::vector<Hypothesis>>;
  void translate_batch(std::span<const std::vector<int32_t>> sources, std::span<const size_t> batch,
                       Results& results);
  /// Runs the encoder and gives its output to the decoder.
  void encode(std::span<const std::vector<int32_t>> sources, std::span<const size_t> batch);
  std::vector<BeamSearchSentence::Candidate> candidates_of(const Running& running) const;

  Context& context;
  const TransformerConfig config;
  const BeamSearchOptions options;
  const int64_t source_rows;
  Transformer encoder;
  IncrementalDecoder decoder;
  BatchStage stage;  // of the encoder's input
  WordScores scores;
};

void BeamSearch::Impl::encode(std::span<const std::vector<int32_t>> sources, std::span<const size_t> batch) {
  std::vector<int32_t> ids;
  std::vector<int32_t> position;
  std::vector<int32_t> offsets = {0};
  for (const size_t index : batch) {
    ids.insert(ids.end(), sources[index].begin(), sources[index].end());
    ids.push_back(options.end_id);
    for (size_t i = 0; i <= sources[index].size(); ++i) position.push_back(static_cast<int32_t>(i));
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  stage.wait_until_sent();
  stage.fill({.source_ids = ids, .source_position = position, .source_offsets = offsets});
  stage.send();
  decoder.begin(encoder.encode(stage.batch()), offsets,
                static_cast<int64_t>(batch.size()) * options.beam_size);
}

std::vector<BeamSearchSentence::Candidate> BeamSearch::Impl::candidates_of(const Running& running) const {
  std::vector<BeamSearchSentence::Candidate> candidates;
  const BeamSearchSentence& sentence = running.sentence;
  for (int h = 0; h < sentence.live(); ++h) {
    const int64_t row = int64_t{running.first_row} + h;
    const double so_far = sentence.log_probability(h);
    if (sentence.full()) {
      candidates.push_back(
          {h, options.end_id, so_far + static_cast<double>(scores.end_log_probability(row))});
      continue;
    }
    for (int i = 0; i < options.beam_size; ++i) {
      candidates.push_back(
          {h, scores.words(row)[i], so_far + static_cast<double>(scores.log_probabilities(row)[i])});
    }
  }
  return candidates;
}

void BeamSearch::Impl::translate_batch(std::span<const std::vector<int32_t>> sources,
                                       std::span<const size_t> batch, Results& results) {
  encode(sources, batch);
  std::vector<Running> running;
  std::vector<int32_t> parents;
  std::vector<int32_t> words;
  for (const size_t index : batch) {
    const auto wanted = static_cast<int64_t>(sources[index].size()) + options.max_extra_length;
    const auto max_words = static_cast<int>(std::min<int64_t>(wanted, config.max_positions - 1));
    const auto row = static_cast<int32_t>(running.size());
    running.push_back({BeamSearchSentence(options, max_words), index, row});
    parents.push_back(row);
    words.push_back(options.begin_id);
  }
  while (!running.empty()) {
    decoder.step(parents, words);
    const bool want_end =
        std::any_of(running.begin(), running.end(), [](const Running& r) { return r.sentence.full(); });
    scores.compute(decoder, static_cast<int64_t>(parents.size()), want_end);
    parents.clear();
    words.clear();
    std::vector<Running> still_running;
    for (Running& r : running) {
      const std::vector<int> continued = r.sentence.advance(candidates_of(r));
      if (r.sentence.done()) {
        results[r.index] = r.sentence.result();
        continue;
      }
      const auto first_row = static_cast<int32_t>(parents.size());
      for (size_t h = 0; h < continued.size(); ++h) {
        parents.push_back(r.first_row + continued[h]);
        words.push_back(r.sentence.last_word(static_cast<int>(h)));
      }
      r.first_row = first_row;
      still_running.push_back(std::move(r));
    }
    running = std::move(still_running);
  }
}

BeamSearch::BeamSearch(Context& context, const TransformerConfig& config, ParameterStore& store,
                       const TransformerIds& ids, const BeamSearchOptions& options)
    : impl_(std::make_unique<Impl>(context, config, store, ids, options)) {}

BeamSearch::~BeamSearch() = default;

std::vector<std::vector<Hypothesis>> BeamSearch::translate(std::span<const std::vector<int32_t>> sources) {
  Impl::Results results(sources.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < sources.size(); ++i) {
    VENTRIS_CHECK(static_cast<int64_t>(sources[i].size()) < impl_->config.max_positions,
                  "source {} has {} words; the model has {} positions", i, sources[i].size(),
                  impl_->config.max_positions);
    if (sources[i].empty()) {
      results[i] = {Hypothesis{}};
    } else {
      order.push_back(i);
    }
  }
  // Sentences of like length together, so that they end at about the same step.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return sources[x].size() > sources[y].size(); });
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    int64_t rows = 0;
    do {
      rows += static_cast<int64_t>(sources[order[end]].size()) + 1;
      ++end;
    } while (end < order.size() &&
             rows + static_cast<int64_t>(sources[order[end]].size()) + 1 <= impl_->options.batch_rows);
    impl_->translate_batch(sources, std::span(order).subspan(begin, end - begin), results);
    begin = end;
  }
  return results;
}

int64_t BeamSearch::batch_rows() const {
  return impl_->options.batch_rows;
}

}  // namespace ventris
