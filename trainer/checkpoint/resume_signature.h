// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/train_options.h"

namespace ventris {

/// What must be equal between a checkpoint and the run that resumes from it, as "key: value" lines in a fixed
/// order: model shape, batch, seed, Adam's constants, precision. Steps, intervals, learning rate and
/// machine options may differ.
std::string resume_signature(const TrainOptions& options);

/// The precision in a resume_signature(); kAuto if there is none that this version knows.
Precision precision_of_signature(const std::string& signature);

/// The --begin-embedding of the run that has a resume_signature().
std::string begin_embedding_of_signature(const std::string& signature);
/// The same of --tie.
std::string tie_of_signature(const std::string& signature);

/// Throws Error(kBadConfiguration): the checkpoint at the path was written with another value of an option.
[[noreturn]] void refuse_other_option(const std::string& path, const std::string& option,
                                      const std::string& theirs, const std::string& ours);

/// Compares the resume_signature() of the run that wrote the checkpoint at the path with that of this run.
/// Throws as above, naming the first option that differs and both values.
void check_same_signature(const std::string& path, const std::string& theirs, const std::string& ours);

}  // namespace ventris
