#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/tensor.h"
#include "backend/transfer.h"
#include "data/batches.h"
#include "data/files/hdf5_reader.h"
#include "data/scores/metric.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "trainer/files/mix_state.h"

namespace ventris {

/// The state of a training run except the parameters and Adam's moments.
struct TrainingState {
  int64_t step = 0;             // steps done
  data::DataPosition position;  // of the next batch
  MixState mix;                 // with a plan of stages
  int64_t skipped_steps = 0;    // for NaN or Inf
  int64_t skipped_in_a_row = 0;
  int64_t target_tokens = 0;     // trained on so far
  int64_t logical_shards = 0;    // of a global batch: with the position, determines the batches
  double elapsed_seconds = 0.0;  // of training so far, over all runs
  double best_metric = 0.0;      // by valid_metric; meaningful if best_step > 0
  int64_t best_step = 0;
  double best_due_metric = 0.0;  // the same of the validations that were due by --valid-every alone
  int64_t best_due_step = 0;
  int64_t validations_without_improvement = 0;  // in a row, of those that were due
  double plateau_factor = 1.0;      // of train --schedule plateau: the product of the drops so far,
  double plateau_best = 0.0;        // the best validation for it; meaningful if plateau_best_step > 0,
  int64_t plateau_best_step = 0;    // and
  int64_t plateau_validations = 0;  // those in a row since then, or since the last drop, that were no better
  int64_t validation_pending = 0;   // 1: the validation of this step was abandoned for a stop
  int64_t initial_updates = 0;      // of Adam, before the first step (train --init-optimizer keep)
  std::string valid_metric;         // train --valid-metric
  std::string valid_signature;      // of scores, as last logged; "" before
  // With train --best significant, of each set that decides: counts of the sentences of the best, and of the
  // best of the validations that were due. [sentences, columns]
  std::vector<data::Statistics> best_sentences, best_due_sentences;
  std::string corpus_digest;
  std::string resume_signature;  // trainer/resume_signature.h
  std::string environment;       // trainer/run_environment.h; "" in files of earlier versions
  std::string product_choices;   // trainer/product_choices.h; "" on the CPU
};

/// Calls each(name, member) for every number of the state, in a fixed order.
template <typename State, typename Each>
void for_each_number(State& state, Each&& each) {
  each("step", state.step);
  each("epoch", state.position.epoch);
  each("epoch_index", state.position.index);
  each("skipped_steps", state.skipped_steps);
  each("skipped_in_a_row", state.skipped_in_a_row);
  each("target_tokens", state.target_tokens);
  each("logical_shards", state.logical_shards);
  each("elapsed_seconds", state.elapsed_seconds);
  each("best_metric", state.best_metric);
  each("best_step", state.best_step);
  each("best_due_metric", state.best_due_metric);
  each("best_due_step", state.best_due_step);
  each("validations_without_improvement", state.validations_without_improvement);
  each("plateau_factor", state.plateau_factor);
  each("plateau_best", state.plateau_best);
  each("plateau_best_step", state.plateau_best_step);
  each("plateau_validations", state.plateau_validations);
  each("validation_pending", state.validation_pending);
  each("initial_updates", state.initial_updates);
}

/// Calls each(group, member) for the counts of sentences, in a fixed order.
template <typename State, typename Each>
void for_each_sentences(State& state, Each&& each) {
  each("/best_sentences", state.best_sentences);
  each("/best_due_sentences", state.best_due_sentences);
}

/// Adam's moments in a checkpoint.
inline constexpr const char* kFirstMoment = "/adam/m";
inline constexpr const char* kSecondMoment = "/adam/v";

/// The state of an optimizer in addition to the parameters, on the context's device or on the host.
struct OptimizerState {
  Tensor m;             // [1, trained_size] f32: Adam's moments
  Tensor v;             // the same
  Tensor average = {};  // the same: moving average of the parameters, or empty
  bool on_host = false;
};

/// A snapshot of a training run between two steps, in host memory (page-locked on CUDA), from which a
/// checkpoint is written during training. The memory is allocated once.
class CheckpointSnapshot {
 public:
  /// For an allocated store, which must outlive the object, with or without a moving average.
  CheckpointSnapshot(Context& context, const ParameterStore& store, bool with_average);

  /// Copies the state and returns when the device may continue. What lies in room() already stays as it is.
  void take(const TrainingState& state, const OptimizerState& optimizer);
  /// The memory for the state of an optimizer, to be filled before take().
  OptimizerState room();

  const ParameterStore& store() const { return store_; }  // for names and positions, not for values
  const TrainingState& state() const { return state_; }
  ConstTensor values() const;                 // [1, flat_size] f32
  ConstTensor m() const { return view(m_); }  // [1, trained_size] f32, as the following
  ConstTensor v() const { return view(v_); }
  ConstTensor average() const { return average_ ? view(*average_) : ConstTensor{}; }  // or empty

 private:
  ConstTensor view(const HostBuffer& buffer) const;

  const ParameterStore& store_;
  TrainingState state_;
  HostBuffer values_, m_, v_;
  std::optional<HostBuffer> average_;
};

/// Writes checkpoint-<step, 8 digits>.h5 into the folder: /model, /adam/m, /adam/v (flat in the order of
/// declaration, [flat_size] f32, zero for what is frozen),
/// /ema if there is an average (named as /model), the state, the configuration and the tokenizer; atomic.
/// Reads it again to verify it. Returns its path.
std::string write_checkpoint(const std::string& model_dir, const CheckpointSnapshot& snapshot,
                             const TransformerConfig& config, const data::TokenizerModels& tokenizers,
                             const std::string& provenance);

/// The same from the live training state, in one call.
std::string save_checkpoint(Context& context, const std::string& model_dir, const TrainingState& state,
                            const TransformerConfig& config, const ParameterStore& store,
                            const OptimizerState& optimizer, const data::TokenizerModels& tokenizers,
                            const std::string& provenance);

/// Fills store (masters, on the context's device), optimizer and state, in one read of the file. Throws
/// kBadData if it is of another kind or another model, or without a required average, and UnsoundState: then
/// the contents of the arguments are undefined.
void load_checkpoint(Context& context, const data::Hdf5Reader& reader, const TransformerConfig& config,
                     ParameterStore& store, const OptimizerState& optimizer, TrainingState& state);

}  // namespace ventris
