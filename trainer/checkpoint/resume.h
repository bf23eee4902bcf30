// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/io/hdf5_reader.h"
#include "model/parameters.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Progress;

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

/// The checkpoint of options.resume, on every rank; rank 0 finds it. With "auto" it is the newest sound one
/// of the run folder: a damaged one is set aside with a warning. A named file is where the run begins: after
/// a later save, the same command also resumes from the newest. Half-written files of an earlier run are
/// removed; `alone` as in data/io/temporary_name.h.
ResumePoint find_resume_point(Communicator& communicator, const TrainOptions& options, bool alone,
                              Progress& progress);

/// Gives every rank Adam's moments, which `fill` writes on rank 0.
void share_moments(Context& context, Communicator& communicator, const ParameterStore& store,
                   Optimizer& optimizer, const std::function<void(const OptimizerState& whole)>& fill);

/// Restores parameters, moments and state on every rank from the checkpoint of the point; rank 0 reads it.
/// With "auto", a checkpoint whose arrays are not sound, which no run saves, is set aside, and the start ends
/// with Error(kUnavailable): the next one takes the previous checkpoint. If the path is "", the parameters of
/// rank 0 are copied to every rank and the state is unchanged. Throws Error(kBadConfiguration) naming the
/// first key in which the checkpoint differs from the run, with both values.
void resume(Context& context, Communicator& communicator, ResumePoint& point, const TrainOptions& options,
            ParameterStore& store, Optimizer& optimizer, TrainingState& state, Progress& progress);

/// Throws what find_resume_point() and resume() would for a checkpoint whose model is known to be right
/// (check_model), as far as they need no options.
void check_resume_point(const data::Hdf5Reader& reader);

}  // namespace ventris
