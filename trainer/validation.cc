#include "trainer/validation.h"

#include <algorithm>
#include <string>

#include "comm/communicator.h"
#include "data/batches.h"
#include "data/scores/bleu.h"
#include "data/scores/metric.h"
#include "model/search/beam_search.h"
#include "trainer/batch_feed.h"
#include "trainer/inference/translation.h"
#include "trainer/signals.h"
#include "trainer/validation_metric.h"

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

}  // namespace

Validation::Validation(Context& context, Communicator& communicator, const data::Corpus& corpus,
                       const TrainOptions& options, ValidationRows rows)
    : context_(context),
      communicator_(communicator),
      corpus_(corpus),
      options_(options),
      rows_(rows),
      batches_(cut_into_batches(corpus.valid(), rows.loss)),
      stage_(context, capacity(corpus, rows)) {}

MicroBatchCapacity Validation::capacity(const data::Corpus& corpus, ValidationRows rows) {
  const int64_t max = std::max<int64_t>(rows.loss, corpus.max_length() + int64_t{1});
  return {.source_rows = max, .target_rows = max, .sentences = static_cast<int>(max)};
}

std::optional<ValidationMetrics> Validation::run(Transformer& transformer, ParameterStore& store,
                                                 const TransformerIds& ids, int64_t step,
                                                 const std::function<void()>& goes_on) {
  const auto stops = [&goes_on] {
    goes_on();
    return stop_requested();
  };
  ValidationMetrics metrics;
  metrics.step = step;
  if (!add_loss(transformer, metrics, stops)) return std::nullopt;
  const bool scores = options_.valid_bleu || options_.valid_chrf;
  if (scores && !add_scores(transformer.config(), store, ids, metrics, stops)) return std::nullopt;
  return metrics;
}

bool Validation::add_loss(Transformer& transformer, ValidationMetrics& metrics,
                          const std::function<bool()>& stops) {
  const data::SentencePairs& pairs = corpus_.valid();
  const auto ranks = static_cast<size_t>(communicator_.size());
  // Each rank fills in the sums of its batches; added in the order of the batches they are the same for any
  // number of ranks. The last number counts ranks with a stop request.
  std::vector<double> sums(2 * batches_.size() + 1, 0.0);
  data::PackedBatch packed;
  for (size_t b = static_cast<size_t>(communicator_.rank()); b < batches_.size(); b += ranks) {
    if (stops()) {
      sums.back() = 1.0;
      break;
    }
    data::Packer packer(corpus_.tokenizers(), packed);
    for (const int64_t pair : batches_[b]) packer.add(pairs.source[pair], pairs.target[pair]);
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
  for (size_t b = 0; b < batches_.size(); ++b) {
    metrics.loss += sums[2 * b];
    metrics.nll += sums[2 * b + 1];
  }
  const auto tokens = static_cast<double>(pairs.target.total_tokens() + pairs.size());
  metrics.loss /= tokens;
  metrics.nll /= tokens;
  return true;
}

bool Validation::add_scores(const TransformerConfig& config, ParameterStore& store, const TransformerIds& ids,
                            ValidationMetrics& metrics, const std::function<bool()>& stops) {
  const data::SentencePairs& pairs = corpus_.valid();
  const data::Tokenizer& tokenizer = corpus_.tokenizers().target();
  const int64_t limit = options_.valid_max_sentences;
  const int64_t count = limit > 0 ? std::min(limit, pairs.size()) : pairs.size();
  std::vector<SourceSentence> sources;
  std::vector<std::vector<std::string>> references(1);
  for (int64_t i = 0; i < count; ++i) {
    const auto tokens = pairs.source[i];
    sources.push_back({.tokens = {tokens.begin(), tokens.end()}});
    references[0].push_back(corpus_.valid_reference(i));
  }
  BeamSearch search(context_, config, store, ids,
                    {.beam_size = options_.valid_beam_size,
                     .length_penalty = options_.valid_length_penalty,
                     .batch_rows = rows_.search,
                     .source_end_id = corpus_.tokenizers().source().end_id(),
                     .begin_id = tokenizer.begin_id(),
                     .end_id = tokenizer.end_id(),
                     .unknown_id = tokenizer.unknown_id()});
  const auto translated = translate_on_all_ranks(communicator_, search, sources, stops);
  if (!translated) return false;
  std::vector<std::string> hypotheses;
  for (const auto& found : *translated) {
    hypotheses.push_back(tokenizer.decode(found.at(0).tokens));
  }
  if (options_.valid_bleu) {
    metrics.has_bleu = true;
    metrics.bleu = data::corpus_bleu(hypotheses, references, valid_bleu_options(options_)).score;
  }
  if (options_.valid_chrf) {
    metrics.has_chrf = true;
    const data::Metric chrf(data::MetricKind::kChrf, {});
    metrics.chrf = chrf.score(chrf.count(hypotheses, references).sums());
  }
  return true;
}

}  // namespace ventris
