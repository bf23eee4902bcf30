// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/io/hdf5_reader.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/initial_embeddings.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Context;
class Optimizer;
class Progress;

/// The model of train --init, on the host in f32, from which a run starts. The function of the run's model
/// must be that of the file, but tables that are one there may be apart in the run; of the vocabularies with
/// --init-vocabulary extend it is only a part.
class InitialModel {
 public:
  /// Reads options.initial_model, with a complete options.model. Errors: those of import_model();
  /// Error(kBadConfiguration) if its network is another, naming the settings; if
  /// its tables are apart where those of this run are one; if its tokens are not those of the corpus and
  /// options.initial_vocabulary is "match"; and if options.initial_optimizer is "keep" and the file has no
  /// moments, or not those of the tables of this run.
  InitialModel(const TrainOptions& options, const data::Corpus& corpus);
  ~InitialModel();

  const std::string& path() const;
  /// Copies all parameters into `store`, the rows of tokens that both vocabularies have included; the rows of
  /// new tokens stay.
  void copy_parameters(Context& context, ParameterStore& store) const;
  /// With --init-optimizer keep: the same for Adam's moments, into state on the host or the context's device;
  /// those of new tokens become zero.
  void copy_moments(Context& context, const ParameterStore& store, const OptimizerState& state) const;
  /// The updates after which these are the moments; 0 for a fresh optimizer.
  int64_t updates() const { return updates_; }

  /// What a vocabulary of the corpus takes over from that of the model.
  struct MatchedTokens {
    std::string side;                     // "source" or "target"; "" if both have one vocabulary
    std::vector<int32_t> rows;            // the token of the model by token of the corpus, or -1
    std::vector<std::string> new_tokens;  // those of the corpus that the model lacks, in their order
    int64_t left_out;                     // tokens of the model that the corpus lacks
  };
  /// That of sources, if there are two, and that of targets.
  const std::vector<MatchedTokens>& matched_tokens() const { return matched_; }

 private:
  void match_tokens(const TrainOptions& options, const data::Corpus& corpus);
  void find_moments();
  /// Throws Error(kBadData) naming the fault of the optimizer's state (trainer/checkpoint/checkpoint.h), if
  /// any.
  void check_moments(const std::string& fault) const;
  /// Copies one flat buffer of the model, on the host, into one of `store`: all, or what is `trained`.
  void copy(Context& context, const ParameterStore& store, ConstTensor from, Tensor to, bool trained) const;

  std::unique_ptr<LoadedModel> model_;
  std::vector<MatchedTokens> matched_;
  int64_t updates_ = 0;
  std::unique_ptr<data::Hdf5Reader> moments_;  // of the checkpoint, with "keep"
};

/// What a new run takes over with --init or files of vectors, in the place of random values. Nothing for a
/// run that resumes. All functions must be called on all ranks.
class InitialValues {
 public:
  /// The references must outlive the object.
  InitialValues(Context& context, Communicator& communicator, const TrainOptions& options,
                const data::Corpus& corpus, bool resumes, Progress& progress);

  /// Changes the values of the store on rank 0, from which the others get them, and clears the row of
  /// config.zero_token. Errors: those of InitialModel, embedding_files() and read_embeddings().
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
