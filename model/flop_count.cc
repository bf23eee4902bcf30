// SPDX-License-Identifier: Apache-2.0
#include "model/flop_count.h"

namespace ventris {

FlopCount& FlopCount::operator+=(const FlopCount& other) {
  encoder += other.encoder;
  decoder += other.decoder;
  output_projection += other.output_projection;
  encoder_attention += other.encoder_attention;
  decoder_attention += other.decoder_attention;
  return *this;
}

FlopCount training_flops(const TransformerConfig& config, std::span<const int32_t> source_offsets,
                         std::span<const int32_t> target_offsets) {
  const double d = config.d_model;
  const double ff = config.d_ff;
  const double source = source_offsets.back();
  const double target = target_offsets.back();
  double encoder_pairs = 0;  // (query, key) pairs
  double decoder_pairs = 0;
  for (size_t s = 0; s + 1 < source_offsets.size(); ++s) {
    const double n = source_offsets[s + 1] - source_offsets[s];
    const double m = target_offsets[s + 1] - target_offsets[s];
    encoder_pairs += n * n;
    decoder_pairs += m * (m + 1) / 2 + m * n;
  }
  // A multiplication and an addition are two operations; backward has two products for each one of forward.
  const double each = 3 * 2;
  FlopCount count;
  count.encoder = each * config.encoder_layers * source * (4 * d * d + 2 * d * ff);
  count.decoder = each * config.decoder_layers * (target * (6 * d * d + 2 * d * ff) + source * 2 * d * d);
  count.output_projection = each * target * d * static_cast<double>(config.vocab_size);
  count.encoder_attention = each * 2 * d * config.encoder_layers * encoder_pairs;
  count.decoder_attention = each * 2 * d * config.decoder_layers * decoder_pairs;
  return count;
}

}  // namespace ventris
