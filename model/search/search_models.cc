// SPDX-License-Identifier: Apache-2.0
#include "model/search/search_models.h"

#include <algorithm>

#include "backend/ops/log_probability_sum.h"
#include "model/transformer_parameters.h"

namespace ventris {

void check_models(std::span<const SearchModel> models) {
  if (models.empty()) fail(ExitCode::kBadConfiguration, "no model given");
  for (const SearchModel& model : models) {
    const auto check_tokens = [](int64_t first, int64_t other) {
      if (first == other) return;
      fail(ExitCode::kBadConfiguration,
           "models of {} and of {} tokens cannot be combined: they must have the same vocabulary", first,
           other);
    };
    check_tokens(models[0].config.vocab_size, model.config.vocab_size);
    check_tokens(models[0].config.source_vocab(), model.config.source_vocab());
    if (model.store.dtype() != models[0].store.dtype()) {
      fail(ExitCode::kBadConfiguration, "models in {} and in {} cannot be combined",
           name_of(models[0].store.dtype()), name_of(model.store.dtype()));
    }
  }
}

SearchModels::Member::Member(Context& context, const SearchModel& model, int64_t source_rows)
    : packed(
          can_pack(context, model.store) && !model.store.is_packed()
              ? std::optional(packed_copy(context, model.ids, model.store, packing_of(model.store.dtype())))
              : std::nullopt),
      store(packed ? *packed : model.store),
      encoder(context, model.config, store, model.ids,
              {.source_rows = source_rows, .target_rows = 1, .sentences = static_cast<int>(source_rows)},
              KeptActivations::kNone),
      decoder(context, model.config, store, model.ids) {}

SearchModels::SearchModels(Context& context, std::span<const SearchModel> models, int64_t source_rows)
    : context_(context),
      vocab_size_(models[0].config.vocab_size),
      max_positions_(models[0].config.max_positions),
      stage_(context, {.source_rows = source_rows, .sentences = static_cast<int>(source_rows)},
             StagedRows::kExact) {
  for (const SearchModel& model : models) {
    members_.push_back(std::make_unique<Member>(context, model, source_rows));
    max_positions_ = std::min(max_positions_, model.config.max_positions);
  }
  if (members_.size() == 1) return;
  const DType master = master_dtype(models[0].store.dtype());
  const int64_t columns = models[0].config.padded_vocab();
  const auto plan = [&](Arena& arena) {
    return arena.allocate(IncrementalDecoder::logit_rows(context.device()), columns, master);
  };
  Arena measure;
  plan(measure);
  sum_memory_ = Arena(context.device(), measure.high_water(), "beam search");
  sum_ = plan(sum_memory_);
}

void SearchModels::begin(const HostBatch& sources, int64_t max_hypotheses) {
  stage_.wait_until_sent();
  stage_.fill(sources);
  stage_.send();
  for (const auto& member : members_) {
    member->decoder.begin(member->encoder.encode(stage_.batch()), sources.source_offsets, max_hypotheses);
  }
}

void SearchModels::step(std::span<const int32_t> parents, std::span<const int32_t> tokens) {
  for (const auto& member : members_) member->decoder.step(parents, tokens);
}

Tensor SearchModels::logits(int64_t begin, int64_t rows) {
  if (members_.size() == 1) return members_[0]->decoder.logits(begin, rows);
  const Tensor sum = sum_.row_range(0, rows);
  for (size_t m = 0; m < members_.size(); ++m) {
    log_probability_sum(context_, {.logits = members_[m]->decoder.logits(begin, rows),
                                   .vocab = vocab_size_,
                                   .first = m == 0,
                                   .sum = sum});
  }
  return sum;
}

}  // namespace ventris
