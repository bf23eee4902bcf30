// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "backend/device/transfer.h"
#include "model/batch_stage.h"
#include "model/packed_pairs.h"
#include "model/parameters.h"
#include "model/pass.h"
#include "model/transformer.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"
#include "tests/support/packed_batch.h"

namespace ventris::testing {

/// A small shape with awkward sizes.
inline TransformerConfig tiny_config(bool pre_norm, bool learned_positions = false) {
  return {.encoder_layers = 2,
          .decoder_layers = 2,
          .d_model = 12,
          .d_ff = 20,
          .heads = 3,
          .vocab_size = 19,
          .pre_norm = pre_norm,
          .learned_positions = learned_positions,
          .max_positions = 16,
          .dropout = 0.2F,
          .attention_dropout = 0.1F};
}

/// The same with all that Marian's function has besides.
inline TransformerConfig marian_config(bool pre_norm) {
  TransformerConfig config = tiny_config(pre_norm);
  config.layer_norm_epsilon = 1e-6F;
  config.marian_positions = true;
  config.zero_start = true;
  config.activation = Activation::kSwish;
  config.output_bias = true;
  return config;
}

/// The same with a vocabulary for each side, whose tables have other extents in memory too.
inline TransformerConfig two_vocabularies(TransformerConfig config, Tie tie) {
  config.tie = tie;
  config.source_vocab_size = 140;
  return config;
}

inline constexpr Marks kTinyMarks{.source_end_id = 2, .begin_id = 1, .end_id = 2};

/// A model with its parameters, on any device. After initialize() biases and norms are random too, so that no
/// gradient is trivial.
class TinyModel {
 public:
  static constexpr MicroBatchCapacity kCapacity = {.source_rows = 64, .target_rows = 64, .sentences = 16};

  TinyModel(const TransformerConfig& config, DType dtype, const ContextOptions& options, KeptActivations kept,
            StagedRows rows, const std::vector<std::string>& freeze = {})
      : config_(config),
        context_(options),
        ids_(declare_transformer(config, store_)),
        stage_(context_, kCapacity, rows, orders(kept)),
        weighted_stage_(context_, kCapacity, rows, orders(kept), StagedWeights::kRows) {
    store_.freeze(freeze);
    store_.allocate(context_.device(), dtype, kept != KeptActivations::kNone);
    store_.initialize(context_, 7);
    roughen_vectors();
    model_ = std::make_unique<Transformer>(context_, config_, store_, ids_, kCapacity, kept);
  }
  TinyModel(const TransformerConfig& config, DType dtype, const ContextOptions& options)
      : TinyModel(config, dtype, options, KeptActivations::kAll, staged_rows_of(options.device)) {}
  TinyModel(const TransformerConfig& config, DType dtype, int threads = 1,
            KeptActivations kept = KeptActivations::kAll, StagedRows rows = StagedRows::kExact)
      : TinyModel(config, dtype, ContextOptions{.threads = threads}, kept, rows) {}

  Transformer& model() { return *model_; }
  ParameterStore& store() { return store_; }
  const TransformerIds& ids() const { return ids_; }
  Context& context() { return context_; }
  const TransformerConfig& config() const { return config_; }

  /// The batch on the device, until the next call.
  const MicroBatch& place(const PackedBatch& batch, const BatchKeys& keys = {}) {
    BatchStage& stage = batch.weighted() ? weighted_stage_ : stage_;
    stage.wait_until_sent();
    stage.fill(batch.view(keys));
    stage.send();
    return stage.batch();
  }

  LossSums step(const PackedBatch& batch, const BatchKeys& keys = {}, const GradientsReady& ready = {},
                uint64_t seed = 11) {
    model_->forward_backward(place(batch, keys), seed, ready);
    return model_->take_loss_sums();
  }
  LossSums evaluate(const PackedBatch& batch) {
    model_->evaluate(place(batch));
    return model_->take_loss_sums();
  }

  /// Logits of the rows of the batch as doubles, [target rows][padded_vocab].
  std::vector<double> logits(const PackedBatch& batch) {
    const MicroBatch& placed = place(batch);
    Arena memory(context_.device(),
                 static_cast<size_t>(placed.target_rows * config_.padded_vocab()) * size_of(store_.dtype()));
    const Tensor out = memory.allocate(placed.target_rows, config_.padded_vocab(), store_.dtype());
    model_->logits(placed, out);
    return to_doubles(out.row_range(0, batch.target_rows()));
  }

  /// The elements of a matrix on the device, row by row.
  std::vector<double> to_doubles(ConstTensor matrix) {
    const HostCopy host(context_, matrix);
    std::vector<double> values;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      for (int64_t c = 0; c < matrix.cols; ++c) values.push_back(get(host.view().row_range(r, 1), c));
    }
    return values;
  }
  /// Changes the master values through a copy in host memory, and the bf16 copy with them.
  template <typename Change>
  void change_values(const Change& edit) {
    change(store_.values(), edit);
    store_.refresh_compute_copy(context_);
  }

  /// Changes the gradients in the same way.
  template <typename Change>
  void change_gradients(const Change& edit) {
    change(store_.gradients(), edit);
  }

  void zero_gradients() { fill(0.0); }
  void fill(double value) {
    change_gradients([&](Tensor all) {
      for (int64_t i = 0; i < all.cols; ++i) set(all, i, value);
    });
  }
  std::vector<double> gradients() { return to_doubles(store_.gradients()); }

  static double get(ConstTensor row, int64_t i) {
    if (row.dtype == DType::kF64) return row.as<double>()[i];
    if (row.dtype == DType::kBF16) return static_cast<double>(static_cast<float>(row.as<BF16>()[i]));
    return static_cast<double>(row.as<float>()[i]);
  }
  static void set(Tensor row, int64_t i, double value) {
    if (row.dtype == DType::kF64) {
      row.as<double>()[i] = value;
    } else {
      row.as<float>()[i] = static_cast<float>(value);
    }
  }

 private:
  StagedOrders orders(KeptActivations kept) const {
    return kept != KeptActivations::kNone ? training_orders(context_.device(), config_) : StagedOrders::kNone;
  }
  template <typename Change>
  void change(Tensor flat, const Change& edit) {
    const HostCopy read(context_, flat);
    const auto* first = static_cast<const char*>(read.view().data);
    std::vector<char> bytes(first, first + static_cast<size_t>(flat.size()) * size_of(flat.dtype));
    Tensor host = flat;
    host.data = bytes.data();
    edit(host);
    copy_to_device(context_, flat.data, bytes.data(), bytes.size());
  }
  void roughen_vectors() {
    std::mt19937 generator(23);
    std::normal_distribution<double> normal(0.0, 0.2);
    change_values([&](Tensor all) {
      for (const LogicalParameter& parameter : store_.logical()) {
        if (!parameter.vector) continue;
        const Tensor view = store_.logical_block(all, parameter);
        for (int64_t i = 0; i < view.cols; ++i) set(view, i, get(view, i) + normal(generator));
      }
    });
  }

  TransformerConfig config_;
  Context context_;
  ParameterStore store_;
  TransformerIds ids_;
  BatchStage stage_, weighted_stage_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace ventris::testing
