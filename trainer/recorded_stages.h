// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "data/batches.h"
#include "trainer/files/mix_state.h"

namespace ventris {

/// Where a run ended its stages, by its newest checkpoint and the lines after it in metrics.jsonl.
struct RecordedStages {
  MixState mix;
  int64_t last_step = 0;           // up to which the record reaches
  std::string corpus_digest = {};  // of the newest checkpoint; "" without one
};

/// For the run in the folder with this plan (data::to_text()). Errors: those of data::Hdf5Reader, and
/// Error(kBadData) for what training cannot have written.
RecordedStages recorded_stages(const std::string& folder, const std::string& plan);

/// A position of a run between two steps.
struct RecordedPosition {
  int64_t step = 0;  // steps done
  data::DataPosition position;
};

/// Of the newest checkpoint of the folder with at most `steps` steps done; the begin of the run if there is
/// none.
RecordedPosition recorded_position(const std::string& folder, int64_t steps);

}  // namespace ventris
