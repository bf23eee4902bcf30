// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/start_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "backend/cpu/gemm_onednn.h"
#include "backend/device/context.h"
#include "backend/device/device.h"
#include "backend/device/error.h"
#include "backend/device/instruction_set.h"
#include "comm/affinity.h"
#include "comm/communicator.h"
#include "data/batches.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "data/scores/unspaced_text.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/exchange/export_limits.h"
#include "trainer/observers/progress.h"
#include "trainer/options/train_rows.h"
#include "trainer/schedule_options.h"
#include "trainer/text.h"
#include "trainer/train_options_json.h"
#include "trainer/validation/validation_metric.h"
#include "trainer/validation/validation_sets.h"

namespace ventris {
namespace {

// A line of the table.
std::string row(const char* what, const std::string& text) {
  return fmt::format("\n  {:<12}{}", what, text);
}

// "2 on node1" or "4 on 2 hosts".
std::string ranks_text(const std::vector<std::string>& host_of_rank) {
  const std::set<std::string> hosts(host_of_rank.begin(), host_of_rank.end());
  return fmt::format("{} on {}", host_of_rank.size(),
                     hosts.size() == 1 ? *hosts.begin() : counted(std::ssize(hosts), "host"));
}

std::string device_text(Context& context, const TrainOptions& options) {
  const std::string threads = counted(context.pool().threads(), "thread");
  if (context.device() == Device::kCuda) {
    const std::string yes = "yes, ";
    std::string build = cuda_build();
    if (build.starts_with(yes)) build.erase(0, yes.size());
    return fmt::format("{}, {} per rank", build, threads);
  }
  std::string text = fmt::format("CPU, {} per rank, instruction set {}", threads, instruction_set());
  if (options.precision == Precision::kBF16) text += ", products of " + gemm_library();
  return text;
}

std::string steps_text(double steps) {
  return steps < 10.0 ? fmt::format("{:.2g}", steps) : thousands(std::llround(steps));
}

std::string corpus_text(const data::Corpus& corpus, const ValidationSets& sets) {
  const data::SentencePairs& train = corpus.train();
  const data::TokenizerPair& tokenizers = corpus.tokenizers();
  const std::string vocabulary = " of a vocabulary of ";
  const std::string of_source =
      tokenizers.shared() ? "" : vocabulary + thousands(tokenizers.source().vocab_size());
  return fmt::format("{} pairs to train on, {} to validate; {} source{} and {} target tokens{}",
                     thousands(train.size()), thousands(sets.pairs()), thousands(train.source.total_tokens()),
                     of_source.empty() ? "" : " tokens" + of_source, thousands(train.target.total_tokens()),
                     vocabulary + thousands(tokenizers.target().vocab_size()));
}

// Empty for that of the paper.
std::string tables_text(Tie tie) {
  return tie == Tie::kAll ? "" : fmt::format(", --tie {}", name_of(tie));
}

// "warm: bt 1 until bt 2; clean 1".
std::string stages_text(const std::string& mix) {
  std::string text;
  for (const char c : mix.substr(0, mix.find_last_not_of('\n') + 1))
    text += c == '\n' ? "; " : std::string(1, c);
  return text;
}

std::string limits_text(const TrainOptions& options, double steps, int64_t first_step) {
  std::string text = fmt::format("to step {}, {:.3g} epochs", thousands(options.max_steps),
                                 static_cast<double>(options.max_steps) / steps);
  if (first_step > 0) text = fmt::format("from step {} ", thousands(first_step)) + text;
  if (options.max_epochs > 0) text += fmt::format("; at most {}", counted(options.max_epochs, "epoch"));
  if (options.max_minutes > 0.0) text += fmt::format("; at most {:g} minutes", options.max_minutes);
  return text;
}

/// With the rate of the next step in a resumed run.
std::string rate_text(const TrainOptions& options, int64_t first_step, double next_rate) {
  const std::string text = describe_schedule(options);
  if (first_step == 0) return text;
  return text + fmt::format("; {:.3g} in step {}", next_rate, thousands(first_step + 1));
}

/// "" if all parameters are trained.
std::string frozen_row(const TrainOptions& options, const ParameterStore& store) {
  if (options.freeze.empty()) return "";
  return row("frozen", fmt::format("{} of the parameters: {}", thousands(store.frozen_count()),
                                   fmt::join(options.freeze, " ")));
}

/// Steps of an epoch if every batch were full on the side that fills it first. Below 1 if a batch is larger
/// than the corpus.
double steps_per_epoch(const TrainOptions& options, const data::SentencePairs& pairs) {
  const auto tokens = [](const data::SentenceArray& side) {  // with end marks, as in batches
    return static_cast<double>(side.total_tokens() + side.size());
  };
  return std::max(tokens(pairs.source) / static_cast<double>(options.batch_source_tokens),
                  tokens(pairs.target) / static_cast<double>(options.batch_target_tokens));
}

/// For a vocabulary with which text of `tokens` tokens is written; `side` is "" if it is that of both.
void warn_of_vocabulary(Progress& progress, const std::string& side, const data::Tokenizer& tokenizer,
                        int64_t tokens) {
  constexpr int64_t kFewUses = 50;  // a token that occurs less often is hardly learned
  const int vocab_size = tokenizer.vocab_size();
  if (tokens / vocab_size >= kFewUses) return;
  progress.warning(fmt::format(
      "the {}vocabulary is large for the text: {} tokens for {}, so each occurs {} times on average; "
      "use more text or a smaller vocabulary ('ventris prepare --{}vocab-size')",
      side, thousands(vocab_size), thousands(tokens), tokens / vocab_size,
      side.empty() ? "" : side.substr(0, side.size() - 1) + "-"));
}

/// Probable mistakes in the corpus or its batches, each with a remedy.
void warn_of_corpus(Progress& progress, const TrainOptions& options, const data::Corpus& corpus,
                    const ValidationSets& sets, double steps_per_epoch) {
  if (steps_per_epoch < 1.0) {
    progress.warning(fmt::format(
        "a batch is larger than the corpus: one step is {:.3g} epochs. "
        "Smaller --batch-source-tokens and --batch-target-tokens give more steps in the same time",
        1.0 / steps_per_epoch));
  }
  const int64_t source_tokens = corpus.train().source.total_tokens();
  const int64_t target_tokens = corpus.train().target.total_tokens();
  const data::TokenizerPair& tokenizers = corpus.tokenizers();
  if (tokenizers.shared()) {
    warn_of_vocabulary(progress, "", tokenizers.target(), source_tokens + target_tokens);
  } else {
    warn_of_vocabulary(progress, "source ", tokenizers.source(), source_tokens);
    warn_of_vocabulary(progress, "target ", tokenizers.target(), target_tokens);
  }
  const ValidationScorer scorer(options);
  if (options.valid_every > 0 && options.translates_validation() &&
      scorer.words_are_phrases(sets.first_references())) {
    progress.warning(
        data::warning_of_phrases("the validation references", scorer.bleu().options().bleu) +
        fmt::format(" (--valid-tokenize). The best checkpoint is that of the best {} (--valid-metric)",
                    options.valid_metric));
  }
}

/// Ranks may have different processors: f32 has the same bits on them, bf16 products do not.
void warn_of_differing_products(Progress& progress, const std::vector<std::string>& library_of_rank) {
  const std::set<std::string> libraries(library_of_rank.begin(), library_of_rank.end());
  if (libraries.size() < 2) return;
  progress.warning(fmt::format(
      "products of bf16 are computed by {} on others, so the result depends on the distribution over the "
      "ranks. Set the same DNNL_MAX_CPU_ISA on all ranks, or use --precision f32, to make it reproducible",
      fmt::join(libraries, " on some ranks and by ")));
}

/// The value of an option, on one line.
std::string value_of(const Option& row) {
  const std::string value = row.show();
  if (value.find('\n') != std::string::npos) return fmt::format("\"{}\"", stages_text(value));
  return value.empty() ? "none" : value;
}

/// The options of the last start in the run folder; none if it cannot be read, which is reported.
std::optional<TrainOptions> last_options(Progress& progress, const std::string& folder) {
  if (!data::is_there(path_of_config(folder))) return std::nullopt;
  try {
    return recorded_options(folder);
  } catch (const std::exception& error) {
    progress.warning(
        fmt::format("the options that changed since the last start are unknown: {}", error.what()));
    return std::nullopt;
  }
}

}  // namespace

void report_start(Progress& progress, Communicator& communicator, Context& context,
                  const TrainOptions& options, const std::string& precision, const data::Corpus& corpus,
                  const ValidationSets& sets, const ParameterStore& store, int64_t first_step,
                  double next_rate) {
  const std::vector<std::string> hosts = communicator.all_gather(host_name());
  const bool by_library = context.device() == Device::kCpu && options.precision == Precision::kBF16;
  const std::vector<std::string> libraries = communicator.all_gather(by_library ? gemm_library() : "");
  if (communicator.rank() != 0) return;
  const TransformerConfig& model = options.model;
  const double steps = steps_per_epoch(options, corpus.train());
  const int shards = options.logical_shards;
  const int ranks = communicator.size();
  progress.message(
      fmt::format("training in {} on {}", readable(options.model_dir), readable(options.corpus)) +
      row("ranks", ranks_text(hosts)) + row("computing", device_text(context, options)) +
      row("precision", precision) +
      row("model", fmt::format("{} parameters, {} + {} layers, width {}, {} heads{}",
                               thousands(store.parameter_count()), model.encoder_layers, model.decoder_layers,
                               model.d_model, model.heads, tables_text(model.tie))) +
      frozen_row(options, store) + row("corpus", corpus_text(corpus, sets)) +
      row("step", fmt::format("up to {} source and {} target tokens, in {}, {} per rank",
                              thousands(options.batch_source_tokens), thousands(options.batch_target_tokens),
                              shards == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", shards),
                              (shards + ranks - 1) / ranks)) +
      row("epoch", fmt::format("about {} steps", steps_text(steps))) +
      (options.mix.empty() ? "" : row("stages", stages_text(options.mix))) +
      row("rate", rate_text(options, first_step, next_rate)) +
      row("training", limits_text(options, steps, first_step)) +
      row("exports", describe_exports(model, corpus.tokenizers().target().begin_id())));
  warn_of_corpus(progress, options, corpus, sets, steps);
  warn_of_differing_products(progress, libraries);
  if (shards < ranks) {
    progress.warning(fmt::format("{} of {} ranks work only in validation: a batch has {}", ranks - shards,
                                 ranks, counted(shards, "logical shard")));
  }
  if (sets.empty() && options.valid_every > 0)
    progress.warning("the corpus has no validation pairs; there is no validation");
}

TrainOptions report_changed_options(Progress& progress, const TrainOptions& options, bool resumes) {
  const std::optional<TrainOptions> last = last_options(progress, options.model_dir);
  if (last) {
    const std::vector<std::string> changed = changed_options(*last, options);
    if (!changed.empty())
      progress.warning(
          fmt::format("options that changed since the last start: {}", fmt::join(changed, "; ")));
  }
  TrainRows rows(options);
  if (!resumes) return rows.options;
  const TrainRows defaults;
  const TrainRows before(last.value_or(TrainOptions()));
  std::vector<std::string> unread;
  for (size_t i = 0; i < rows.table.options().size(); ++i) {
    const Option& row = rows.table.options()[i];
    const Option& recorded = before.table.options()[i];
    if (!row.has(kNewRun) || row.to_json() == recorded.to_json()) continue;
    if (row.to_json() != defaults.table.options()[i].to_json())
      unread.push_back(fmt::format("--{} {}{}", row.name, value_of(row),
                                   last ? " (the run began with " + value_of(recorded) + ")" : ""));
    row.from_json(recorded.to_json());
  }
  if (!unread.empty())
    progress.warning(fmt::format("options that only a new run reads, without effect on one that resumes: {}",
                                 fmt::join(unread, "; ")));
  return rows.options;
}

std::vector<std::string> changed_options(const TrainOptions& before, const TrainOptions& now) {
  const TrainRows old_rows(before);
  const TrainRows new_rows(now);
  std::vector<std::string> changed;
  for (size_t i = 0; i < new_rows.table.options().size(); ++i) {
    const Option& old_row = old_rows.table.options()[i];
    const Option& new_row = new_rows.table.options()[i];
    if (new_row.has(kPlace | kNewRun) || old_row.show() == new_row.show()) continue;
    changed.push_back(fmt::format("--{} from {} to {}", new_row.name, value_of(old_row), value_of(new_row)));
  }
  std::sort(changed.begin(), changed.end());
  return changed;
}

}  // namespace ventris
