// SPDX-License-Identifier: Apache-2.0
#include "trainer/initial_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "comm/communicator.h"
#include "data/io/atomic_file.h"
#include "data/io/element_type.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/import.h"
#include "trainer/observers/progress.h"
#include "trainer/optimizer.h"
#include "trainer/options/model_config.h"
#include "trainer/text.h"

namespace ventris {

namespace {

/// Tables that are one cannot begin with values of two.
void check_tables(const LoadedModel& model, const TransformerConfig& ours, const TrainOptions& options) {
  const Tie theirs = model.config.tie;
  if (ours.tie < theirs) {
    fail(ExitCode::kBadConfiguration,
         "{} has tables of tokens that are apart, --tie {}, but this run has --tie {}, where they are one. "
         "Give --tie {}{}",
         model.path, name_of(theirs), name_of(ours.tie), name_of(theirs),
         theirs == Tie::kNone ? "" : " or none");
  }
  if (ours.tie != theirs && options.initial_optimizer == "keep") {
    fail(
        ExitCode::kBadConfiguration,
        "--init-optimizer keep: the moments of {} are of the sums of gradients of --tie {}, but this run has "
        "--tie {}. Give --tie {}, or --init-optimizer fresh",
        model.path, name_of(theirs), name_of(ours.tie), name_of(theirs));
  }
}

void check_same_function(const LoadedModel& model, const TrainOptions& options) {
  check_tables(model, options.model, options);
  // Settings that change neither shape nor meaning of a parameter may differ; tokens are compared apart.
  TransformerConfig theirs = model.config;
  copy_training_settings(options.model, theirs);
  theirs.vocab_size = options.model.vocab_size;
  theirs.source_vocab_size = options.model.source_vocab_size;
  theirs.tie = options.model.tie;
  if (theirs.zero_token >= 0 && options.model.zero_token >= 0) theirs.zero_token = options.model.zero_token;
  if (!theirs.learned_positions) theirs.max_positions = options.model.max_positions;
  if (theirs == options.model) return;
  fail(ExitCode::kBadConfiguration,
       "{} has another model than this run: {}. Give the options of its model ('ventris inspect {}')",
       model.path, differences(theirs, options.model), model.path);
}

/// The parameter of the model from which one of the run begins: where the run has a table of its own, that
/// which stands for it.
const LogicalParameter* origin_of(const std::string& name, const ParameterStore& theirs) {
  const LogicalParameter* found = theirs.find(name);
  if (found == nullptr && name == kOutputWeight) found = theirs.find(kTargetEmbedding);
  return found != nullptr || !is_table(name) ? found : theirs.find(kEmbedding);
}

/// For every token of `ours` the token of `theirs` that means the same, or -1: the same mark (unknown, begin,
/// end), or the same text.
std::vector<int32_t> matching_tokens(const data::Tokenizer& ours, const data::Tokenizer& theirs) {
  const auto marks = [](const data::Tokenizer& tokenizer) {
    return std::vector<int32_t>{tokenizer.end_id(), tokenizer.begin_id(), tokenizer.unknown_id()};
  };
  std::vector<int32_t> rows(static_cast<size_t>(ours.vocab_size()));
  const std::vector<int32_t> their_marks = marks(theirs);
  for (int32_t id = 0; id < ours.vocab_size(); ++id) {
    const int32_t found = theirs.find(ours.piece(id));
    const bool mark = std::find(their_marks.begin(), their_marks.end(), found) != their_marks.end();
    rows[static_cast<size_t>(id)] = mark ? -1 : found;
  }
  // A model without a begin mark has the unknown token in its place, which is written last.
  const std::vector<int32_t> our_marks = marks(ours);
  for (size_t i = 0; i < our_marks.size(); ++i) rows[static_cast<size_t>(our_marks[i])] = their_marks[i];
  return rows;
}

InitialModel::MatchedTokens match_side(const std::string& side, const data::Tokenizer& ours,
                                       const data::Tokenizer& theirs) {
  InitialModel::MatchedTokens matched = {
      .side = side, .rows = matching_tokens(ours, theirs), .new_tokens = {}, .left_out = 0};
  std::vector<bool> used(static_cast<size_t>(theirs.vocab_size()));
  for (int32_t id = 0; id < ours.vocab_size(); ++id) {
    const int32_t row = matched.rows[static_cast<size_t>(id)];
    if (row < 0) {
      matched.new_tokens.push_back(ours.piece(id));
    } else {
      used[static_cast<size_t>(row)] = true;
    }
  }
  matched.left_out = std::count(used.begin(), used.end(), false);
  return matched;
}

}  // namespace

InitialModel::InitialModel(const TrainOptions& options, const data::Corpus& corpus) {
  Context host(ContextOptions{.threads = 1});
  const bool keeps = options.initial_optimizer == "keep";
  model_ = import_model(host, {.input = options.initial_model});
  check_same_function(*model_, options);
  match_tokens(options, corpus);
  if (!keeps) return;
  find_moments();
  // Those of the last step, to which the moments belong, and not their average.
  read_model(host, *moments_, model_->store);
}

InitialModel::~InitialModel() = default;

const std::string& InitialModel::path() const {
  return model_->path;
}

void InitialModel::match_tokens(const TrainOptions& options, const data::Corpus& corpus) {
  const data::TokenizerPair& theirs = *model_->tokenizers;
  const data::TokenizerPair& ours = corpus.tokenizers();
  const bool one = theirs.shared() && ours.shared();
  if (!one) matched_.push_back(match_side("source", ours.source(), theirs.source()));
  matched_.push_back(match_side(one ? "" : "target", ours.target(), theirs.target()));
  if (options.initial_vocabulary == "extend") return;
  const auto check_side = [&](const std::string& of, const data::Tokenizer& mine,
                              const data::Tokenizer& other) {
    if (other.model() == mine.model()) return;
    const std::string difference = data::vocabulary_difference(other, mine);
    fail(ExitCode::kBadConfiguration,
         "{} has another tokenizer{} than {}: {}. Prepare the corpus with its tokenizer (prepare "
         "--tokenizer-from {}), or keep what both have with --init-vocabulary extend",
         path(), of, corpus.path(), difference.empty() ? "the same tokens, cut differently" : difference,
         path());
  };
  check_side(one ? "" : " of targets", ours.target(), theirs.target());
  if (!one) check_side(" of sources", ours.source(), theirs.source());
}

void InitialModel::find_moments() {
  const auto refuse = [&](const std::string& why) {
    fail(
        ExitCode::kBadConfiguration,
        "--init-optimizer keep: {} has no moments of Adam, as it is {}. Give a checkpoint or the folder of a "
        "run, or --init-optimizer fresh",
        path(), why);
  };
  if (is_safetensors(path()) || is_npz(path())) refuse("no checkpoint");
  moments_ = std::make_unique<data::Hdf5Reader>(path());
  if (moments_->string_attribute("/", "format") != kCheckpointFormat) refuse("a weights file");
  check_moments(fault_in(*moments_));
  updates_ = moments_->int_attribute("/", "step") - moments_->int_attribute("/", "skipped_steps");
  if (moments_->has_attribute("/", "initial_updates"))
    updates_ += moments_->int_attribute("/", "initial_updates");
  TrainingState ours;
  ours.initial_updates = updates_;
  check_moments(fault_in(ours));
}

void InitialModel::check_moments(const std::string& fault) const {
  if (fault.empty()) return;
  fail(
      ExitCode::kBadData,
      "--init-optimizer keep: {} has {}: training does not produce such a state. Give another checkpoint, or "
      "--init-optimizer fresh",
      path(), fault);
}

void InitialModel::copy(Context& context, const ParameterStore& store, ConstTensor from, Tensor to,
                        bool trained) const {
  std::vector<float> values(static_cast<size_t>(to.cols));
  copy_to_host(context, values.data(), to.data, values.size() * sizeof(float));
  const Tensor flat = {values.data(), 1, to.cols, to.cols, DType::kF32};
  for (const LogicalParameter& parameter : store.logical()) {
    const LogicalParameter* there = origin_of(parameter.name, model_->store);
    const ConstTensor theirs = model_->store.logical_block(from, *there);
    const Tensor ours = trained ? store.trained_block(flat, parameter) : store.logical_block(flat, parameter);
    if (!ours) continue;
    const auto copy_row = [&](int64_t to_row, int64_t from_row, int64_t first_to, int64_t first_from,
                              int64_t count) {
      std::memcpy(ours.row<float>(to_row) + first_to, theirs.row<float>(from_row) + first_from,
                  static_cast<size_t>(count) * sizeof(float));
    };
    // Rows of a matrix or elements of a vector that belong to tokens.
    const bool of_tokens = is_table(parameter.name) || parameter.name == kOutputBias;
    if (!of_tokens) {
      for (int64_t row = 0; row < ours.rows; ++row) copy_row(row, row, 0, 0, ours.cols);
      continue;
    }
    const std::vector<int32_t>& rows =
        (parameter.name == kSourceEmbedding ? matched_.front() : matched_.back()).rows;
    for (size_t token = 0; token < rows.size(); ++token) {
      const int64_t mine = static_cast<int64_t>(token);
      if (rows[token] < 0) continue;
      if (parameter.vector) {
        copy_row(0, 0, mine, rows[token], 1);
      } else {
        copy_row(mine, rows[token], 0, 0, ours.cols);
      }
    }
  }
  copy_to_device(context, to.data, values.data(), values.size() * sizeof(float));
}

void InitialModel::copy_parameters(Context& context, ParameterStore& store) const {
  copy(context, store, model_->store.values(), store.values(), /*trained=*/false);
}

void InitialModel::copy_moments(Context& context, const ParameterStore& store,
                                const OptimizerState& state) const {
  std::vector<float> moment(static_cast<size_t>(model_->store.flat_size()));
  const std::vector<int64_t> shape = {model_->store.flat_size()};
  Context host(ContextOptions{.threads = 1});
  const auto read = [&](const char* name, const Tensor& to) {
    moments_->read(name, data::ElementType::kF32, shape, moment.data());
    check_moments(fault_in(moment, name));
    copy(state.on_host ? host : context, store, {moment.data(), 1, shape.front(), shape.front(), DType::kF32},
         to, /*trained=*/true);
  };
  read(kFirstMoment, state.m);
  read(kSecondMoment, state.v);
}

InitialValues::InitialValues(Context& context, Communicator& communicator, const TrainOptions& options,
                             const data::Corpus& corpus, bool resumes, Progress& progress)
    : context_(context),
      communicator_(communicator),
      options_(options),
      corpus_(corpus),
      resumes_(resumes),
      progress_(progress) {}

void InitialValues::take_parameters(const TransformerIds& ids, ParameterStore& store) {
  take_given(ids, store);
  const LogicalParameter* table = store.find(name_of_target_embedding(options_.model.tie));
  clear_zero_token(context_, options_.model, store.logical_value(*table));
}

void InitialValues::take_given(const TransformerIds& ids, ParameterStore& store) {
  if (resumes_ || communicator_.rank() != 0) return;
  for (const EmbeddingFile& file : embedding_files(options_, corpus_.tokenizers().shared()))
    take_embeddings(file, ids, store);
  if (options_.initial_model.empty()) return;
  model_.emplace(options_, corpus_);
  model_->copy_parameters(context_, store);
  progress_.message(fmt::format("starting with the parameters of {}", model_->path()));
}

void InitialValues::take_embeddings(const EmbeddingFile& file, const TransformerIds& ids,
                                    ParameterStore& store) {
  const int64_t d_model = options_.model.d_model;
  const data::TokenizerPair& tokenizers = corpus_.tokenizers();
  const data::Tokenizer& tokenizer = file.source ? tokenizers.source() : tokenizers.target();
  const int64_t tokens = tokenizer.vocab_size();
  std::vector<float> rows(static_cast<size_t>(tokens * d_model));
  const size_t bytes = rows.size() * sizeof(float);
  std::vector<ParameterId> tables;
  if (file.source) tables.push_back(ids.source_embedding);
  if (file.target && (tables.empty() || ids.target_embedding != tables.front()))
    tables.push_back(ids.target_embedding);
  for (const ParameterId table : tables) {
    float* const on_device = store.values().as<float>() + store.offset(table);
    copy_to_host(context_, rows.data(), on_device, bytes);
    const EmbeddingCoverage coverage =
        read_embeddings(file, tokenizer, {rows.data(), tokens, d_model, d_model, DType::kF32});
    copy_to_device(context_, on_device, rows.data(), bytes);
    if (table != tables.front()) continue;
    progress_.message(fmt::format(
        "{} of {} tokens of the {} start with one of the {} vectors of {}, multiplied by {:.4g}",
        coverage.covered, coverage.tokens, file.vocabulary, coverage.entries, file.path, coverage.scale));
  }
}

int64_t InitialValues::take_moments(const ParameterStore& store, Optimizer& optimizer) {
  if (resumes_ || options_.initial_model.empty()) return 0;
  if (model_ && options_.initial_vocabulary == "extend") report_tokens();
  if (options_.initial_optimizer != "keep") return 0;
  const WholeOptimizerState whole(communicator_, store, optimizer);
  if (model_) model_->copy_moments(context_, store, whole.get());
  whole.distribute_moments(context_, communicator_, optimizer);
  const int64_t updates =
      std::stoll(communicator_.broadcast(std::to_string(model_ ? model_->updates() : 0), 0));
  progress_.message(fmt::format("Adam continues with its moments after {}", counted(updates, "update")));
  return updates;
}

void InitialValues::report_tokens() {
  for (const InitialModel::MatchedTokens& matched : model_->matched_tokens()) {
    const std::vector<std::string>& added = matched.new_tokens;
    const std::string path = path_of_new_tokens(options_.model_dir, matched.side);
    data::write_file_atomically(path, fmt::format("{}{}", fmt::join(added, "\n"), added.empty() ? "" : "\n"));
    const size_t all = matched.rows.size();
    progress_.message(fmt::format(
        "{} of {} {}tokens keep their embedding, {} are new and initialised ({}), and {} of the model are "
        "left out",
        all - added.size(), all, matched.side.empty() ? "" : matched.side + " ", added.size(), path,
        matched.left_out));
  }
}

}  // namespace ventris
