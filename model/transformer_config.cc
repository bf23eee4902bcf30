// SPDX-License-Identifier: Apache-2.0
#include "model/transformer_config.h"

#include <cmath>

#include "backend/device/error.h"

namespace ventris {
namespace {

void check_range(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    fail(ExitCode::kBadConfiguration, "--{} is {}: it must be from {} to {}", option, value, low, high);
  }
}

void check_rate(const char* option, float value) {
  if (!(value >= 0.0F && value < 1.0F)) {
    fail(ExitCode::kBadConfiguration, "--{} is {}: it must be at least 0 and less than 1", option, value);
  }
}

constexpr Tie kTies[] = {Tie::kAll, Tie::kDecoder, Tie::kNone};

}  // namespace

const char* name_of(Tie tie) {
  return tie == Tie::kAll ? "all" : tie == Tie::kDecoder ? "decoder" : "none";
}

std::optional<Tie> tie_named(std::string_view name) {
  for (const Tie tie : kTies)
    if (name == name_of(tie)) return tie;
  return std::nullopt;
}

void TransformerConfig::validate() const {
  check_range("encoder-layers", encoder_layers, 1, 256);
  check_range("decoder-layers", decoder_layers, 1, 256);
  check_range("d-model", d_model, 2, 16384);
  check_range("d-ff", d_ff, 1, 65536);
  check_range("heads", heads, 1, 256);
  check_range("vocab-size", vocab_size, 4, int64_t{1} << 24);
  if (source_vocab_size != 0) check_range("source-vocab-size", source_vocab_size, 4, int64_t{1} << 24);
  if (source_vocab_size != 0 && tie == Tie::kAll) {
    fail(ExitCode::kBadConfiguration,
         "--tie is all, but there is a vocabulary of sources, {} tokens, and one of targets, {} tokens: give "
         "--tie decoder or --tie none, or prepare the corpus with one vocabulary",
         source_vocab_size, vocab_size);
  }
  check_range("begin-embedding token", zero_token, -1, vocab_size - 1);
  check_range("max-positions", max_positions, 2, 1 << 20);
  if (d_model % 2 != 0) {
    fail(ExitCode::kBadConfiguration,
         "--d-model is {}: it must be even (sine and cosine positions come in pairs)", d_model);
  }
  if (marian_positions && learned_positions) {
    fail(ExitCode::kBadConfiguration, "the positions of the model are both Marian's sinusoids and learned");
  }
  if (marian_positions && d_model < 4) {
    fail(ExitCode::kBadConfiguration, "--d-model is {}: it must be at least 4 with --positions marian",
         d_model);
  }
  if (zero_start && zero_token >= 0) {
    fail(ExitCode::kBadConfiguration, "the model begins with zeros and has a zero embedding for token {}",
         zero_token);
  }
  if (d_model % heads != 0) {
    fail(ExitCode::kBadConfiguration, "--heads is {}: it must divide --d-model, which is {}", heads, d_model);
  }
  check_rate("dropout", dropout);
  check_rate("attention-dropout", attention_dropout);
  check_rate("activation-dropout", activation_dropout);
  check_rate("label-smoothing", label_smoothing);
  if (!(layer_norm_epsilon > 0.0F && layer_norm_epsilon <= 1.0F)) {
    fail(ExitCode::kBadConfiguration, "--layer-norm-epsilon is {}: it must be more than 0 and at most 1",
         layer_norm_epsilon);
  }
}

}  // namespace ventris
