// SPDX-License-Identifier: Apache-2.0
#include "trainer/start_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "backend/context.h"
#include "backend/device.h"
#include "backend/error.h"
#include "backend/gemm_cache.h"
#include "backend/instruction_set.h"
#include "comm/affinity.h"
#include "comm/communicator.h"
#include "data/batches.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"
#include "data/files/json_text.h"
#include "trainer/corpus_warnings.h"
#include "trainer/files/export_limits.h"
#include "trainer/files/run_folder.h"
#include "trainer/progress.h"
#include "trainer/run_shape.h"
#include "trainer/schedule_options.h"
#include "trainer/text.h"
#include "trainer/train_options_json.h"
#include "trainer/validation_sets.h"

namespace ventris {
namespace {

// A line of the table.
std::string row(const char* what, const std::string& text) {
  return fmt::format("\n  {:<12}{}", what, text);
}

// "2 on node1" or "4 on 2 hosts, 2 a host".
std::string ranks_text(const std::vector<std::string>& host_of_rank) {
  const std::set<std::string> hosts(host_of_rank.begin(), host_of_rank.end());
  const auto ranks = std::ssize(host_of_rank);
  if (hosts.size() == 1) return fmt::format("{} on {}", ranks, host_of_rank.front());
  int64_t min = ranks;
  int64_t max = 0;
  for (const std::string& host : hosts) {
    const int64_t here = std::count(host_of_rank.begin(), host_of_rank.end(), host);
    min = std::min(min, here);
    max = std::max(max, here);
  }
  const std::string each = min == max ? std::to_string(max) : fmt::format("{} to {}", min, max);
  return fmt::format("{} on {} hosts, {} per host", ranks, hosts.size(), each);
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

/// "" with one set, whose size is in the row of the corpus.
std::string validation_row(const TrainOptions& options, const ValidationSets& sets) {
  if (sets.all().size() < 2 || options.valid_every == 0) return "";
  std::string text;
  for (const ValidationSet& set : sets.all()) {
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", set.name, counted(set.pairs.size(), "pair"));
    if (&set == &sets.all().front()) text += " (decides)";
  }
  return row("sets", text);
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

/// The variable is of all of NVIDIA's libraries: with 0 they use TF32 for nobody who asks.
void warn_of_tf32_that_is_off(Progress& progress, const TrainOptions& options) {
  const char* variable = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (options.precision != Precision::kTf32 || variable == nullptr || std::string_view(variable) != "0")
    return;
  progress.warning(
      "NVIDIA_TF32_OVERRIDE is 0, so cuBLASLt computes the products of --precision tf32 in f32. Unset it to use TF32");
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
      frozen_row(options, store) + row("corpus", corpus_text(corpus, sets)) + validation_row(options, sets) +
      row("step", fmt::format("up to {} source and {} target tokens, in {}, {} per rank",
                              thousands(options.batch_source_tokens), thousands(options.batch_target_tokens),
                              shards == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", shards),
                              (shards + ranks - 1) / ranks)) +
      row("epoch", fmt::format("about {} steps", steps_text(steps))) +
      (options.mix.empty() ? "" : row("stages", stages_text(options.mix))) +
      row("rate", rate_text(options, first_step, next_rate)) +
      row("training", limits_text(options, steps, first_step)) +
      row("exports", describe_exports(model, corpus.tokenizers().target().begin_id())));
  for (const std::string& warning : corpus_warnings(options, corpus, sets)) progress.warning(warning);
  warn_of_differing_products(progress, libraries);
  warn_of_tf32_that_is_off(progress, options);
  if (shards < ranks) {
    progress.warning(fmt::format("{} of {} ranks work only in validation: a batch has {}", ranks - shards,
                                 ranks, counted(shards, "logical shard")));
  }
  if (sets.empty() && options.valid_every > 0)
    progress.warning("the corpus has no validation pairs; there is no validation");
}

void warn_of_changed_options(Progress& progress, const TrainOptions& options) {
  if (!data::is_there(path_of_config(options.model_dir))) return;
  try {
    const std::vector<std::string> changed = changed_options(recorded_options(options.model_dir), options);
    if (changed.empty()) return;
    progress.warning(fmt::format("options that changed since the last start: {}", fmt::join(changed, "; ")));
  } catch (const std::exception& error) {
    progress.warning(
        fmt::format("the options that changed since the last start are unknown: {}", error.what()));
  }
}

std::vector<std::string> changed_options(const TrainOptions& before, const TrainOptions& now) {
  // Of the place, or without effect on a run that resumes.
  static const std::set<std::string> kPassedOver = {
      "model_dir",         "resume",        "vocab_size",        "zero_word",
      "zero_start",        "initial_model", "initial_optimizer", "initial_vocabulary",
      "initial_embeddings"};
  const nlohmann::json old_values = flat_options(before);
  const nlohmann::json new_values = flat_options(now);
  std::vector<std::string> changed;
  for (const auto& [path, value] : new_values.items()) {
    std::string name = path.substr(path.rfind('/') + 1);
    const auto old_value = old_values.find(path);
    if (kPassedOver.contains(name) || old_value == old_values.end() || *old_value == value) continue;
    std::replace(name.begin(), name.end(), '_', '-');
    const auto text = [](const nlohmann::json& of) {
      if (!of.is_string()) return data::utf8_json_text(of);
      const std::string value = of.get<std::string>();
      return value.find('\n') == std::string::npos ? value : fmt::format("\"{}\"", stages_text(value));
    };
    changed.push_back(fmt::format("--{} from {} to {}", name, text(*old_value), text(value)));
  }
  std::sort(changed.begin(), changed.end());
  return changed;
}

}  // namespace ventris
