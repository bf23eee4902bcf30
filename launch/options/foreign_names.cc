// SPDX-License-Identifier: Apache-2.0
#include "launch/options/foreign_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace ventris {
namespace {

/// Names of options in other programs, and what replaces them here. A command uses the first row with the
/// name whose option it has. Rows for every command: `ours` is empty if no option is needed, or names an
/// environment variable.
struct ForeignNames {
  std::string_view names;  // separated by blanks
  std::string_view ours;
};

// Options of Marian 1.12, fairseq 0.12, sacreBLEU 2.6 and torchrun, and removed options of ours.
// docs/guide.md has a table of the former with the differences.
constexpr auto kForeignNames = std::to_array<ForeignNames>({
    // Training: the network
    {"arch type task -a", "preset"},
    {"dim-emb encoder-embed-dim decoder-embed-dim", "d-model"},
    {"transformer-dim-ffn encoder-ffn-embed-dim decoder-ffn-embed-dim", "d-ff"},
    {"transformer-heads encoder-attention-heads decoder-attention-heads", "heads"},
    {"enc-depth", "encoder-layers"},
    {"dec-depth", "decoder-layers"},
    {"transformer-preprocess transformer-postprocess", "pre-norm"},
    {"encoder-normalize-before decoder-normalize-before", "pre-norm"},
    {"transformer-train-position-embeddings encoder-learned-pos decoder-learned-pos", "positions"},
    {"learned-positions", "positions"},
    {"tied-embeddings-all share-all-embeddings", "tie"},
    {"tied-embeddings share-decoder-input-output-embed", "tie"},
    {"transformer-ffn-activation activation-fn", "activation"},
    {"output-omit-bias", "output-bias"},
    {"max-source-positions max-target-positions valid-max-length", "max-positions"},
    {"transformer-dropout dropout-src dropout-trg", "dropout"},
    {"transformer-dropout-attention", "attention-dropout"},
    {"transformer-dropout-ffn relu-dropout", "activation-dropout"},
    // Training: batches and precision
    {"mini-batch batch-size max-sentences", "batch-target-tokens"},
    {"mini-batch-words max-tokens", "batch-target-tokens"},
    {"update-freq optimizer-delay workspace -w", "micro-batch-tokens"},
    {"checkpoint-activations gradient-checkpointing", "recompute"},
    {"sentencepiece-alphas", "sample-source"},
    {"fp16 bf16 amp tf32 memory-efficient-fp16", "precision"},
    // Training: schedule and optimizer
    {"lr learn-rate -l", "peak-learning-rate"},
    {"lr-scheduler", "schedule"},
    {"lr-warmup warmup-updates", "warmup-steps"},
    {"lr-shrink", "plateau-factor"},
    {"lr-patience", "plateau-patience"},
    {"lr-decay-inv-sqrt total-num-update", "decay-steps"},
    {"adam-betas optimizer-params", "beta1"},
    {"adam-eps", "adam-epsilon"},
    {"criterion label-smoothing-factor", "label-smoothing"},
    {"clip-gradient", "clip-norm"},
    {"exponential-smoothing ema-decay", "ema"},
    {"max-update after-batches after", "max-steps"},
    {"after-epochs max-epoch -e", "max-epochs"},
    // Training: validation and files
    {"valid-freq validate-interval-updates validate-interval", "valid-every"},
    {"valid-metrics best-checkpoint-metric", "valid-metric"},
    {"beam-size -b", "valid-beam-size"},
    {"eval-bleu eval-bleu-args eval-bleu-remove-bpe eval-bleu-detok", "valid-beam-size"},
    {"valid-script-path", "valid-script"},
    {"valid-translation-output", "keep-valid-outputs"},
    {"early-stopping", "patience"},
    {"save-dir model -m", "model-dir"},
    {"save-freq save-interval-updates save-interval", "save-every"},
    {"keep-last-epochs keep-interval-updates keep-best", "keep-checkpoints"},
    {"no-epoch-checkpoints no-last-checkpoints no-save", "keep-checkpoints"},
    {"disp-freq log-interval", "log-every"},
    {"tensorboard-logdir", "tensorboard"},
    {"train-sets valid-sets trainpref validpref vocab vocabs -t -v", "corpus"},
    {"restore-file no-reload", "resume"},
    {"pretrained-model finetune-from-model", "init"},
    {"reset-optimizer reset-lr-scheduler reset-dataloader reset-meters", "init"},
    {"pretrained-embeddings embedding-vectors encoder-embed-path decoder-embed-path", "init-embeddings"},
    {"embedding-fix-src embedding-fix-trg", "freeze"},
    {"devices num-gpus cpu", "device"},
    {"cpu-threads num-workers workers nthreads", "threads"},
    // Preparing
    {"trainpref", "train-sets"},
    {"validpref", "valid-sets"},
    {"destdir model-prefix model_prefix", "output"},
    {"dim-vocabs vocab_size", "vocab-size"},
    {"nwordssrc", "source-vocab-size"},
    {"nwordstgt", "target-vocab-size"},
    {"vocab vocabs -v", "tokenizer-model"},
    {"srcdict", "source-tokenizer-model"},
    {"tgtdict", "target-tokenizer-model"},
    {"model-type model_type bpe", "tokenizer"},
    {"character_coverage", "character-coverage"},
    // Translating
    {"path models -m", "model"},
    {"beam -b", "beam-size"},
    {"lenpen normalize -n", "length-penalty"},
    {"nbest", "n-best"},
    {"max-len-b max-length-factor", "max-extra-length"},
    {"mini-batch maxi-batch batch-size max-sentences", "batch-sentences"},
    {"max-tokens mini-batch-words", "batch-rows"},
    {"sampling output-sampling", "sample"},
    {"sampling-topk", "top-k"},
    {"sampling-topp", "top-p"},
    {"no-repeat-ngram-size", "no-repeat-ngram"},
    {"print-alignment guided-alignment", "alignment"},
    {"prefix-size", "prefix-column"},
    {"input gen-subset -i", "source"},
    // Scoring
    {"tok", "tokenize"},
    {"ref refs num-refs test-set language-pair -r -nr -t -l", "reference"},
    {"lc", "lowercase"},
    {"short -sh", "score-only"},
    // Of the environment
    {"isa", "VENTRIS_ISA"},
    {"save-timeout", "VENTRIS_SAVE_TIMEOUT"},
    // None is needed
    {"maxi-batch mini-batch-fit shuffle sync-sgd ddp-backend required-batch-size-multiple optimizer", ""},
    {"warmup-init-lr lr-warmup-start-rate min-lr end-learning-rate stop-min-lr min-learning-rate", ""},
    {"guided-alignment guided-alignment-cost guided-alignment-weight fp16-init-scale fp16-scale-window", ""},
    {"left-pad-source left-pad-target num-batch-buckets skip-invalid-size-inputs-valid-test", ""},
    {"source-lang target-lang -s joined-dictionary", ""},
    {"distributed-world-size nnodes nproc-per-node nproc_per_node node-rank node_rank", ""},
    {"master-addr master_addr rdzv-endpoint rdzv_endpoint", ""},
    {"input gen-subset output -i -o", ""},
    {"remove-bpe post-process detok sentencepiece -r", ""},
    {"force quiet encoding overwrite log-format no-progress-bar user-dir tempdir", ""},
});

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::string advice_for_foreign_name(const Command& command, const std::string& name, bool in_file) {
  constexpr const char* kWhere = "'ventris help other-programs' has the differences";
  for (const ForeignNames& row : kForeignNames) {
    if (!has_name(row.names, name)) continue;
    if (row.ours.empty()) return fmt::format("no such option is needed: {}", kWhere);
    if (row.ours.starts_with("VENTRIS_")) return fmt::format("set the environment variable {}", row.ours);
    if (command.options.find(std::string(row.ours)) == nullptr) continue;
    return fmt::format("did you mean {}{}{}? {}", in_file ? "'" : "--", row.ours, in_file ? "'" : "", kWhere);
  }
  return "";
}

}  // namespace ventris
