// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"
#include "backend/ops/dropout.h"
#include "backend/ops/packed_gemm.h"

namespace ventris {

/// out[t] = dropout(scale * table[ids[t]] + positions[position[t]]), section 3.4 and 3.5 of the paper. With
/// zero_start the embedding of the token at position 0 is zero, for any id.
struct EmbeddingForwardArgs {
  const int32_t* ids;              // [rows], each in [0, vocab)
  const int32_t* position;         // [rows], index of the token in its sentence, each in [0, max_positions)
  ConstTensor table;               // [vocab, d] T, or empty:
  PackedMatrix packed_table = {};  // [d, vocab], the transposed table, of factors T; CPU only
  ConstTensor positions;           // [max_positions, d] master: sinusoids or learned
  float scale;                     // sqrt(d_model)
  bool zero_start;
  DropoutKey dropout;
  Tensor out;  // [rows, d] T
};
void embedding_forward(Context& context, const EmbeddingForwardArgs& args);

/// d_table[id] += scale * mask * d_out over the rows with that id, in order of t; d_positions the same if
/// given, without scale. With zero_start rows at position 0 do not contribute to d_table. d_out is zero in
/// rows of padding. The orders, of order_rows (backend/ops/row_order.h), are for CUDA alone, which requires
/// them.
struct EmbeddingBackwardArgs {
  const int32_t* ids;                       // [rows]
  const int32_t* id_order = nullptr;        // [rows] the rows sorted by (id, t); for d_table
  const int32_t* position;                  // [rows]
  const int32_t* position_order = nullptr;  // [rows] the rows sorted by (position, t); for d_positions
  ConstTensor d_out;                        // [rows, d] T
  float scale;
  bool zero_start;
  DropoutKey dropout;
  Tensor d_table = {};      // [vocab, d] master, accumulated, or empty
  Tensor d_positions = {};  // [max_positions, d] master, accumulated; empty for sinusoids
};
void embedding_backward(Context& context, const EmbeddingBackwardArgs& args);

/// Frequencies of the pairs of channels. kPaper, section 3.5: 10000^(-2i/d). kMarian, for d of at least 4:
/// 10000^(-i/(d/2-1)), so that the last pair reaches 1/10000.
enum class Sinusoids { kPaper, kMarian };

/// positions[p][2i] = sin(p * frequency of pair i), positions[p][2i+1] = cos(p * frequency of pair i).
/// `positions`: [max_positions, d] master, on the CPU.
void sinusoidal_positions(Tensor positions, Sinusoids sinusoids);

}  // namespace ventris
