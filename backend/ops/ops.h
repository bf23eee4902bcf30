// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All operations of the backend. Rules for all of them:
///
/// - An operation is a free function of a Context& and one argument struct, forward first and backward beside
///   it.
/// - Gradients of parameters accumulate (+=). Gradients of activations overwrite (=).
/// - T is the dtype of activations: f32, bf16, or f64 (CPU only). Statistics, vector parameters (bias, gamma,
///   beta), parameter gradients and losses are of master_dtype(T): f32, or f64 for f64. Sums are carried in
///   that dtype or wider.
/// - Shapes are given after each field. A mismatch throws Error(kInternal) naming the values.
/// - Results depend neither on the number of threads nor on addresses, and two runs give the same bits.
/// - "Sentences packed end to end": offsets[s] is the row of the first token of sentence s, and
///   offsets[sentences] the number of rows that hold tokens. Rows after that are padding of the buffer:
///   operations may compute on them, and no result for a token depends on them. A sentence may be empty.

#include "backend/ops/activation.h"
#include "backend/ops/adam.h"
#include "backend/ops/add.h"
#include "backend/ops/apply_dropout.h"
#include "backend/ops/attention.h"
#include "backend/ops/bias_relu.h"
#include "backend/ops/bit_digest.h"
#include "backend/ops/cast.h"
#include "backend/ops/column_sums.h"
#include "backend/ops/cross_entropy.h"
#include "backend/ops/embedding.h"
#include "backend/ops/gemm.h"
#include "backend/ops/global_norm.h"
#include "backend/ops/layer_norm.h"
#include "backend/ops/linear_backward.h"
#include "backend/ops/log_probability_sum.h"
#include "backend/ops/moving_average.h"
#include "backend/ops/not_finite.h"
#include "backend/ops/packed_gemm.h"
#include "backend/ops/repetition_penalty.h"
#include "backend/ops/top_k.h"
#include "backend/ops/update_plan.h"
#include "backend/ops/weight_decay.h"
