// SPDX-License-Identifier: Apache-2.0
#include "model/search/target_scores.h"

#include <algorithm>
#include <cmath>

#include "backend/device/elementary.h"
#include "backend/device/transfer.h"
#include "model/batch_stage.h"
#include "model/packed_pairs.h"
#include "model/search/search_models.h"
#include "model/transformer.h"

namespace ventris {

struct TargetScores::Impl {
  Impl(Context& context_in, std::span<const SearchModel> models, const TargetScoreOptions& options_in)
      : context(context_in),
        options(options_in),
        max_positions(min_positions(models)),
        rows(std::max<int64_t>(options.batch_rows, max_positions)),
        capacity{.source_rows = rows, .target_rows = rows, .sentences = static_cast<int>(rows)},
        stage(context, capacity, StagedRows::kExact),
        memory(context.device(), static_cast<size_t>(rows) * sizeof(float) + 1024, "scores"),
        out(memory.allocate_array<float>(rows)) {
    for (const SearchModel& model : models) {
      transformers.push_back(std::make_unique<Transformer>(context, model.config, model.store, model.ids,
                                                           capacity, KeptActivations::kNone));
    }
  }

  static int min_positions(std::span<const SearchModel> models) {
    check_models(models);
    int min = models[0].config.max_positions;
    for (const SearchModel& model : models) min = std::min(min, model.config.max_positions);
    return min;
  }

  /// For every target row of the packed batch the logarithm of the mean of the models' probabilities.
  std::vector<float> log_probabilities(const PackedPairs& packed);

  Context& context;
  const TargetScoreOptions options;
  const int max_positions;
  const int64_t rows;
  const MicroBatchCapacity capacity;
  BatchStage stage;
  Arena memory;
  float* out;  // [rows] on the device
  std::vector<std::unique_ptr<Transformer>> transformers;
};

std::vector<float> TargetScores::Impl::log_probabilities(const PackedPairs& packed) {
  stage.wait_until_sent();
  stage.fill(packed.view());
  stage.send();
  std::vector<float> found(static_cast<size_t>(packed.target_rows()));
  std::vector<std::vector<float>> of_models;
  for (const auto& transformer : transformers) {
    transformer->log_probabilities(stage.batch(), out);
    copy_to_host(context, found.data(), out, found.size() * sizeof(float));
    if (transformers.size() > 1) of_models.push_back(found);
  }
  for (size_t i = 0; i < found.size() && of_models.size() > 1; ++i) {
    double largest = -INFINITY;
    for (const auto& values : of_models) largest = std::max(largest, static_cast<double>(values[i]));
    double sum = 0.0;
    for (const auto& values : of_models) sum += portable_exp(static_cast<double>(values[i]) - largest);
    found[i] = static_cast<float>(largest + portable_log(sum / static_cast<double>(of_models.size())));
  }
  return found;
}

TargetScores::TargetScores(Context& context, std::span<const SearchModel> models,
                           const TargetScoreOptions& options)
    : impl_(std::make_unique<Impl>(context, models, options)) {}

TargetScores::~TargetScores() = default;

std::vector<std::vector<float>> TargetScores::score(std::span<const SentencePair> pairs) {
  std::vector<std::vector<float>> scores(pairs.size());
  for (size_t begin = 0; begin < pairs.size();) {
    PackedPairs packed(impl_->options.marks);
    size_t end = begin;
    const auto fits = [&](const SentencePair& pair) {
      return std::max(packed.source_rows() + std::ssize(pair.source),
                      packed.target_rows() + std::ssize(pair.target)) < impl_->options.batch_rows;
    };
    do {
      const size_t longest = std::max(pairs[end].source.size(), pairs[end].target.size());
      VENTRIS_CHECK(static_cast<int64_t>(longest) < impl_->max_positions,
                    "pair {} has {} tokens; the model has {} positions", end, longest, impl_->max_positions);
      packed.add(pairs[end].source, pairs[end].target);
      ++end;
    } while (end < pairs.size() && fits(pairs[end]));
    const std::vector<float> found = impl_->log_probabilities(packed);
    for (size_t p = begin; p < end; ++p) {
      const int32_t* offsets = packed.target_offsets().data() + (p - begin);
      scores[p].assign(found.begin() + offsets[0], found.begin() + offsets[1]);
    }
    begin = end;
  }
  return scores;
}

}  // namespace ventris
