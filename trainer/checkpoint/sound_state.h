// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "backend/device/error.h"

// A state that training cannot produce is not sound: it is neither written nor resumed. Each function returns
// its first fault, as "NaN or Inf in /adam/m", or "" if it is sound.

namespace ventris {

namespace data {
class Hdf5Reader;
}
class CheckpointSnapshot;
struct TrainingState;

/// A file has numbers that training cannot produce.
class UnsoundState : public Error {
 public:
  /// `fault` as "NaN or Inf in /adam/m".
  UnsoundState(const std::string& path, const std::string& fault)
      : Error(ExitCode::kBadData,
              fmt::format("{}: there is {}: the run that wrote it diverged, or the file was changed; "
                          "use an earlier checkpoint",
                          path, fault)),
        fault_(fault) {}
  const std::string& fault() const { return fault_; }

 private:
  std::string fault_;
};

/// Of counters: those that are negative, greater than 2^53, or greater than the step that they are part of.
std::string fault_in(const TrainingState& state);

/// Of the values of an array of a checkpoint: NaN, Inf, and in Adam's second moment, a mean of squares,
/// negative values.
std::string fault_in(std::span<const float> values, const std::string& name);

/// Of the arrays, with the parameter: "NaN or Inf in /adam/m, at encoder/layers/0/...". Calls no MPI and no
/// CUDA.
std::string fault_in(const CheckpointSnapshot& snapshot);

/// Of the training state of a file; its arrays are checked when they are loaded.
std::string fault_in(const data::Hdf5Reader& reader);

}  // namespace ventris
