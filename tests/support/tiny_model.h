#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "backend/context.h"
#include "model/micro_batch.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"
#include "tests/support/device_buffer.h"

namespace ventris::testing {

/// A sentence pair as words without marks.
struct SentencePair {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
};

inline std::vector<SentencePair> random_sentences(const std::vector<std::pair<int, int>>& lengths,
                                                  int64_t vocab, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<SentencePair> pairs;
  const auto words = [&](int count) {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(3 + static_cast<int32_t>(generator() % (vocab - 3)));
    return out;
  };
  for (const auto& [source, target] : lengths) {
    pairs.push_back({words(source), {}});
    pairs.back().target = words(target);
  }
  return pairs;
}

/// Owns a packed micro-batch: begin mark 1, end mark 2, padding rows of word 0 after the last token.
class PackedBatch {
 public:
  explicit PackedBatch(const std::vector<SentencePair>& pairs, int64_t source_padding = 0,
                       int64_t target_padding = 0) {
    for (const SentencePair& pair : pairs) {
      append(pair.source, source_ids_, source_position_);
      source_ids_.push_back(2);
      source_position_.push_back(static_cast<int32_t>(pair.source.size()));
      source_offsets_.push_back(static_cast<int32_t>(source_ids_.size()));
      target_ids_.push_back(1);
      target_position_.push_back(0);
      for (size_t i = 0; i < pair.target.size(); ++i) {
        target_ids_.push_back(pair.target[i]);
        target_position_.push_back(static_cast<int32_t>(i) + 1);
        labels_.push_back(pair.target[i]);
      }
      labels_.push_back(2);
      target_offsets_.push_back(static_cast<int32_t>(target_ids_.size()));
    }
    source_ids_.resize(source_ids_.size() + static_cast<size_t>(source_padding));
    source_position_.resize(source_ids_.size());
    target_ids_.resize(target_ids_.size() + static_cast<size_t>(target_padding));
    target_position_.resize(target_ids_.size());
    labels_.resize(target_ids_.size());
  }

  MicroBatch view(uint32_t source_row_base = 0, uint32_t target_row_base = 0) const {
    return {.sentences = static_cast<int>(source_offsets_.size()) - 1,
            .source_rows = static_cast<int64_t>(source_ids_.size()),
            .target_rows = static_cast<int64_t>(target_ids_.size()),
            .target_tokens = target_offsets_.back(),
            .source_ids = source_ids_.data(),
            .source_position = source_position_.data(),
            .source_offsets = source_offsets_.data(),
            .target_ids = target_ids_.data(),
            .target_position = target_position_.data(),
            .target_offsets = target_offsets_.data(),
            .labels = labels_.data(),
            .source_row_base = source_row_base,
            .target_row_base = target_row_base};
  }

 private:
  static void append(const std::vector<int32_t>& words, std::vector<int32_t>& ids,
                     std::vector<int32_t>& position) {
    ids.insert(ids.end(), words.begin(), words.end());
    for (size_t i = 0; i < words.size(); ++i) position.push_back(static_cast<int32_t>(i));
  }

  std::vector<int32_t> source_ids_, source_position_, source_offsets_ = {0};
  std::vector<int32_t> target_ids_, target_position_, target_offsets_ = {0};
  std::vector<int32_t> labels_;
};

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

/// A model with its parameters. After initialize() biases and norms are random too, so that no gradient is
/// trivial.
class TinyModel {
 public:
  TinyModel(const TransformerConfig& config, DType dtype, int threads = 1, bool training = true)
      : config_(config), context_({.threads = threads}), ids_(declare_transformer(config, store_)) {
    store_.allocate(Device::kCpu, dtype, training);
    store_.initialize(7);
    roughen_vectors();
    model_ = std::make_unique<Transformer>(
        context_, config_, store_, ids_,
        MicroBatchCapacity{.source_rows = 64, .target_rows = 64, .sentences = 16}, training);
  }

  Transformer& model() { return *model_; }
  ParameterStore& store() { return store_; }
  Context& context() { return context_; }
  const TransformerConfig& config() const { return config_; }

  LossSums step(const MicroBatch& batch, float gradient_scale = 1.0F, const GradientsReady& ready = {}) {
    return model_->forward_backward(batch, {.seed = 11, .step = 3}, gradient_scale, ready);
  }

  /// Logits of all rows as doubles, [target_rows][padded_vocab].
  std::vector<double> logits(const MicroBatch& batch) {
    Buffer out(batch.target_rows, config_.padded_vocab(), store_.dtype());
    model_->logits(batch, out.view());
    std::vector<double> values(static_cast<size_t>(out.size()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = out.get(static_cast<int64_t>(i));
    return values;
  }

  void zero_gradients() { fill(0.0); }
  void fill(double value) {
    const Tensor all = store_.gradients();
    for (int64_t i = 0; i < all.cols; ++i) set(all, i, value);
  }
  std::vector<double> gradients() const {
    const Tensor all = const_cast<ParameterStore&>(store_).gradients();
    std::vector<double> values(static_cast<size_t>(all.cols));
    for (size_t i = 0; i < values.size(); ++i) values[i] = get(all, static_cast<int64_t>(i));
    return values;
  }

  static double get(ConstTensor row, int64_t i) {
    return row.dtype == DType::kF64 ? row.as<double>()[i] : static_cast<double>(row.as<float>()[i]);
  }
  static void set(Tensor row, int64_t i, double value) {
    if (row.dtype == DType::kF64) {
      row.as<double>()[i] = value;
    } else {
      row.as<float>()[i] = static_cast<float>(value);
    }
  }

 private:
  void roughen_vectors() {
    std::mt19937 generator(23);
    std::normal_distribution<double> normal(0.0, 0.2);
    for (const LogicalParameter& parameter : store_.logical()) {
      if (!parameter.vector) continue;
      const Tensor view = store_.logical_value(parameter);
      for (int64_t i = 0; i < view.cols; ++i) set(view, i, get(view, i) + normal(generator));
    }
  }

  TransformerConfig config_;
  Context context_;
  ParameterStore store_;
  TransformerIds ids_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace ventris::testing
