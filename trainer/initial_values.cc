// SPDX-License-Identifier: Apache-2.0
#include "trainer/initial_values.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "backend/device/transfer.h"
#include "comm/communicator.h"
#include "trainer/checkpoint/model_files.h"
#include "trainer/checkpoint/resume.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/observers/progress.h"
#include "trainer/optimizer.h"
#include "trainer/text.h"

namespace ventris {

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
  clear_zero_word(context_, options_.model, store.logical_value(*table));
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
  share_moments(context_, communicator_, store, optimizer,
                [&](const OptimizerState& whole) { model_->copy_moments(context_, store, whole); });
  const int64_t updates =
      std::stoll(communicator_.broadcast(std::to_string(model_ ? model_->updates() : 0), 0));
  progress_.message(fmt::format("Adam continues with its moments after {}", counted(updates, "update")));
  return updates;
}

void InitialValues::report_tokens() {
  for (const InitialModel::MatchedTokens& matched : model_->matched_tokens()) {
    const std::vector<std::string>& added = matched.new_tokens;
    const std::string path = path_of_new_tokens(options_.model_dir, matched.side);
    write_file_atomically(path, fmt::format("{}{}", fmt::join(added, "\n"), added.empty() ? "" : "\n"));
    const size_t all = matched.rows.size();
    progress_.message(fmt::format(
        "{} of {} {}tokens keep their embedding, {} are new and initialised ({}), and {} of the model are "
        "left out",
        all - added.size(), all, matched.side.empty() ? "" : matched.side + " ", added.size(), path,
        matched.left_out));
  }
}

}  // namespace ventris
