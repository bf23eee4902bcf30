// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/train_rows.h"

#include "data/scores/bleu.h"
#include "trainer/options/model_config.h"
#include "trainer/schedule.h"

namespace ventris {

namespace {

constexpr int64_t kManyTokens = int64_t{1} << 30;
constexpr int64_t kManySteps = int64_t{1} << 40;

void add_embedding_rows(TrainOptions& train, OptionTable& table) {
  table.choice(
      "tie", train.tie, {"auto", "all", "decoder", "none"},
      "Which of the tables of tokens are one: all, as in the paper; those of the decoder, its embedding and the "
      "output layer, as Marian's --tied-embeddings; or none. auto: that of the checkpoint in a resumed run, "
      "otherwise, also with --init, all with one vocabulary, and decoder with a vocabulary for each side, which excludes all.",
      kFixed);
  table.choice(
      "begin-embedding", train.begin_embedding, {"auto", "learned", "zero", "none"},
      "First input of the decoder. auto: that of the checkpoint in a resumed run, otherwise learned, or none if "
      "the vocabulary has no begin mark. learned: an embedding of the begin mark, "
      "learned like that of any token. zero: one that is kept at zero. none: no embedding, as in Marian, "
      "where the begin mark has the row of a token that is never given. Marian supports zero and none.",
      kFixed);
}

void add_schedule_rows(TrainOptions& train, OptionTable& table) {
  ScheduleOptions& schedule = train.schedule;
  std::vector<std::pair<std::string, ScheduleKind>> kinds;
  for (const ScheduleKind kind : kSchedules) kinds.emplace_back(name_of(kind), kind);
  table.choice<ScheduleKind>(
      "schedule", schedule.kind, kinds,
      "Learning-rate schedule. noam: the paper's. The others rise to "
      "--peak-learning-rate in --warmup-steps; then inverse-sqrt falls with the inverse square root of the "
      "step, linear and cosine reach 0 after --decay-steps, constant stays, "
      "and plateau drops when validations stop improving.");
  table.number("peak-learning-rate", schedule.peak, {.min = 0, .max = 1e6},
               "Learning rate at the end of the warm-up; required by every schedule but noam.");
  table.integer("decay-steps", schedule.decay_steps, {.min = 0, .max = kManySteps},
                "Decay length in steps (0: until --max-steps). With inverse-sqrt, the step N from which the "
                "rate is multiplied by sqrt(N / step); 0: --warmup-steps. An N within the warm-up lowers the "
                "peak, as in Marian.");
  table.integer("plateau-patience", schedule.plateau_patience, {.min = 1, .max = 1000000},
                "Validations in a row by --valid-every without a better one after which plateau "
                "drops the rate; those in the warm-up do not count.");
  table.number("plateau-factor", schedule.plateau_factor,
               {.min = 0, .max = 1, .above_min = true, .below_max = true}, "Factor of a drop.");
}

void add_optimizer_rows(TrainOptions& train, OptionTable& table) {
  table.group("Optimization");
  table.integer("max-steps", train.max_steps, {.min = 0, .max = 4294967295},
                "Ends training at this step, counted from the first start of the run.", kByPreset);
  table.integer("max-epochs", train.max_epochs, {.min = 0, .max = kManySteps},
                "Ends training after N passes over the corpus; 0: no limit.");
  table.number("max-minutes", train.max_minutes, {.min = 0, .max = 1e7},
               "Ends this run after X minutes, saved and counted as done; 0: no limit.");
  table.number(
      "learning-rate-scale", train.learning_rate_scale, {.min = 0, .max = 1e6, .above_min = true},
      "Factor on the schedule of the paper (--schedule noam), d_model^-0.5 * min(step^-0.5, step * warmup^-1.5). "
      "The peak is scale * (d_model * warmup)^-0.5.",
      kByPreset);
  table.integer("warmup-steps", train.warmup_steps, {.min = 1, .max = kManySteps},
                "Steps in which the learning rate rises.", kByPreset);
  add_schedule_rows(train, table);
  table.number("beta1", train.beta1, {.min = 0, .max = 1, .below_max = true}, "Adam's beta1.",
               kFixed | kByPreset);
  table.number("beta2", train.beta2, {.min = 0, .max = 1, .below_max = true}, "Adam's beta2.",
               kFixed | kByPreset);
  table.number("adam-epsilon", train.adam_epsilon, {.min = 0, .max = 1, .above_min = true}, "Adam's epsilon.",
               kFixed | kByPreset);
  table.number("clip-norm", train.clip_norm, {.min = 0, .max = 1e9},
               "Maximum norm of the gradient; a longer gradient is scaled down to it. 0: no clipping.",
               kByPreset);
  table.number("weight-decay", train.weight_decay, {.min = 0, .max = 1, .below_max = true},
               "Decoupled weight decay, as AdamW: before each update matrices and embeddings are multiplied "
               "by 1 - learning rate * X. 0: none.",
               kFixed | kByPreset);
  table.number(
      "ema", train.ema, {.min = 0, .max = 1, .below_max = true},
      "Decay of an exponential moving average of the parameters, which is updated at every step, "
      "kept in checkpoints, validated, and translated with; 0.999 or 0.9999 are usual; 0: no average. "
      "In update n the decay is at most (1 + n) / (10 + n).",
      kFixed | kByPreset);
  table.choice<Precision>(
      "precision", train.precision,
      {{"auto", Precision::kAuto},
       {"f32", Precision::kF32},
       {"tf32", Precision::kTf32},
       {"bf16", Precision::kBF16}},
      "Arithmetic of the matrix products and activations. "
      "bf16 keeps f32 master parameters, statistics and sums. tf32 (CUDA only) is f32 whose products, "
      "but not those of attention, round their factors to 10 bits of mantissa for tensor cores; "
      "f32 never does. auto: in a resumed run that of its checkpoint; otherwise bf16 on CUDA and f32 on the CPU.",
      kFixed | kByPreset);
  table.choice<DType>(
      "gradient-dtype", train.gradient_dtype, {{"f32", DType::kF32}, {"bf16", DType::kBF16}},
      "Type in which gradients are summed over the ranks. bf16 sends half the bytes on CUDA; on CPUs MPI adds it, which from three ranks on "
      "sends more than f32. Each rank's gradient and each partial sum is rounded to 8 significant bits. With one rank nothing is rounded.",
      kFixed | kByPreset);
  table.choice<Reduction>(
      "reduction", train.reduction, {{"fast", Reduction::kFast}, {"reproducible", Reduction::kReproducible}},
      "How gradients are summed. fast: each rank over its shards, then over the ranks in the order of MPI or "
      "NCCL; the last bits depend on the number of ranks. reproducible: over the shards in one binary "
      "tree, so the result is the same bits on any number of ranks with the same --logical-shards. "
      "This needs f32 gradients, and memory for partial sums: the size of the gradients for each doubling of the shards of a rank.",
      kFixed | kByPreset);
  table.toggle(
      "shard-optimizer", train.shard_optimizer,
      "Divides Adam's moments and the moving average among the ranks: each keeps and updates those of its "
      "part of the parameters, and sends the result to the others. This saves memory, and with --reduction "
      "reproducible the result is the same bits. Checkpoints are the same files: a run may be resumed with "
      "or without it, on any number of ranks. This needs f32 gradients.");
}

void add_validation_rows(TrainOptions& train, OptionTable& table) {
  table.group("Validation");
  table.integer("valid-every", train.valid_every, {.min = 0, .max = kManySteps},
                "Validates every N steps, and at the end; 0: never.", kByPreset);
  table.choice(
      "valid-metric", train.valid_metric, {"auto", "bleu", "chrf", "loss", "perplexity"},
      "Metric of the best checkpoint, for 'best' and --patience. The loss includes label smoothing, "
      "as in training; perplexity does not. auto: in a resumed run the metric it had; otherwise BLEU, or chrF "
      "if --valid-tokenize finds no words in the references, because they have no spaces between words "
      "(docs/scores.md), or the loss with --valid-beam-size 0. With several sets the first of the corpus decides.");
  std::vector<std::string> tokenizers = {"auto"};
  for (const data::BleuTokenizer tokenizer : data::kBleuTokenizers)
    tokenizers.emplace_back(name_of(tokenizer));
  table.choice(
      "valid-tokenize", train.valid_tokenize, tokenizers,
      "Tokenizer of BLEU. auto: in a resumed run whose --valid-metric is BLEU the one it had; otherwise by the "
      "script of the references: zh, char for other text without spaces between words, or 13a.",
      kByPreset);
  table.integer(
      "valid-beam-size", train.valid_beam_size, {.min = 0, .max = 256},
      "Beam of the translations that are scored; 1 is greedy. 0: none are made, and the loss or perplexity decides.",
      kByPreset);
  table.integer("valid-max-sentences", train.valid_max_sentences, {.min = 0, .max = kManySteps},
                "Sentences to translate, from the start of each set; 0: all.", kByPreset);
  table.toggle("keep-valid-outputs", train.keep_valid_outputs,
               "Keeps the translations of each validation in the run folder, as valid/STEP/NAME.txt.");
  table.optional_text(
      "valid-script", "CMD", train.valid_script,
      "Command line of the shell that scores the translations of each validation beside training, such as one "
      "of COMET: it finds the files in $VENTRIS_SOURCES, $VENTRIS_REFERENCES and $VENTRIS_TRANSLATIONS, the step "
      "and the set in $VENTRIS_STEP and $VENTRIS_SET, and prints one number. It is killed after half an hour. It "
      "cannot stop training, and its scores do not decide anything.");
  table.integer("patience", train.patience, {.min = 0, .max = 1000000},
                "Stops after N validations by --valid-every in a row without a better one; 0: never.",
                kByPreset);
  table.without_effect({"valid-tokenize", "valid-max-sentences", "keep-valid-outputs"}, "valid-beam-size",
                       {"0"});
  table.without_effect({"patience"}, "valid-every", {"0"});
}

void add_run_rows(TrainOptions& train, OptionTable& table) {
  table.group("Run folder");
  table.text("model-dir", "DIR", train.model_dir,
             "Folder for checkpoints, metrics and the configuration; created if missing. Required.", kPlace);
  table.integer(
      "save-every", train.save_every, {.min = 0, .max = kManySteps},
      "Saves a checkpoint every N steps, after each validation that finds a new best, and at the end; 0: "
      "no checkpoints every N steps.",
      kByPreset);
  table.integer("keep-checkpoints", train.keep_checkpoints, {.min = 1, .max = 1000000},
                "Newest checkpoints to keep; 1 means 2, so that a damaged one is never the last. "
                "The best is kept in addition.",
                kByPreset);
  table.integer("log-every", train.log_every, {.min = 1, .max = kManySteps},
                "Steps between lines of the log and of metrics.jsonl. The log also has a line after ten "
                "seconds without one.",
                kByPreset);
  table.integer("digest-every", train.digest_every, {.min = 0, .max = kManySteps},
                "Logs the digest of all parameters every N steps, also to metrics.jsonl, "
                "to compare runs: 32 hexadecimal digits, equal if the parameters have equal bits. "
                "The moving average of --ema is not included. 0: never.");
  table.toggle(
      "tensorboard", train.tensorboard,
      "Writes an event file for TensorBoard to the folder tensorboard of the run: the numbers of metrics.jsonl.");
  table.text("resume", "auto|never|FILE", train.resume,
             "auto: resumes from the newest checkpoint of the run folder, if there is one. "
             "never: starts a new run, and refuses a folder with checkpoints. "
             "A file: resumes from that checkpoint, or from the newest of the folder once that is later.",
             kPlace);
  table.optional_text(
      "init", "FILE|DIR", train.initial_model,
      "Initial parameters of a new run, instead of random ones: a weights file, a checkpoint, "
      "a run folder, or what 'ventris import' reads. "
      "Its network must be that of the run. The run begins with a validation of them.",
      kNewRun);
  table.choice("init-optimizer", train.initial_optimizer, {"fresh", "keep"},
               "Adam's moments with --init. fresh: zero. keep: those of the checkpoint, "
               "with its last parameters even if it has an average. The learning rate begins at step 1.",
               kNewRun);
  table.choice("init-vocabulary", train.initial_vocabulary, {"match", "extend"},
               "The tokens of the model of --init. match: they must be those of the corpus. "
               "extend: those that both have, by their text, keep their embedding; "
               "new ones are initialised, and listed in new-tokens.txt of the run folder, or with two "
               "vocabularies in new-source-tokens.txt and new-target-tokens.txt. Tables that are one in the "
               "model may be apart in the run (--tie).",
               kNewRun);
  table.texts(
      "init-embeddings", "FILE...", train.initial_embeddings,
      "Vectors for the embeddings of a new run, in the text format of word2vec or GloVe, "
      "plain or gzipped, of --d-model numbers: one file for both sides, or two with --tie decoder or none, of the "
      "sources and of the targets; with none the output layer's own table is not filled. A word is for the token "
      "that is this word with its space, and one of punctuation or symbols also for the token without. They are "
      "scaled to the size of random ones. Excludes --init.",
      kNewRun);
  table.texts("freeze", "GLOB...", train.freeze,
              "Parameters that keep their values, by their names as 'ventris inspect' prints them, with or "
              "without /model/: 'encoder/*', '*/feed_forward/*', embedding. * matches any characters, "
              "? one, [ab] one of these. They take no gradients, no sums over ranks, and no moments of Adam.",
              kFixed);
}

void add_batch_rows(TrainOptions& train, OptionTable& table) {
  table.group("Data and batches");
  table.text("corpus", "FILE", train.corpus, "Corpus file of 'ventris prepare'. Required.");
  table.integer("batch-source-tokens", train.batch_source_tokens, {.min = 1, .max = kManyTokens},
                "Source tokens of a global batch, including end marks, over all ranks.", kFixed | kByPreset);
  table.integer("batch-target-tokens", train.batch_target_tokens, {.min = 1, .max = kManyTokens},
                "Target tokens of a global batch.", kFixed | kByPreset);
  table.integer(
      "logical-shards", train.logical_shards, {.min = 0, .max = 65536},
      "Micro-batches per global batch. Ranks have equal work if this is a multiple of their number. "
      "0: a resumed run takes the value of its checkpoint, on any number of ranks, "
      "so the batches stay the same; a new run takes the smallest multiple of the number of ranks or, "
      "with --reduction reproducible, the smallest power of two from 8, "
      "for which a micro-batch holds at most --micro-batch-tokens. If there are more ranks than these, "
      "--reduction reproducible takes the largest power of two with which it holds at least 512. "
      "It takes fewer if the longest sentence would not fit.",
      kFixed);
  table.integer("micro-batch-tokens", train.micro_batch_tokens, {.min = 0, .max = kManyTokens},
                "Tokens of a micro-batch, if --logical-shards is 0. Fewer need less memory. "
                "0: 4096 on the CPU and 32768 on CUDA.",
                kNewRun);
  table.toggle("recompute", train.recompute,
               "Keeps of each layer only its input, and computes it again in the backward pass: less memory "
               "for a micro-batch, more time, the same bits.");
  table.integer("seed", train.seed, {}, "Selects initial parameters, the order of the data, and dropout.",
                kFixed);
  table
      .number("sample-source", train.sample_source, {.min = 0, .max = 1},
              "Subword regularisation: each epoch cuts the source text into other tokens of the vocabulary, "
              "drawn at random. For a BPE vocabulary ALPHA is the probability that a merge is left out "
              "(BPE-dropout; 0.1 is usual); for a unigram vocabulary a segmentation has its probability to "
              "the power of ALPHA (0.1 to 0.5 are usual: the smaller, the more varied). 0: the tokens of the "
              "corpus. The corpus must keep its text ('ventris prepare --keep-text'). Validation is never "
              "sampled.",
              kFixed)
      .placeholder = "ALPHA";
  table
      .number("sample-target", train.sample_target, {.min = 0, .max = 1}, "The same for the target text.",
              kFixed)
      .placeholder = "ALPHA";
  table.optional_text(
      "mix", "FILE", train.mix,
      "Draws the pairs from the corpora of the file by a plan of stages, such as 'clean .7 bt .3 until bt 2', "
      "one a line (docs/formats.md), or the config.json of a run with one. "
      "A resumed run without it continues with its own. Without a plan all corpora are one.");
}

}  // namespace

void add_train_rows(TrainOptions& train, OptionTable& table) {
  table.group("Preset");
  table.choice("preset", train.preset, preset_names(),
               "Settings that other options override. tiny suits Multi30k, small IWSLT; "
               "base and big are those of the paper.");
  add_batch_rows(train, table);
  add_model_rows(train.model, table);
  table.section("");
  add_embedding_rows(train, table);
  add_optimizer_rows(train, table);
  add_validation_rows(train, table);
  add_run_rows(train, table);
  table.group("Machine");
  table.choice("device", train.device, {"auto", "cpu", "cuda"},
               "Device to compute on. cuda: an NVIDIA GPU for each rank. auto: CUDA if every rank has it, "
               "else the CPU; under mpirun or Slurm an error if the job has GPUs that it cannot use.");
  table.toggle("no-cuda-graph", train.no_cuda_graph,
               "On CUDA, launches every step separately instead of replaying a captured graph. "
               "The results are the same bits.");
  table.integer("threads", train.threads, {.min = 0, .max = 1024},
                "CPU threads per rank; 0: its share of the available cores.", kOfRank);
  table.number(
      "comm-timeout", train.comm_timeout, {.min = 0, .max = 1e7},
      "Seconds that a rank waits for others, for example in a sum of gradients, before the job ends "
      "with exit code 69. It must exceed the time by which the slowest rank may be behind the fastest, "
      "in a step or a validation; the time to save a checkpoint does not count. "
      "It also limits the start and the end of MPI. 0: no limit.");
  table.toggle(
      "profile", train.profile,
      "Measures the phases of steps and prints at the end their times, their rates in operations "
      "of the model, and the rate relative to that of a large matrix product (MFU). On the CPU all steps except the first two are measured; on CUDA every tenth, "
      "not replayed from a graph and with NVTX ranges for profilers. The results are the same bits.");
}

}  // namespace ventris
