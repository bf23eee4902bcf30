// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/adam.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class Adam : public OperationTest {};
VENTRIS_FOR_CASES(Adam, cases_of_length(test_master_dtypes(), {1, 7, 31, 64, 1009, 5003, 40'009}));
class AdamStep : public OperationTest {};
VENTRIS_FOR_CASES(AdamStep, cases_of_length(test_master_dtypes(), {31}));

struct Moments {
  Buffer m, v;
};

/// The values after five steps, which match the reference.
Buffer after_five_steps(Context& context, int64_t n, DType dtype, const Moments& start, bool with_compute) {
  const Buffer start_value = Buffer::random(1, n, dtype, 1);
  const MatrixOperand value(start_value), m(start.m), v(start.v), compute(Buffer(1, n, DType::kBF16));
  std::vector<double> expected_value = to_doubles(start_value);
  std::vector<double> expected_m = to_doubles(start.m);
  std::vector<double> expected_v = to_doubles(start.v);
  for (int step = 1; step <= 5; ++step) {
    const Buffer gradient = Buffer::random(1, n, dtype, static_cast<uint32_t>(100 + step));
    const double correction1 = 1.0 - std::pow(0.9, step);
    const double correction2 = 1.0 - std::pow(0.98, step);
    const MatrixOperand device_gradient(gradient);
    const ArrayOperand<AdamScalars> scalars({{.learning_rate = 0.01F,
                                              .gradient_scale = 0.5F,
                                              .bias_correction1 = static_cast<float>(correction1),
                                              .bias_correction2 = static_cast<float>(correction2)}});
    adam(context, {.value = value.view(),
                   .gradient = device_gradient.view(),
                   .m = m.view(),
                   .v = v.view(),
                   .compute = with_compute ? compute.view() : Tensor{},
                   .scalars = scalars.data()});
    for (size_t i = 0; i < expected_value.size(); ++i) {
      const double g = 0.5 * gradient.get(static_cast<int64_t>(i));
      expected_m[i] = 0.9 * expected_m[i] + 0.1 * g;
      expected_v[i] = 0.98 * expected_v[i] + 0.02 * g * g;
      expected_value[i] -=
          0.01 * (expected_m[i] / correction1) / (std::sqrt(expected_v[i] / correction2) + 1e-9);
    }
  }
  // The betas, the rate and the corrections are f32 numbers in the contract, whatever the dtype of the state.
  expect_close("value", value, expected_value, DType::kF32);
  expect_close("m", m, expected_m, DType::kF32);
  expect_close("v", v, expected_v, DType::kF32);
  Buffer rounded(1, n, DType::kBF16);
  const Buffer got = value.get();
  for (int64_t i = 0; with_compute && i < n; ++i) rounded.set(i, got.get(i));
  expect_same_bits("compute", compute, rounded);
  return got;
}

TEST_P(Adam, MatchesTheReference) {
  const DType dtype = GetParam().dtype;
  const int64_t n = GetParam().size.cols;
  Moments zeros{{1, n, dtype}, {1, n, dtype}};
  Moments moved{Buffer::random(1, n, dtype, 3), {1, n, dtype}};
  for (int64_t i = 0; i < n; ++i) moved.v.set(i, 0.01 + moved.m.get(i) * moved.m.get(i));
  for (const Moments* start : {&zeros, &moved}) {
    expect_same_bits("value with a compute copy and without",
                     after_five_steps(test_context(), n, dtype, *start, true),
                     after_five_steps(other_context(), n, dtype, *start, false));
  }
}

TEST_P(AdamStep, ASkippedOneChangesNothing) {
  const DType dtype = GetParam().dtype;
  const int64_t n = GetParam().size.cols;
  const auto vector = [&](uint32_t seed) { return Buffer::random(1, n, dtype, seed); };
  Buffer gradient = vector(2);
  gradient.set(n / 2, NAN);
  const Buffer before_compute = Buffer::random(1, n, DType::kBF16, 5);
  const MatrixOperand value(vector(1)), device_gradient(gradient), m(vector(3)), v(vector(4)),
      compute(before_compute);
  const ArrayOperand<AdamScalars> scalars({{.learning_rate = 1.0F,
                                            .gradient_scale = 1.0F,
                                            .bias_correction1 = 0.1F,
                                            .bias_correction2 = 0.02F,
                                            .skip = 1}});
  adam(test_context(), {.value = value.view(),
                        .gradient = device_gradient.view(),
                        .m = m.view(),
                        .v = v.view(),
                        .compute = compute.view(),
                        .scalars = scalars.data()});
  expect_same_bits("value", value, vector(1));
  expect_same_bits("m", m, vector(3));
  expect_same_bits("v", v, vector(4));
  expect_same_bits("compute", compute, before_compute);
}

}  // namespace
}  // namespace ventris::testing
