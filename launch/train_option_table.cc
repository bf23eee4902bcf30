#include "launch/train_option_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/error.h"
#include "launch/bleu_options.h"
#include "launch/isa_option.h"
#include "trainer/files/json_text.h"
#include "trainer/train_options_json.h"

namespace ventris {

namespace {

constexpr int64_t kManyTokens = int64_t{1} << 30;
constexpr int64_t kManySteps = int64_t{1} << 40;

void preset(Option& option) {
  option.from_preset = true;
}

void add_model_options(TrainOptions& train, OptionTable& table) {
  TransformerConfig& model = train.model;
  table.group("Model");
  preset(table.integer("encoder-layers", model.encoder_layers, {.min = 1, .max = 256},
                       "Layers of the encoder."));
  preset(table.integer("decoder-layers", model.decoder_layers, {.min = 1, .max = 256},
                       "Layers of the decoder."));
  preset(table.integer("d-model", model.d_model, {.min = 2, .max = 16384},
                       "Width of the model; even, and a multiple of --heads."));
  preset(
      table.integer("d-ff", model.d_ff, {.min = 1, .max = 65536}, "Inner width of the feed-forward layers."));
  preset(table.integer("heads", model.heads, {.min = 1, .max = 256}, "Attention heads."));
  preset(table.toggle("pre-norm", model.pre_norm,
                      "LayerNorm before each sublayer, and once after the last layer, "
                      "instead of after each sublayer as in the paper."));
  preset(table.toggle("learned-positions", model.learned_positions,
                      "Learns positions instead of using sinusoids."));
  table.choice<bool>(
      "positions", model.marian_positions, {{"paper", false}, {"marian", true}},
      "Frequencies of the sinusoids: 10000^(-2i/d) as in the paper, or 10000^(-i/(d/2-1)) as in Marian, "
      "which computes no others.");
  table.choice(
      "begin-embedding", train.begin_embedding, {"learned", "zero", "none"},
      "With what the decoder begins: an embedding of the begin mark that is learned "
      "as that of every token; one that is held at zero; or none, as in Marian, "
      "where the begin mark has the row of a token that is never given. Marian can express the last two.");
  table.choice<bool>("activation", model.swish, {{"relu", false}, {"swish", true}},
                     "Between the two products of a feed-forward layer: ReLU as in the paper, "
                     "or x * sigmoid(x), the default of Marian.");
  table.toggle("output-bias", model.output_bias,
               "A learned bias for every token in the output layer, as Marian has it.");
  preset(table.integer("max-positions", model.max_positions, {.min = 2, .max = 1 << 20},
                       "Longest sentence in tokens, its end mark counted."));
  preset(table.number("dropout", model.dropout, {.min = 0, .max = 1, .below_max = true},
                      "Dropout rate of sublayer outputs and of the sums of embeddings and positions."));
  preset(table.number("attention-dropout", model.attention_dropout, {.min = 0, .max = 1, .below_max = true},
                      "Dropout rate of attention weights."));
  preset(table.number("label-smoothing", model.label_smoothing, {.min = 0, .max = 1, .below_max = true},
                      "Probability that label smoothing spreads over the vocabulary."));
  preset(table.number("layer-norm-epsilon", model.layer_norm_epsilon, {.min = 0, .max = 1, .above_min = true},
                      "Added to the variance in LayerNorm."));
}

void add_batch_options(TrainOptions& train, OptionTable& table) {
  table.group("Data and batches");
  table.text("corpus", "FILE", train.corpus, "Corpus file of 'ventris prepare'. Required.");
  preset(table.integer("batch-source-tokens", train.batch_source_tokens, {.min = 1, .max = kManyTokens},
                       "Source tokens of a global batch, end marks counted, over all ranks."));
  preset(table.integer("batch-target-tokens", train.batch_target_tokens, {.min = 1, .max = kManyTokens},
                       "Target tokens of a global batch."));
  table.integer(
      "logical-shards", train.logical_shards, {.min = 0, .max = 65536},
      "Micro-batches that a global batch is cut into. Ranks have equal work where it is a multiple "
      "of their number. 0 takes that of the checkpoint where a run goes on, on any number of ranks, "
      "so that the batches stay the same. In a new run each then holds at most --micro-batch-tokens: "
      "their number is the smallest multiple of the number of ranks or, with --reduction reproducible, "
      "the smallest power of two from 8 on.");
  table.integer("micro-batch-tokens", train.micro_batch_tokens, {.min = 0, .max = kManyTokens},
                "Tokens of a micro-batch, where --logical-shards is 0. Less needs less memory. "
                "0 is 4096 on the CPU and 32768 on CUDA.");
  table.integer("seed", train.seed, {}, "Selects initial parameters, the order of the data, and dropout.");
}

void add_optimizer_options(TrainOptions& train, OptionTable& table) {
  table.group("Optimization");
  preset(table.integer("max-steps", train.max_steps, {.min = 0, .max = 4294967295},
                       "Ends training at this step, counted from the first start of the run."));
  table.integer("max-epochs", train.max_epochs, {.min = 0, .max = kManySteps},
                "Ends training after N passes over the corpus; 0: no limit.");
  table.number("max-minutes", train.max_minutes, {.min = 0, .max = 1e7},
               "Ends this run after X minutes, saved and counted as done; 0: no limit.");
  preset(table.number(
      "learning-rate-scale", train.learning_rate_scale, {.min = 0, .max = 1e6, .above_min = true},
      "Factor on the schedule of the paper, d_model^-0.5 * min(step^-0.5, step * warmup^-1.5). "
      "The peak is scale * (d_model * warmup)^-0.5."));
  preset(table.integer("warmup-steps", train.warmup_steps, {.min = 1, .max = kManySteps},
                       "Steps in which the learning rate rises."));
  preset(table.number("beta1", train.beta1, {.min = 0, .max = 1, .below_max = true}, "Adam's beta1."));
  preset(table.number("beta2", train.beta2, {.min = 0, .max = 1, .below_max = true}, "Adam's beta2."));
  preset(table.number("adam-epsilon", train.adam_epsilon, {.min = 0, .max = 1, .above_min = true},
                      "Adam's epsilon."));
  preset(table.number("clip-norm", train.clip_norm, {.min = 0, .max = 1e9},
                      "Longest gradient of a step; longer ones are scaled down. 0 is no clipping."));
  preset(table.number(
      "ema", train.ema, {.min = 0, .max = 1, .below_max = true},
      "Decay of an exponential moving average of the parameters, which is updated at every step, "
      "kept in checkpoints, validated, and translated with; 0.999 or 0.9999 are usual, 0 is none. "
      "Over the first updates n the decay is at most (1 + n) / (10 + n)."));
  preset(table.choice<DType>("precision", train.precision, {{"f32", DType::kF32}, {"bf16", DType::kBF16}},
                             "Arithmetic of the matrix products and activations. "
                             "bf16 keeps f32 master parameters, statistics and sums."));
  preset(table.choice<DType>(
      "gradient-dtype", train.gradient_dtype, {{"f32", DType::kF32}, {"bf16", DType::kBF16}},
      "In which gradients are summed over the ranks. bf16 sends half the bytes; each rank's gradient "
      "and each partial sum is rounded to 8 significant bits. One rank rounds nothing."));
  preset(table.choice<Reduction>(
      "reduction", train.reduction, {{"fast", Reduction::kFast}, {"reproducible", Reduction::kReproducible}},
      "How gradients are summed. fast: each rank over its shards, then over the ranks as the library does "
      "it; the last bits depend on the number of ranks. reproducible: over the shards in one binary tree, "
      "so that every number of ranks trains the same bits. It takes memory for partial sums, "
      "the size of the gradients for each doubling of the shards of a rank, and f32 gradients."));
}

void add_validation_options(TrainOptions& train, OptionTable& table) {
  table.group("Validation");
  preset(table.integer("valid-every", train.valid_every, {.min = 0, .max = kManySteps},
                       "Validates every N steps, and at the end; 0: never."));
  preset(table.yes_no("valid-bleu", train.valid_bleu,
                      "Scores translations of the validation set with BLEU. --valid-metric bleu needs it."));
  preset(table.yes_no("valid-chrf", train.valid_chrf,
                      "Scores them with chrF, too. --valid-metric chrf needs it."));
  Option& tokenize =
      table.choice("valid-tokenize", train.valid_tokenize, bleu_tokenizer_names(),
                   "How that BLEU cuts words: one of the names of --tokenize of 'ventris bleu'.");
  list_tokenizers(tokenize);
  preset(tokenize);
  table.optional_text("valid-tokenize-with", "PATH", train.valid_tokenize_with,
                      "The file of that tokenizer: as --tokenize-with of 'ventris bleu'.");
  preset(table.integer("valid-beam-size", train.valid_beam_size, {.min = 1, .max = 256},
                       "Beam for validation; 1 is greedy."));
  preset(table.number("valid-length-penalty", train.valid_length_penalty, {.min = 0, .max = 10},
                      "Length penalty for validation."));
  preset(
      table.integer("valid-max-sentences", train.valid_max_sentences, {.min = 0, .max = kManySteps},
                    "Sentences that are translated for BLEU and chrF, from the start of the set; 0 is all."));
  preset(table.choice(
      "valid-metric", train.valid_metric, {"auto", "bleu", "chrf", "loss", "perplexity"},
      "What makes a checkpoint the best, for 'best' and --patience. "
      "The loss is smoothed like that of training; perplexity is not. "
      "auto is what it was where a run goes on; else BLEU, but chrF where --valid-tokenize finds no words "
      "in the references, because they have no spaces between words (docs/scores.md)."));
  preset(table.integer("patience", train.patience, {.min = 0, .max = 1000000},
                       "Stops after N validations in a row without a better one; 0: never."));
  table.number("valid-target", train.valid_target, {.min = 0, .max = 1e9},
               "Ends training, saved and counted as done, once --valid-metric is as good as this: "
               "at least so high for BLEU and chrF, at most so high for loss and perplexity. 0 is never.");
}

void add_run_options(TrainOptions& train, OptionTable& table) {
  table.group("Run folder");
  table.text("model-dir", "DIR", train.model_dir,
             "Folder for checkpoints, metrics and the configuration; made if it is missing. Required.");
  preset(table.integer("save-every", train.save_every, {.min = 0, .max = kManySteps},
                       "Saves a checkpoint every N steps, and at the end; 0: at the end only."));
  preset(table.integer("keep-checkpoints", train.keep_checkpoints, {.min = 1, .max = 1000000},
                       "Newest checkpoints to keep, 1 being taken for 2, "
                       "so that a damaged one is never the last; the best stays besides."));
  preset(table.integer("log-every", train.log_every, {.min = 1, .max = kManySteps},
                       "Steps of an interval of the log and of metrics.jsonl."));
  table.number("log-seconds", train.log_seconds, {.min = 0, .max = 1e7},
               "Seconds without a line after which the log gets one, "
               "also inside a step or a validation that takes long; metrics.jsonl does not. 0 is never.");
  table.choice(
      "progress", train.progress, {"auto", "live", "lines", "none"},
      "How progress is shown. live: one line of a terminal, written over again and again. "
      "lines: one after the other. none: messages and validations alone. "
      "auto: live where messages come to a terminal, also through an mpirun on this host, else lines.");
  table.integer(
      "digest-every", train.digest_every, {.min = 0, .max = kManySteps},
      "Logs the digest of all parameters every N steps, also to metrics.jsonl: 32 hexadecimal digits, "
      "equal where the parameters have equal bits, and with it what 'ventris replay' compares. "
      "The moving average of --ema is not part of it. 0 is never.");
  table.text("resume", "auto|never|FILE", train.resume,
             "auto goes on from the newest checkpoint of the run folder if there is one; "
             "never starts anew and refuses a folder with checkpoints; a file begins with that checkpoint, "
             "and the same command goes on from the newest of the folder once it came further.");
  table.optional_text(
      "initial-model", "FILE|DIR", train.initial_model,
      "A model whose parameters a new run begins with, in place of random ones: "
      "a weights file, also one of 'ventris import', a checkpoint, or a run folder. "
      "Its shape and its tokens must be those of the run. A run that goes on does not read it.");
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = {"tiny", "small", "base", "big"};
  return names;
}

void take_preset(TrainCommandOptions& options, const std::string& preset) {
  const std::string wanted = preset.empty() ? options.train.preset : preset;
  for (const std::string& name : preset_names()) {
    if (name == wanted) options.train = preset_options(name);
  }
}

std::vector<CommonOption> common_train_options() {
  return {{"corpus", "file of 'ventris prepare'; required"},
          {"model-dir", "folder of the run; required"},
          {"preset", "settings to start from"},
          {"encoder-layers", "layers of the encoder"},
          {"decoder-layers", "and of the decoder"},
          {"d-model", "width"},
          {"d-ff", "width of feed-forward layers"},
          {"heads", "attention heads"},
          {"dropout", "dropout rate"},
          {"batch-source-tokens", "of a step, over all ranks"},
          {"batch-target-tokens", "likewise"},
          {"micro-batch-tokens", "computed at once; less memory"},
          {"learning-rate-scale", "factor on the paper's schedule"},
          {"warmup-steps", "steps of rising learning rate"},
          {"max-steps", "training ends at this step,"},
          {"max-epochs", "or after N epochs,"},
          {"max-minutes", "or minutes; 0: no limit"},
          {"valid-every", "steps between validations"},
          {"valid-metric", "what makes a checkpoint the best"},
          {"patience", "validations without a better one"},
          {"valid-target", "score at which training is done"},
          {"save-every", "steps between checkpoints"},
          {"keep-checkpoints", "the newest; the best besides"},
          {"log-every", "steps between lines of the log"},
          {"precision", "of products and activations"},
          {"device", "where to compute"},
          {"threads", "of a rank; 0: its share of cores"}};
}

void add_train_options(TrainCommandOptions& options, OptionTable& table) {
  TrainOptions& train = options.train;
  table.group("Preset");
  table.choice("preset", train.preset, preset_names(),
               "Settings to start from; other options override them. "
               "tiny suits Multi30k, small IWSLT, base and big are those of the paper.");
  add_batch_options(train, table);
  add_model_options(train, table);
  add_optimizer_options(train, table);
  add_validation_options(train, table);
  add_run_options(train, table);
  table.group("Machine");
  table.choice("device", train.device, {"auto", "cpu", "cuda"},
               "Where to compute. cuda: on NVIDIA GPUs, one for each rank; an error if a rank has none. "
               "auto: with CUDA if it is available on every rank, else on the CPU, with the reason.");
  table.toggle("no-cuda-graph", train.no_cuda_graph,
               "On CUDA, gives the device every step anew instead of replaying a captured one. "
               "The results are the same bits.");
  table.integer("threads", train.threads, {.min = 0, .max = 1024},
                "CPU threads of a rank; 0 is its share of the cores it may use.");
  add_isa_option(options.isa, table);
  table.integer(
      "check-ranks-every", train.check_ranks_every, {.min = 0, .max = kManySteps},
      "Compares the parameters and Adam's moments of all ranks every N steps, and always before "
      "a checkpoint is saved, so that a fault of a machine's memory or arithmetic does not go unnoticed. "
      "0 is at checkpoints only.");
  table.choice<OnDivergence>(
      "on-divergence", train.on_divergence,
      {{"stop", OnDivergence::kStop}, {"repair", OnDivergence::kRepair}},
      "What to do about a rank that differs. stop ends the job with exit code 76, naming it; "
      "the same command goes on from the newest checkpoint, where all agreed. "
      "repair gives it the state of the others where more than half of the ranks agree, says so, "
      "and goes on; what its wrong parameters added to the gradients of earlier steps stays in all ranks.");
  table.number(
      "comm-timeout", train.comm_timeout, {.min = 0, .max = 1e7},
      "Seconds that a rank waits for others, in a sum of gradients for instance, "
      "before the job ends with exit code 69. Longer than the slowest rank may be behind the fastest, "
      "in a step or in a validation; a checkpoint does not count, however long it takes. 0 waits for ever. "
      "It limits the start and the end of MPI too.");
  table.number(
      "save-timeout", train.save_timeout, {.min = 0, .max = 1e7},
      "Seconds that a checkpoint may take to be written, synced and read again before the job ends "
      "with exit code 74: longer than the slowest honest one, short of a disk that hangs. 0 is no limit.");
  table.toggle(
      "profile", train.profile,
      "Measures the phases of steps and prints at the end where their time went, "
      "what they reached in operations of the model, and how much that is of a large matrix product (MFU). "
      "On the CPU all steps but the first two are measured; on CUDA every tenth, which is not replayed "
      "from a captured graph and marks phases and layers with NVTX ranges for profilers. "
      "The results are the same bits.");
  table.toggle("json", options.json, "Prints one JSON object at the end.");
}

std::vector<std::pair<std::string, std::string>> train_options_of(const std::string& json,
                                                                  const std::string& path) {
  TrainCommandOptions read;
  try {
    read.train = train_options_from_json(json, path);
  } catch (const Error& error) {
    fail(ExitCode::kBadConfiguration, "{}", error.what());
  }
  OptionTable table;
  add_train_options(read, table);
  const nlohmann::json given = parse_json(json);
  const nlohmann::json complete = parse_json(to_json(TrainOptions()));
  std::vector<std::pair<std::string, std::string>> options;
  for (const Option& option : table.options()) {
    std::string key = option.name;
    std::replace(key.begin(), key.end(), '-', '_');
    if (complete.contains(key) && !given.contains(key)) continue;  // as in the preset
    try {
      if (const std::string value = option.show(); !value.empty()) options.emplace_back(option.name, value);
    } catch (const OptionError& error) {
      fail(ExitCode::kBadConfiguration, "{}: {} is {}; {}", path, key, given[key].dump(), error.what());
    }
  }
  return options;
}

}  // namespace ventris
