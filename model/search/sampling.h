// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/device/tensor.h"

namespace ventris {

/// Tokens are drawn from softmax(logits / temperature), restricted first to the top_k most probable tokens,
/// and then to the fewest of these with a total probability of top_p (Holtzman et al. 2020, "nucleus").
struct SamplingOptions {
  float temperature = 1.0F;  // > 0
  int top_k = 0;             // 0: all
  float top_p = 1.0F;        // in (0, 1]; 1: all
  uint64_t seed = 1;

  bool operator==(const SamplingOptions&) const = default;
};

/// The key of a random number, which makes it independent of batch and rank.
struct DrawKey {
  uint64_t sentence;  // in the input
  uint32_t stream;    // of several outputs of a sentence
  uint32_t position;  // of the token in the output
};

/// Uniform in [0, 1), a pure function of seed and key: 53 bits of Philox.
double uniform_number(uint64_t seed, const DrawKey& key);

struct DrawnToken {
  int32_t token = -1;
  double log_probability = 0.0;  // under softmax(logits) of all tokens
};

/// Draws tokens from logits in host memory. Holds memory for one thread.
class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, int64_t vocab_size) : options_(options), vocab_(vocab_size) {}

  /// logits: [1, at least vocab_size] of any dtype. `banned` tokens, in any order, are not drawn; at least
  /// one token must be left. The token is the same for the same `uniform`, which is in [0, 1).
  DrawnToken draw(ConstTensor logits, std::span<const int32_t> banned, double uniform);

 private:
  using Candidate = std::pair<double, int32_t>;  // logit, token
  void keep_most_probable();

  SamplingOptions options_;
  int64_t vocab_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace ventris
