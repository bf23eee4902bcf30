// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/train_options.h"

namespace ventris {

/// What must be equal between a checkpoint and the run that resumes from it: a line "NAME: VALUE" for each
/// row with kFixed, and for the sizes of the vocabularies. The options must be resolved.
std::string resume_signature(const TrainOptions& options);

/// The value of an option in a resume_signature(), as the user writes it; "" if it has none.
std::string option_in_signature(const std::string& signature, const std::string& name);

/// Throws Error(kBadConfiguration): the checkpoint at the path was written with another value of an option.
[[noreturn]] void refuse_other_option(const std::string& path, const std::string& option,
                                      const std::string& theirs, const std::string& ours);

/// Compares the resume_signature() of the run that wrote the checkpoint at the path with that of this run.
/// Options that `theirs` lacks had their defaults. Throws as above, naming the first option that differs and
/// both values.
void check_same_signature(const std::string& path, const std::string& theirs, const std::string& ours);

}  // namespace ventris
