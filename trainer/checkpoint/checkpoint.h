// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device/tensor.h"
#include "backend/device/transfer.h"
#include "data/io/hdf5_reader.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "trainer/checkpoint/training_state.h"

namespace ventris {

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

/// The state in a checkpoint, without its parameters and moments, as it is in the file. Throws kBadData if
/// the file is no checkpoint.
TrainingState read_state(const data::Hdf5Reader& reader);

/// Fills store (masters, on the context's device), optimizer and state, in one read of the file. Throws
/// kBadData if it is of another kind or another model, or without a required average, and UnsoundState: then
/// the contents of the arguments are undefined.
void load_checkpoint(Context& context, const data::Hdf5Reader& reader, const TransformerConfig& config,
                     ParameterStore& store, const OptimizerState& optimizer, TrainingState& state);

/// Throws what load_checkpoint() would, but that it does not know the options of a run, nor whether its
/// parameters have an average. For a file whose model is known to be right (check_model).
void check_checkpoint(const data::Hdf5Reader& reader);

/// A state that training cannot produce is not sound: it is neither written nor resumed. Each function
/// returns its first fault, as "NaN or Inf in /adam/m", or "" if it is sound. Of counters: those that are
/// negative, greater than 2^53, or greater than the step that they are part of.
std::string fault_in(const TrainingState& state);
/// Of the arrays, with the parameter: "NaN or Inf in /adam/m, at encoder/layers/0/...". Calls no MPI and no
/// CUDA.
std::string fault_in(const CheckpointSnapshot& snapshot);
/// Of the training state of a file; its arrays are checked when they are loaded.
std::string fault_in(const data::Hdf5Reader& reader);

}  // namespace ventris
