#pragma once

#include <span>
#include <string>

#include "data/files/hdf5_reader.h"
#include "trainer/files/checkpoint.h"

// A state that no training comes to is nothing to go on from: it is neither written nor taken. Each function
// returns its first fault, as "NaN or Inf in /adam/m", or "" where it is sound.

namespace ventris {

/// Of counters: those that are negative, greater than 2^53, or greater than the step that they are part of.
std::string fault_in(const TrainingState& state);

/// Of the values of an array of a checkpoint: NaN, Inf, and in Adam's second moment, a mean of squares, what
/// is negative.
std::string fault_in(std::span<const float> values, const std::string& name);

/// Of the arrays, with the parameter: "NaN or Inf in /adam/m, at encoder/layers/0/...". Makes no MPI and no
/// CUDA call.
std::string fault_in(const CheckpointSnapshot& snapshot);

/// Of the training state that a file tells; its arrays are looked at when they are loaded.
std::string fault_in(const data::Hdf5Reader& reader);

}  // namespace ventris
