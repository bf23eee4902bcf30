// SPDX-License-Identifier: Apache-2.0
#include "launch/options/decoding_options.h"

#include <fmt/core.h>

#include "backend/device/device.h"
#include "backend/device/error.h"
#include "launch/job.h"
#include "launch/output.h"

namespace ventris {

void add_models_option(DecodingOptions& decoding, OptionTable& table) {
  table
      .texts(
          "model", "FILE|DIR...", decoding.models,
          "A weights file, a checkpoint, or a run folder (its best checkpoint, "
          "or the newest if none was validated). Several models with the same vocabulary form an ensemble: "
          "the probability of a token is the mean of theirs.")
      .required = true;
}

void add_search_options(DecodingOptions& decoding, OptionTable& table) {
  BeamSearchOptions& search = decoding.search;
  table.group("Search");
  table.integer("beam-size", search.beam_size, {.min = 1, .max = 256},
                "Hypotheses kept at each step; 1 is greedy search.");
  table.number("length-penalty", search.length_penalty, {.min = 0, .max = 10},
               "alpha of the score log p / ((5 + length) / 6)^alpha; 0 ranks by probability alone.");
  table.integer("max-extra-length", search.max_extra_length, {.min = 0, .max = 65535},
                "A translation has at most N tokens more than its source.");
  table.integer("max-length", search.max_length, {.min = 0, .max = 65535},
                "A translation has at most N tokens; 0: no limit.");
  table.integer("min-length", search.min_length, {.min = 0, .max = 65535},
                "A translation has at least N tokens, unless one of the limits above is lower.");
  table.integer("no-repeat-ngram", search.no_repeat_ngram, {.min = 0, .max = 65535},
                "No n-gram of N tokens occurs twice in a translation; 0: no limit.");
  table.number("repetition-penalty", search.repetition_penalty, {.min = 0.01, .max = 100},
               "Logits of tokens that are already in the translation are divided by this if positive, "
               "otherwise multiplied; 1 changes nothing. Scores include this change.");
  table.group("Sampling");
  table.toggle("sample", search.sample,
               "Draws tokens at random instead of searching. --beam-size is not used; "
               "scores are those of the model, unaffected by the options below.");
  table.number(
      "temperature", search.sampling.temperature, {.min = 0.001, .max = 1000},
      "Divides logits before tokens are drawn; a value below 1 makes probable tokens more probable.");
  table.integer("top-k", search.sampling.top_k, {.min = 0, .max = 1 << 24},
                "Draws only from the N most probable tokens; 0: all.");
  table.number("top-p", search.sampling.top_p, {.min = 1e-6, .max = 1},
               "Draws only from the most probable tokens that together have this probability.");
  table.integer("seed", search.sampling.seed, {},
                "Seed of the random numbers, which depend only on it, "
                "the line number and the position in the translation.");
  table.without_effect({"temperature", "top-k", "top-p", "seed"}, "sample", {"no"});
  add_machine_options(decoding, table);
}

void add_machine_options(DecodingOptions& decoding, OptionTable& table) {
  table.group("Machine");
  table.integer("batch-rows", decoding.search.batch_rows, {.min = 0, .max = 1 << 24},
                "Tokens of a side computed together; 0: 1024 on a CPU and 16384 on a GPU. "
                "More is faster up to a point and needs more memory.");
  table.integer("batch-sentences", decoding.search.batch_sentences, {.min = 0, .max = 1 << 24},
                "Maximum number of sentences computed together; 0: limited only by --batch-rows.");
  table.choice<Packing>(
      "precision", decoding.precision,
      {{"f32", Packing::kF32}, {"bf16", Packing::kBF16}, {"int8", Packing::kInt8}},
      "Arithmetic of the matrix products and activations. int8 (CPU only): products of 8-bit integers, "
      "exact sums, everything else in f32; weights take a quarter of the memory.");
  table.choice("device", decoding.device, {"auto", "cpu", "cuda"},
               "Device to compute on. cuda: an NVIDIA GPU for each rank. auto: CUDA if every rank has it, "
               "else the CPU; under mpirun or Slurm an error if the job has GPUs that it cannot use.");
  table.integer("threads", decoding.threads, {.min = 0, .max = 1024},
                "CPU threads per rank; 0: its share of the available cores.", kOfRank);
}

std::unique_ptr<Context> make_decoding_context(const Job& job, const DecodingOptions& decoding) {
  std::string device = decoding.device;
  if (decoding.precision == Packing::kInt8) {
    if (device == "cuda") {
      fail(ExitCode::kUsage,
           "--precision int8 computes only on the CPU; "
           "use --precision bf16 with --device cuda, or --device cpu");
    }
    if (device == "auto" && cuda_build() != "no") {
      say(job, "Computing on the CPU: --precision int8 is only for the CPU");
    }
    device = "cpu";
  }
  return make_context(job, device, decoding.threads);
}

void CutSentences::check(const std::string& where, size_t tokens) {
  constexpr int64_t kTold = 10;
  if (tokens <= longest_ || ++cut_ > kTold) return;
  say(job_, fmt::format("ventris {}: {} has {} tokens and is cut to {}", command_, where,
                        grouped(static_cast<int64_t>(tokens)), longest_));
}

void CutSentences::tell_total(int64_t sentences) const {
  if (cut_ == 0) return;
  say(job_, fmt::format("ventris {}: {} of {} sentences were cut to {} tokens, the maximum of the model",
                        command_, grouped(cut_), grouped(sentences), longest_));
}

}  // namespace ventris
