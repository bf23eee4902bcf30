// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device/dtype.h"
#include "model/transformer_config.h"
#include "trainer/precision.h"
#include "trainer/schedule.h"

namespace ventris {

/// The order in which gradients are summed: each rank over its shards and then over the ranks in the order of
/// the library, or in one binary tree over the shards for any number of ranks.
enum class Reduction { kFast, kReproducible };
const char* name_of(Reduction reduction);

/// The options of `ventris train`. Defaults are the base preset of the paper.
struct TrainOptions {
  std::string corpus;
  std::string model_dir;
  std::string preset = "base";
  TransformerConfig model;   // the sizes of vocabularies come from the corpus, tie from it and the next,
                             // zero_token and zero_start from it and the one after
  std::string tie = "auto";  // name of a Tie, or by resolve_tie()
  std::string begin_embedding = "auto";  // of the begin mark: learned, held at zero, none, or by
                                         // resolve_begin_embedding()

  // Data and batches
  int64_t batch_source_tokens = 25000;  // of a global batch
  int64_t batch_target_tokens = 25000;
  int logical_shards = 0;          // micro-batches of a global batch; 0: those of the checkpoint, or by
                                   // resolved_shards()
  int64_t micro_batch_tokens = 0;  // 0: 4096 on the CPU, 32768 on CUDA
  bool recompute = false;          // keep only the inputs of layers for backward
  KeptActivations kept_activations() const {
    return recompute ? KeptActivations::kLayerInputs : KeptActivations::kAll;
  }
  uint64_t seed = 1;
  std::string mix;  // plan of stages (data/mix_plan.h), its text; empty: that of the checkpoint, or none
  double sample_source = 0.0;  // subword regularisation: SampleOptions of data/sampled_text.h; 0: none
  double sample_target = 0.0;

  // Optimization
  int64_t max_steps = 100000;
  int64_t max_epochs = 0;            // 0: no limit
  double max_minutes = 0.0;          // wall-clock limit of this run; 0: no limit. Saves and ends as done
  double learning_rate_scale = 1.0;  // of noam
  int64_t warmup_steps = 4000;
  ScheduleOptions schedule;  // trainer/schedule_options.h
  float beta1 = 0.9F;
  float beta2 = 0.98F;
  float adam_epsilon = 1e-9F;
  double clip_norm = 0.0;     // 0: no clipping
  double weight_decay = 0.0;  // decoupled (backend/ops/weight_decay.h)
  double ema = 0.0;           // decay of the moving average of the parameters; 0: none
  Precision precision = Precision::kAuto;
  DType gradient_dtype = DType::kF32;  // in which gradients are summed over the ranks: f32 or bf16
  Reduction reduction = Reduction::kFast;
  bool shard_optimizer =
      false;  // each rank has Adam's state of a part of the parameters, and updates that part

  // Validation, checkpoints, progress
  int64_t valid_every = 1000;  // steps; 0: never
  int valid_beam_size = 4;     // 0: nothing is translated
  bool translates_validation() const { return valid_beam_size > 0; }
  bool keeps_translations() const { return keep_valid_outputs || !valid_script.empty(); }
  int64_t valid_max_sentences = 0;      // sentences translated for BLEU and chrF; 0: all
  std::string valid_tokenize = "auto";  // of BLEU: a name of data/scores/bleu.h, or by
                                        // resolve_valid_tokenizer()
  bool keep_valid_outputs = false;  // of validations, in the run folder (trainer/validation/valid_outputs.h)
  std::string valid_script;         // command line that scores translations; empty: none
  std::string valid_metric = "auto";  // best checkpoint by bleu, chrf, loss or perplexity, or by
                                      // resolve_valid_metric()
  int patience = 0;                   // stop after this many validations without a better one; 0: never
  int64_t save_every = 1000;          // steps; 0: only at the end
  int keep_checkpoints = 10;          // the newest; the best is kept in addition
  int64_t log_every = 50;
  int64_t digest_every = 0;     // steps after which the digest of the parameters is logged; 0: never
  bool tensorboard = false;     // writes event files beside the log
  std::string resume = "auto";  // auto, never, or a checkpoint file
  std::string initial_model;    // source of the parameters of a new run; empty: random
  std::string initial_optimizer = "fresh";   // Adam's moments of that run: fresh, or keep those of the model
  std::string initial_vocabulary = "match";  // tokens of model and corpus: match, or extend
  // Files of vectors for the embeddings of a new run: none, one, or those of source and target.
  std::vector<std::string> initial_embeddings;
  std::vector<std::string> freeze;  // globs of parameters that keep their values

  // Machine
  std::string device = "auto";  // auto, cpu, cuda
  bool no_cuda_graph = false;   // enqueue every step without a graph
  bool profile = false;         // measure the phases of steps
  double comm_timeout = 300.0;  // seconds that a rank waits for others in a collective; 0: no limit
  int threads = 0;              // CPU threads a rank; 0: all that the rank may use
};

/// The length penalty of the paper, with which validations translate.
inline constexpr float kValidLengthPenalty = 0.6F;

/// tiny, small, base, big.
const std::vector<std::string>& preset_names();

/// The settings of a preset of the design. Throws Error(kBadConfiguration) for a name that is none.
TrainOptions preset_options(const std::string& name);

/// Checks and returns the options of a run on that device. Throws Error(kBadConfiguration) for an invalid
/// one, and Error(kUsage) for a precision that the device does not have.
TrainOptions checked_options(const TrainOptions& options, Device device);

}  // namespace ventris
