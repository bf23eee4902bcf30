// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "model/transformer_parameters.h"
#include "trainer/initial_embeddings.h"
#include "trainer/initial_model.h"

namespace ventris {

class Communicator;
class Optimizer;
class Progress;

/// What a new run takes over with --init or files of vectors, in the place of random values. Nothing for a
/// run that resumes. All functions must be called on all ranks.
class InitialValues {
 public:
  /// The references must outlive the object.
  InitialValues(Context& context, Communicator& communicator, const TrainOptions& options,
                const data::Corpus& corpus, bool resumes, Progress& progress);

  /// Changes the values of the store on rank 0, from which the others get them, and clears the row of
  /// config.zero_word. Errors: those of InitialModel, embedding_files() and read_embeddings().
  void take_parameters(const TransformerIds& ids, ParameterStore& store);
  /// After the ranks have the parameters: gives them Adam's moments with --init-optimizer keep, and returns
  /// the number of updates that these have seen; writes the list of new tokens.
  int64_t take_moments(const ParameterStore& store, Optimizer& optimizer);

 private:
  void take_given(const TransformerIds& ids, ParameterStore& store);
  void take_embeddings(const EmbeddingFile& file, const TransformerIds& ids, ParameterStore& store);
  void report_tokens();

  Context& context_;
  Communicator& communicator_;
  const TrainOptions& options_;
  const data::Corpus& corpus_;
  const bool resumes_;
  Progress& progress_;
  std::optional<InitialModel> model_;  // on rank 0
};

}  // namespace ventris
