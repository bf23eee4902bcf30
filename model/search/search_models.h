// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/device/arena.h"
#include "model/batch_stage.h"
#include "model/search/beam_search.h"
#include "model/search/incremental_decoder.h"
#include "model/transformer.h"

namespace ventris {

/// Throws Error(kBadConfiguration) unless there is a model and all have one size of vocabulary and one dtype.
void check_models(std::span<const SearchModel> models);

/// The models of a search, one or several, as one decoder: encoders and decoders of all advance together. On
/// the CPU the values of the parameters are those at the time of construction.
class SearchModels {
 public:
  /// At most `source_rows` rows of sources in a batch. Requires check_models().
  SearchModels(Context& context, std::span<const SearchModel> models, int64_t source_rows);

  /// Encodes packed source sentences, in host memory, and starts as IncrementalDecoder::begin().
  void begin(const HostBatch& sources, int64_t max_hypotheses);
  /// As IncrementalDecoder::step().
  void step(std::span<const int32_t> parents, std::span<const int32_t> tokens);
  /// Logits of hypotheses [begin, begin + rows) of the last step, [rows, padded_vocab], which the caller may
  /// change; at most IncrementalDecoder::logit_rows(), valid until the next call. Of one model: its logits,
  /// T. Of several: logarithms of the sums of their probabilities, master dtype, so that softmax gives the
  /// mean.
  Tensor logits(int64_t begin, int64_t rows);

  Device device() const { return context_.device(); }
  int64_t vocab_size() const { return vocab_size_; }
  int max_positions() const { return max_positions_; }

 private:
  struct Member {
    Member(Context& context, const SearchModel& model, int64_t source_rows);
    std::optional<ParameterStore> packed;  // if the store of the model can be packed and is not
    ParameterStore& store;
    Transformer encoder;
    IncrementalDecoder decoder;
  };

  Context& context_;
  int64_t vocab_size_;
  int max_positions_;
  std::vector<std::unique_ptr<Member>> members_;
  BatchStage stage_;  // of the encoders' input
  Arena sum_memory_;
  Tensor sum_;  // [logit_rows(), padded_vocab] master, with several models
};

}  // namespace ventris
