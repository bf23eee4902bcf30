#include "launch/decoding_options.h"

namespace ventris {

void add_model_option(DecodingOptions& decoding, OptionTable& table) {
  table
      .text("model", "FILE|DIR", decoding.model,
            "A weights file, a checkpoint, or a run folder, which means its best checkpoint, or the newest "
            "where none was validated.")
      .required = true;
}

void add_search_options(DecodingOptions& decoding, OptionTable& table) {
  BeamSearchOptions& search = decoding.search;
  table.group("Search");
  table.integer("beam-size", search.beam_size, {.least = 1, .most = 256},
                "Hypotheses kept at each step; 1 is greedy search.");
  table.number("length-penalty", search.length_penalty, {.least = 0, .most = 10},
               "alpha of the score log p / ((5 + length) / 6)^alpha; 0 ranks by probability alone.");
  table.integer("max-extra-length", search.max_extra_length, {.least = 0, .most = 65535},
                "A translation has at most as many words as its source and so many more.");
  table.group("Machine");
  table.integer("batch-rows", search.batch_rows, {.least = 1, .most = 1 << 24},
                "Source words translated together. More is faster up to a point and needs more memory.");
  table.integer("batch-sentences", search.batch_sentences, {.least = 0, .most = 1 << 24},
                "Most sentences translated together; 0 leaves it to --batch-rows.");
  table.choice<DType>("precision", decoding.precision, {{"f32", DType::kF32}, {"bf16", DType::kBF16}},
                      "Arithmetic of the matrix products and activations.");
  table.choice("device", decoding.device, {"auto", "cpu", "cuda"},
               "Where to compute. cuda: on NVIDIA GPUs, each rank on one of its own; it must work on every "
               "rank. auto: with CUDA where it works on every rank, else on the CPU, saying why.");
  table.integer("threads", decoding.threads, {.least = 0, .most = 1024},
                "CPU threads of a rank; 0 is its share of the cores it may use.");
}

}  // namespace ventris
