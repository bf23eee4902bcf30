// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "data/io/hdf5_reader.h"
#include "trainer/precision.h"

namespace ventris {

/// The checkpoint from which a run resumes.
struct ResumePoint {
  std::string path;                        // of the checkpoint; "" for a new run
  int logical_shards = 0;                  // with which it was trained; 0 if unknown
  std::string valid_metric = {};           // recorded_metric() of that run
  Precision precision = Precision::kAuto;  // of that run; kAuto if unknown
  std::string begin_embedding = {};        // of that run; "" if unknown
  std::string tie = {};                    // the same
  std::string mix = {};                    // mix_json() of that run
  // Only on rank 0, if there is a checkpoint:
  std::unique_ptr<data::Hdf5Reader> reader = {};  // the checkpoint is opened once
};

}  // namespace ventris
