// SPDX-License-Identifier: Apache-2.0
#include "launch/foreign_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "launch/foreign/marian_options.h"

namespace ventris {
namespace {

/// An option of another toolkit and ours: for commands of this kind that have `ours`. If `ours` is empty, no
/// option is needed, and the note gives the reason.
struct ForeignName {
  std::string_view names;     // separated by blanks
  std::string_view commands;  // the same; empty: any that has `ours`
  std::string_view ours;
  std::string_view note;
};

constexpr std::string_view kTokens =
    "It counts tokens of the vocabulary without padding, of a whole step over all ranks; "
    "so does --batch-source-tokens";
constexpr std::string_view kSteps = "It counts steps";

// The options of Marian 1.12.42 (`marian --help`), of fairseq 0.12.2 (fairseq/dataclass/configs.py,
// fairseq/models/transformer/transformer_config.py, fairseq/optim/lr_scheduler) and of sacreBLEU 2.6
// (`sacrebleu --help`) that have counterparts, of torchrun (`torchrun --help`), and those of distillation in
// PyTorch Translate, which extends fairseq (research/knowledge_distillation), in DeiT (main.py) and in
// scripts of many; those of Marian that have none are in launch/foreign/marian_options.cc.
constexpr auto kForeignNames = std::to_array<ForeignName>({
    // Training
    {"lr learn-rate -l", "train plan", "peak-learning-rate",
     "It needs a --schedule other than noam, that of the paper, "
     "whose peak is --learning-rate-scale * (d_model * warmup)^-0.5"},
    {"arch type task -a", "train plan", "preset", "Its values are tiny, small, base and big"},
    {"mini-batch batch-size max-sentences", "train plan", "batch-target-tokens", kTokens},
    {"mini-batch-words max-tokens -b", "train plan", "batch-target-tokens", kTokens},
    {"maxi-batch mini-batch-fit shuffle sync-sgd ddp-backend distributed-world-size", "train plan", "",
     "No option is needed: batches are filled up to --batch-target-tokens, "
     "drawn in a new order each epoch, and all ranks work on each"},
    {"update-freq optimizer-delay workspace -w", "train plan", "micro-batch-tokens",
     "A global batch is computed in micro-batches of this many tokens; "
     "their number does not change the update. Smaller ones need less memory"},
    {"checkpoint-activations gradient-checkpointing", "train plan", "recompute", ""},
    {"fp16 bf16 amp tf32", "train plan", "precision", "Its values are auto, f32, tf32 and bf16"},
    {"fp16 bf16", "", "precision", "Its values are f32 and bf16"},
    {"dim-emb encoder-embed-dim decoder-embed-dim", "", "d-model", ""},
    {"enc-depth", "", "encoder-layers", ""},
    {"dec-depth", "", "decoder-layers", ""},
    {"transformer-heads encoder-attention-heads decoder-attention-heads", "", "heads", ""},
    {"transformer-dim-ffn encoder-ffn-embed-dim decoder-ffn-embed-dim", "", "d-ff", ""},
    {"transformer-dropout", "", "dropout", ""},
    {"transformer-dropout-attention", "", "attention-dropout", ""},
    {"transformer-dropout-ffn relu-dropout", "", "activation-dropout", ""},
    {"dropout-src", "", "dropout-source", ""},
    {"dropout-trg", "", "dropout-target", ""},
    {"transformer-preprocess transformer-postprocess encoder-normalize-before decoder-normalize-before", "",
     "pre-norm", "Without it LayerNorm follows each sublayer"},
    {"transformer-train-position-embeddings encoder-learned-pos decoder-learned-pos", "", "learned-positions",
     ""},
    {"tied-embeddings-all share-all-embeddings", "train plan", "tie",
     "Its value is all, the default with one vocabulary"},
    {"tied-embeddings share-decoder-input-output-embed", "train plan", "tie", "Its value is decoder"},
    {"max-update after-batches", "", "max-steps", kSteps},
    {"after", "", "max-steps", "It counts steps; --max-epochs counts epochs"},
    {"after-epochs max-epoch -e", "train plan", "max-epochs", ""},
    {"lr-warmup warmup-updates", "", "warmup-steps", kSteps},
    {"lr-scheduler", "", "schedule",
     "inverse_sqrt is inverse-sqrt, polynomial_decay linear, fixed constant, reduce_lr_on_plateau plateau"},
    {"lr-decay-inv-sqrt", "", "decay-steps",
     "It needs --schedule inverse-sqrt; the second number is --decay-start"},
    {"warmup-init-lr lr-warmup-start-rate", "", "warmup-from", ""},
    {"min-lr end-learning-rate stop-min-lr", "", "min-learning-rate",
     "The rate stays there; training does not end"},
    {"total-num-update", "", "decay-steps", "It counts from the end of the warm-up"},
    {"lr-shrink lr-decay", "", "plateau-factor", "It needs --schedule plateau"},
    {"lr-patience", "", "plateau-patience",
     "It counts the validation that drops the rate too: fairseq's + 1"},
    {"adam-betas optimizer-params", "", "beta1", "--beta2 and --adam-epsilon are separate options"},
    {"adam-eps", "", "adam-epsilon", ""},
    {"exponential-smoothing", "", "ema", "It is the decay: 0.9999 for Marian's 1e-4"},
    {"clip-gradient", "", "clip-norm", ""},
    {"label-smoothing-factor", "", "label-smoothing", ""},
    {"early-stopping", "", "patience", "It counts validations"},
    {"valid-freq validate-interval-updates validate-interval", "", "valid-every", kSteps},
    {"save-freq save-interval-updates save-interval", "", "save-every", kSteps},
    {"disp-freq log-interval", "", "log-every", kSteps},
    {"valid-metrics best-checkpoint-metric", "", "valid-metric", "It is one of bleu, chrf, loss, perplexity"},
    {"beam-size -b", "train plan", "valid-beam-size", ""},
    {"keep-last-epochs keep-interval-updates keep-best", "", "keep-checkpoints", ""},
    {"pretrained-model finetune-from-model", "", "init", "It takes a model of ours, or of Marian"},
    {"pretrained-embeddings embedding-vectors encoder-embed-path decoder-embed-path", "train plan",
     "init-embeddings", "Source, target and output share one embedding"},
    {"embedding-fix-src embedding-fix-trg", "train plan", "freeze",
     "The one embedding of source, target and output is called embedding"},
    {"transformer-ffn-activation activation-fn", "", "activation", "Its values are relu and swish"},
    {"criterion", "train plan", "label-smoothing", "The loss is cross-entropy; 0 leaves it unsmoothed"},
    {"optimizer", "train plan", "",
     "No option is needed: the optimizer is Adam (--beta1, --beta2, --adam-epsilon)"},
    {"ema-decay", "", "ema", ""},
    {"eval-bleu eval-bleu-args eval-bleu-remove-bpe eval-bleu-detok", "train plan", "valid-metric",
     "BLEU is that of plain text; --valid-beam-size sets the search"},
    {"no-epoch-checkpoints no-last-checkpoints no-save", "train plan", "keep-checkpoints",
     "The newest and the best are kept"},
    {"reset-optimizer reset-lr-scheduler reset-dataloader reset-meters", "train plan", "init",
     "It begins a new run from a model; --init-optimizer keep takes over Adam's moments"},
    {"log-format no-progress-bar", "", "",
     "No option is needed: progress is one live line on a terminal, and lines elsewhere and with TERM=dumb"},
    {"source-lang target-lang -s", "train plan prepare", "",
     "No option is needed: files have any names; the source comes first"},
    {"skip-invalid-size-inputs-valid-test left-pad-source left-pad-target num-batch-buckets required-batch-size-multiple",
     "train plan", "",
     "No option is needed: sentences are packed without padding, and too long ones are left out by prepare"},
    {"output-omit-bias", "", "output-bias", "Without it there is no bias"},
    {"restore-file no-reload", "", "resume", "Without it a run resumes from its newest checkpoint"},
    {"save-dir model -m", "train plan", "model-dir", "It is a folder"},
    {"train-sets vocabs -t -v", "train plan", "corpus", "'ventris prepare' makes it from text"},
    {"nproc-per-node nproc_per_node nnodes node-rank node_rank master-addr master_addr rdzv-endpoint rdzv_endpoint",
     "", "", "No option is needed: mpirun starts the ranks of all nodes, -np of them on the --hostfile"},
    {"devices num-gpus cpu", "", "device",
     "Its values are auto, cpu and cuda; mpirun starts one rank per device"},
    {"cpu-threads num-workers workers nthreads", "", "threads", ""},
    // Preparing
    {"trainpref", "prepare", "train-sets", "It takes two files: source, target"},
    {"validpref", "prepare", "valid-sets", "It takes two files: source, target"},
    {"destdir model-prefix model_prefix", "prepare", "output", "It is one file"},
    {"dim-vocabs", "prepare", "vocab-size",
     "Both languages share it; --source-vocab-size and --target-vocab-size give each its own"},
    {"vocab_size", "prepare", "vocab-size", "Both languages share it"},
    {"nwordssrc", "prepare", "source-vocab-size", "It needs --target-vocab-size, too"},
    {"nwordstgt", "prepare", "target-vocab-size", "It needs --source-vocab-size, too"},
    {"vocabs -v", "prepare", "tokenizer-model",
     "It is a SentencePiece model for both languages; --source-tokenizer-model and --target-tokenizer-model "
     "give each its own"},
    {"srcdict", "prepare", "source-tokenizer-model",
     "It is a SentencePiece model, or a list of words as dict.txt; it needs --target-tokenizer-model, too"},
    {"tgtdict", "prepare", "target-tokenizer-model",
     "It is a SentencePiece model, or a list of words as dict.txt; it needs --source-tokenizer-model, too"},
    {"joined-dictionary", "prepare", "",
     "No option is needed: both languages share one vocabulary unless --source-vocab-size or "
     "--source-tokenizer-model is given"},
    {"model-type model_type bpe", "prepare", "tokenizer", "Its values are bpe and unigram"},
    {"character_coverage", "prepare", "character-coverage", ""},
    // Translating
    {"beam -b", "", "beam-size", ""},
    {"lenpen normalize", "", "length-penalty",
     "It is alpha of ((5 + length) / 6)^alpha, not an exponent of the length alone: scores differ"},
    {"-n", "translate evaluate", "length-penalty",
     "It is alpha of ((5 + length) / 6)^alpha, not an exponent of the length alone: scores differ"},
    {"nbest", "", "n-best", "It is the number of translations per sentence"},
    {"path models -m", "translate evaluate score attention export", "model", ""},
    {"remove-bpe post-process detok sentencepiece -r", "translate evaluate", "",
     "No option is needed: translations are plain text"},
    {"gen-subset input -i", "translate score", "",
     "The text comes from the standard input, one sentence per line: "
     "ventris translate --model FILE < source"},
    {"output -o", "translate", "",
     "Translations go to the standard output: ventris translate --model FILE < source > translation"},
    {"input gen-subset -i", "evaluate", "source", ""},
    {"mini-batch maxi-batch batch-size max-sentences", "translate evaluate score", "batch-sentences",
     "Translations do not depend on it"},
    {"max-tokens mini-batch-words", "translate evaluate score", "batch-rows",
     "Translations do not depend on it"},
    {"sampling output-sampling", "", "sample", ""},
    {"sampling-topk", "", "top-k", ""},
    {"sampling-topp", "", "top-p", ""},
    {"no-repeat-ngram-size", "", "no-repeat-ngram", ""},
    {"max-len-b max-length-factor", "", "max-extra-length",
     "A translation has at most N tokens more than its source"},
    {"print-alignment", "", "alignment", "Its values are none, soft and hard"},
    {"prefix-size", "", "prefix-column", ""},
    // Scoring
    {"tok", "", "tokenize", ""},
    {"ref refs -r", "", "reference", ""},
    {"lc", "", "lowercase", ""},
    {"short -sh", "bleu", "score-only", ""},
    {"num-refs -nr", "bleu", "reference",
     "It takes one file for each reference; 'cut -f 2 FILE' has the second column of one with tabs"},
    {"detail origlang subset -d", "bleu", "",
     "There is no such option: only test sets that sacreBLEU downloads have such parts, "
     "and this program has none"},
    {"force", "bleu", "", "No option is needed: text that looks tokenised is scored with a warning"},
    {"quiet -q", "bleu", "",
     "No option is needed: only scores go to the standard output; warnings go to the standard error"},
    {"encoding -e", "bleu", "",
     "There is no such option: text is UTF-8; 'iconv -t UTF-8' converts other encodings"},
    {"test-set language-pair -t -l", "bleu evaluate", "reference",
     "The program contains no test sets: give the file of the reference"},
});

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// For options of Marian that have no counterpart.
std::string advice_for_marian(const Command& command, const std::string& name) {
  const bool trains = has_word("train plan", command.name);
  if (!trains && !has_word("translate evaluate", command.name)) return "";
  const auto option = find_marian_option(trains ? MarianUse::kTraining : MarianUse::kDecoding, name);
  if (!option || option->reason.empty()) return "";
  return fmt::format("Marian's --{} has no counterpart here: {}", name, option->reason);
}

}  // namespace

std::string advice_for_foreign_name(const Command& command, const std::string& name, bool in_file) {
  for (const ForeignName& foreign : kForeignNames) {
    if (!has_word(foreign.names, name)) continue;
    if (!foreign.commands.empty() && !has_word(foreign.commands, command.name)) continue;
    if (foreign.ours.empty()) return std::string(foreign.note);
    if (command.options.find(std::string(foreign.ours)) == nullptr) continue;
    const std::string ours = in_file ? fmt::format("'{}'", foreign.ours) : fmt::format("--{}", foreign.ours);
    return fmt::format("did you mean {}?{}{}", ours, foreign.note.empty() ? "" : " ", foreign.note);
  }
  return advice_for_marian(command, name);
}

}  // namespace ventris
