// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device/arena.h"
#include "model/embedding_layer.h"
#include "model/feed_forward_layer.h"
#include "model/linear.h"
#include "model/output_layer.h"
#include "model/residual_norm.h"
#include "model/search/staged_arrays.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// The decoder for search, one token at a time: every step appends one token to each live hypothesis and
/// computes its new row. Keys and values of earlier tokens stay in a cache. A hypothesis is a list of rows of
/// the cache, so that those with a common beginning share it without copies.
class IncrementalDecoder {
 public:
  /// The maximum number of rows of one call of logits(). On the CPU those of a task of the packed GEMM: more
  /// would be evicted from the caches before they are read, and first use of memory is expensive; a GPU needs
  /// few calls.
  static constexpr int64_t logit_rows(Device device) { return device == Device::kCpu ? 96 : 256; }

  /// The references must outlive the object.
  IncrementalDecoder(Context& context, const TransformerConfig& config, ParameterStore& store,
                     const TransformerIds& ids);

  /// Begins with one hypothesis without tokens for each sentence, hypothesis s for sentence s. `memory` is
  /// the encoder output, [source rows, d_model] T, read only here; source_offsets: [sentences + 1], in host
  /// memory. At most `max_hypotheses` are live at a time.
  void begin(ConstTensor memory, std::span<const int32_t> source_offsets, int64_t max_hypotheses);

  /// New hypothesis i continues hypothesis parents[i] of the last step (or of begin()) with tokens[i]; those
  /// that are not continued are dropped. The first token is the begin mark.
  /// Requires position() < max_positions.
  void step(std::span<const int32_t> parents, std::span<const int32_t> tokens);

  /// Logits of hypotheses [begin, begin + rows) of the last step, [rows, padded_vocab] T (master dtype with a
  /// packed store), which the caller may change; valid until the next call.
  Tensor logits(int64_t begin, int64_t rows);

  /// The number of tokens of every hypothesis, including the begin mark.
  int64_t position() const { return position_; }

 private:
  struct Layer {
    Linear self_projection;
    Linear self_output;
    ResidualNorm self_norm;
    Linear cross_query;
    Linear cross_output;
    ResidualNorm cross_norm;
    FeedForwardLayer feed_forward;
  };
  /// Activations of one step; used by one layer after the other.
  struct Activations {
    Tensor embedded;         // [capacity, d_model] T
    Tensor query_key_value;  // [capacity, 3 * d_model] T: of self-attention
    Tensor query;            // [capacity, d_model] T: of cross-attention
    Tensor attended;         // [capacity, d_model] T
    Tensor self_branch;      // [capacity, d_model] T
    Tensor cross_branch;     // [capacity, d_model] T
    ResidualNorm::Saved self_norm;
    ResidualNorm::Saved cross_norm;
    FeedForwardLayer::Saved feed_forward;
    ResidualNorm::Saved final_norm;
    Tensor logits;  // [logit_rows(), padded_vocab] T, master with a packed store
  };
  /// Inputs of the operations of a step, on the device.
  struct Lists {
    const int32_t* tokens;         // [hypotheses]
    const int32_t* positions;      // [hypotheses]
    const int32_t* history;        // [hypotheses, position_]
    const int32_t* history_begin;  // [hypotheses + 1]
    const int32_t* source_rows;    // as source_rows_
    const int32_t* source_begin;   // [hypotheses + 1]
  };

  Activations plan_activations(Arena& arena, int64_t capacity) const;
  void reserve_activations(int64_t hypotheses);
  void project_memory(ConstTensor memory);
  void make_room(int64_t rows);
  void send_lists();
  void self_attention(Pass& pass, ResidualStream& stream, size_t layer, int64_t new_begin);
  void cross_attention(Pass& pass, ResidualStream& stream, size_t layer);
  MicroBatch micro_batch(int64_t rows) const;

  Context& context_;
  const TransformerConfig config_;
  ParameterStore& store_;
  Arena sinusoid_memory_;
  Tensor sinusoids_;  // [max_positions, d_model] master, if positions are not learned
  EmbeddingLayer embedding_;
  Linear memory_projection_;
  OutputLayer output_;
  std::vector<Layer> layers_;
  NormIds final_norm_;

  Arena activation_memory_;
  int64_t activation_capacity_ = 0;
  Activations activations_;
  Arena projection_memory_;
  int64_t projection_capacity_ = 0;
  Tensor memory_key_value_;  // [source rows, layers * 2 * d_model] T
  Arena cache_memory_;
  int64_t cache_capacity_ = 0;
  int64_t cache_used_ = 0;
  std::vector<Tensor> cache_;  // for each layer [cache_capacity_, 2 * d_model] T: key, value

  int64_t position_ = 0;
  StagedArrays staged_;
  Lists lists_ = {};
  ConstTensor hidden_;                   // [hypotheses, d_model] T
  std::vector<int32_t> source_offsets_;  // [sentences + 1]
  std::vector<int32_t> sentence_;        // [hypotheses]
  std::vector<int32_t> history_;         // [hypotheses, position_] rows of the cache
  std::vector<int32_t> history_begin_;   // [hypotheses + 1]
  std::vector<int32_t> source_rows_;     // for each hypothesis the rows of its source
  std::vector<int32_t> source_begin_;    // [hypotheses + 1]
  std::vector<int32_t> tokens_;          // [hypotheses]
  std::vector<int32_t> positions_;       // [hypotheses]
};

}  // namespace ventris
