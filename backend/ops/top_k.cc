// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/top_k.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void log_softmax_top_k(Context& context, const LogSoftmaxTopKArgs& args) {
  check_tensor(args.logits, args.logits.rows, args.logits.cols, args.logits.dtype, "logits");
  VENTRIS_CHECK(args.vocab >= 1 && args.vocab <= args.logits.cols, "a vocabulary of {} in {} columns",
                args.vocab, args.logits.cols);
  VENTRIS_CHECK(args.k >= 1 && args.k <= args.vocab, "{} of {} tokens wanted", args.k, args.vocab);
  VENTRIS_CHECK(args.values != nullptr && args.indices != nullptr, "values or indices are missing");
  VENTRIS_CHECK((args.row_banned == nullptr) == (args.row_banned_begin == nullptr),
                "row_banned and row_banned_begin must be given together");
  int64_t banned = 0;
  if (context.device() == Device::kCpu) {
    for (const int32_t* token = args.banned; token != nullptr && *token >= 0; ++token) ++banned;
  }
  VENTRIS_CHECK(args.k + banned <= args.vocab, "{} of {} tokens wanted, {} are banned", args.k, args.vocab,
                banned);
  kernels::log_softmax_top_k(context, args);
}

void log_probability(Context& context, const LogProbabilityArgs& args) {
  check_tensor(args.logits, args.logits.rows, args.logits.cols, args.logits.dtype, "logits");
  VENTRIS_CHECK(args.vocab >= 1 && args.vocab <= args.logits.cols, "a vocabulary of {} in {} columns",
                args.vocab, args.logits.cols);
  VENTRIS_CHECK(args.labels != nullptr && args.log_probabilities != nullptr,
                "labels or log_probabilities are missing");
  kernels::log_probability(context, args);
}

}  // namespace ventris
