// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "model/teachers.h"
#include "model/transformer.h"
#include "trainer/files/weights.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;

/// The models of train --teacher, and what a run and its plan need to know of them.
class TeacherModels {
 public:
  /// Loads options.teachers, each an argument of load_model(), onto the device, in the precision of
  /// `options`, which is resolved, as is options.model. Errors: those of load_model();
  /// Error(kBadConfiguration) for a teacher that has other vocabularies than the corpus, naming the first
  /// difference, or learned positions for shorter sentences only.
  TeacherModels(Context& context, const TrainOptions& options, const data::Corpus& corpus);

  /// The files that were read.
  std::vector<std::string> paths() const;
  /// parameter_digest() of each, separated by blanks.
  const std::string& digests() const { return digests_; }
  std::vector<TransformerConfig> configs() const;
  /// A line for each and one of how they teach, for people.
  std::vector<std::string> descriptions() const;
  /// Bytes of a rank: of their parameters; of the rest, with a student of that capacity.
  int64_t parameter_bytes() const;
  int64_t activation_bytes(Device device, const MicroBatchCapacity& capacity) const;

  /// Makes the student, which is planned for `capacity`, learn from them in its training steps.
  void teach(Transformer& student, const MicroBatchCapacity& capacity);

 private:
  Context& context_;
  const Distillation how_;
  const DType dtype_;
  const TransformerConfig student_;
  std::vector<std::unique_ptr<LoadedModel>> models_;
  std::string digests_;
  std::optional<Teachers> teachers_;  // after teach()
};

/// Those of options.teachers; null without. Throws as above, and Error(kRanksDisagree) if their number or
/// parameters differ. All ranks must call it.
std::unique_ptr<TeacherModels> load_teachers(Context& context, Communicator& communicator,
                                             const TrainOptions& options, const data::Corpus& corpus);

}  // namespace ventris
