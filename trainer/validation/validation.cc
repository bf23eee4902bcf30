// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation/validation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "comm/communicator.h"
#include "data/packer.h"
#include "data/scores/significance.h"
#include "trainer/batch_feed.h"
#include "trainer/inference/work_sharing.h"
#include "trainer/signals.h"

namespace ventris {
namespace {

// Greedy, in the order of the corpus: a batch ends when the next pair does not fit.
std::vector<std::vector<int64_t>> cut_into_batches(const data::SentencePairs& pairs, int64_t max) {
  std::vector<std::vector<int64_t>> batches;
  int64_t source_rows = 0;
  int64_t target_rows = 0;
  for (int64_t pair = 0; pair < pairs.size(); ++pair) {
    const int64_t source = pairs.source.length(pair) + 1;
    const int64_t target = pairs.target.length(pair) + 1;
    if (batches.empty() || std::max(source_rows + source, target_rows + target) > max) {
      batches.emplace_back();
      source_rows = 0;
      target_rows = 0;
    }
    batches.back().push_back(pair);
    source_rows += source;
    target_rows += target;
  }
  return batches;
}

ScoreInterval interval_of(const data::Estimate& estimate) {
  return {.low = std::max(0.0, estimate.mean - estimate.half_width),
          .high = std::min(100.0, estimate.mean + estimate.half_width)};
}

}  // namespace

Validation::Validation(Context& context, Communicator& communicator, const data::Corpus& corpus,
                       const ValidationSets& sets, const TrainOptions& options, ValidationRows rows)
    : context_(context),
      communicator_(communicator),
      corpus_(corpus),
      sets_(sets),
      options_(options),
      scorer_(options),
      rows_(rows),
      stage_(context, validation_capacity(corpus, rows)) {
  for (const ValidationSet& set : sets.all()) batches_.push_back(cut_into_batches(set.pairs, rows.loss));
}

std::optional<Validated> Validation::run(Transformer& transformer, ParameterStore& store,
                                         const TransformerIds& ids, int64_t step,
                                         const std::function<void()>& heartbeat) {
  const auto stops = [&heartbeat] {
    heartbeat();
    return stop_requested();
  };
  const size_t count = sets_.all().size();
  std::vector<OfSet> results(count);
  for (size_t set = 0; set < count; ++set)
    if (!add_loss(transformer, set, results[set], stops)) return std::nullopt;
  if (options_.translates_validation()) {
    BeamSearch search(context_, transformer.config(), store, ids, search_options());
    for (size_t set = 0; set < count; ++set) {
      if (!translate(search, set, results[set], stops)) return std::nullopt;
      add_scores(set, results[set]);
    }
  }
  Validated validated{.metrics = results.front().metrics, .translations = {}};
  validated.metrics.step = step;
  for (size_t set = 0; set < count; ++set) {
    OfSet& result = results[set];
    if (options_.translates_validation()) validated.translations.push_back(std::move(result.translations));
    if (set == 0) continue;
    result.metrics.name = sets_.all()[set].name;
    validated.metrics.sets.push_back(std::move(result.metrics));
  }
  return validated;
}

bool Validation::add_loss(Transformer& transformer, size_t set, OfSet& result, const Stops& stops) {
  const data::SentencePairs& pairs = sets_.all()[set].pairs;
  const std::vector<std::vector<int64_t>>& batches = batches_[set];
  const auto ranks = static_cast<size_t>(communicator_.size());
  // Each rank fills in the sums of its batches; added in the order of the batches they are the same for any
  // number of ranks. The last number counts ranks with a stop request.
  std::vector<double> sums(2 * batches.size() + 1, 0.0);
  data::PackedBatch packed;
  for (size_t b = static_cast<size_t>(communicator_.rank()); b < batches.size(); b += ranks) {
    if (stops()) {
      sums.back() = 1.0;
      break;
    }
    data::Packer packer(corpus_.tokenizers(), packed);
    for (const int64_t pair : batches[b]) packer.add(pairs.source[pair], pairs.target[pair]);
    stage_.wait_until_sent();
    stage_.fill(host_batch_of(packed));
    stage_.send();
    transformer.evaluate(stage_.batch());
    const LossSums batch = transformer.take_loss_sums();
    sums[2 * b] = batch.loss;
    sums[2 * b + 1] = batch.nll;
  }
  const auto count = static_cast<int64_t>(sums.size());
  communicator_.all_reduce_sum({sums.data(), 1, count, count, DType::kF64});
  if (sums.back() > 0.0) return false;
  ValidationMetrics& metrics = result.metrics;
  for (size_t b = 0; b < batches.size(); ++b) {
    metrics.loss += sums[2 * b];
    metrics.nll += sums[2 * b + 1];
  }
  const auto tokens = static_cast<double>(pairs.target.total_tokens() + pairs.size());
  metrics.loss /= tokens;
  metrics.nll /= tokens;
  return true;
}

BeamSearchOptions Validation::search_options() const {
  const data::Tokenizer& tokenizer = corpus_.tokenizers().target();
  return {.beam_size = options_.valid_beam_size,
          .length_penalty = kValidLengthPenalty,
          .batch_rows = rows_.search,
          .source_end_id = corpus_.tokenizers().source().end_id(),
          .begin_id = tokenizer.begin_id(),
          .end_id = tokenizer.end_id(),
          .unknown_id = tokenizer.unknown_id()};
}

bool Validation::translate(BeamSearch& search, size_t set, OfSet& result, const Stops& stops) {
  const data::SentencePairs& pairs = sets_.all()[set].pairs;
  const int64_t limit = options_.valid_max_sentences;
  const int64_t count = limit > 0 ? std::min(limit, pairs.size()) : pairs.size();
  std::vector<SourceSentence> sources;
  for (int64_t i = 0; i < count; ++i) {
    const auto tokens = pairs.source[i];
    sources.push_back({.tokens = {tokens.begin(), tokens.end()}});
  }
  const auto translated = translate_on_all_ranks(communicator_, search, sources, stops);
  if (!translated) return false;
  for (const auto& found : *translated)
    result.translations.push_back(corpus_.tokenizers().target().decode(found.at(0).tokens));
  return true;
}

void Validation::add_scores(size_t set, OfSet& result) const {
  std::vector<std::string> references;
  for (int64_t i = 0; i < std::ssize(result.translations); ++i)
    references.push_back(sets_.all()[set].reference(i));
  ValidationMetrics& metrics = result.metrics;
  const data::Statistics bleu = scorer_.count(data::MetricKind::kBleu, result.translations, references);
  metrics.has_bleu = true;
  metrics.bleu = scorer_.bleu().score(bleu.sums());
  metrics.bleu_interval =
      interval_of(data::bootstrap_estimate(scorer_.bleu(), bleu, kValidResamples, kValidSeed));
  if (options_.valid_metric != "chrf") return;
  metrics.has_chrf = true;
  metrics.chrf =
      scorer_.chrf().score(scorer_.count(data::MetricKind::kChrf, result.translations, references).sums());
}

}  // namespace ventris
