// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/add.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

void check_steps(const AddArgs& args) {
  VENTRIS_CHECK(!args.steps.empty(), "a sum has at least one term");
  const Tensor& first = args.steps.front().term;
  const DType dtype = master_dtype(first.dtype);
  int sums = 0;
  for (const AddStep& step : args.steps) {
    check_tensor(step.term, 1, first.cols, dtype, "term");
    check_optional(step.sum, 1, first.cols, dtype, "sum");
    ++sums;
    VENTRIS_CHECK(0 <= step.additions && step.additions < sums && sums <= kMaxPartialSums,
                  "{} additions of {} partial sums; there are at most {}", step.additions, sums,
                  kMaxPartialSums);
    sums -= step.additions;
    VENTRIS_CHECK(!step.sum || sums == 1, "one of {} partial sums is complete", sums);
    if (step.sum) sums = 0;
  }
  VENTRIS_CHECK(sums == 0, "{} partial sums are never complete", sums);
}

}  // namespace

void add(Context& context, const AddArgs& args) {
  check_steps(args);
  kernels::add(context, args);
}

}  // namespace ventris
