// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/adam.h"
#include "backend/add.h"
#include "backend/bit_digest.h"
#include "backend/cast.h"
#include "backend/clip_values.h"
#include "backend/cross_entropy.h"
#include "backend/global_norm.h"
#include "backend/moving_average.h"
#include "backend/not_finite.h"
#include "backend/update_plan.h"
#include "backend/weight_decay.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

constexpr DType kMaster = DType::kF32;
constexpr Tolerance kRounded = {0.0, 0x1.1p-8};  // of f32 to bf16, and of what the f32 number may be wrong
constexpr Tolerance kEqual = {0.0, 0.0};

/// As many parameters as the largest matrix of a layer has, and a rest that fills no vector.
int64_t parameters_of(const SelftestRun& run) {
  return int64_t{run.model.d_model} * run.model.d_ff + 13;
}

void try_plan(SelftestRun& run) {
  struct Step {
    double loss, squares, clip_norm;
  };
  run.kernel("plan_update", shape_text(1, 1), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    constexpr int64_t kBefore = 41;
    constexpr float kRate = 0.125F;
    for (const Step& step : {Step{3.0, 16.0, 0.0}, Step{3.0, 16.0, 1.0}, Step{3.0, NAN, 1.0}}) {
      const Numbers<double> sums(context, {step.loss, 2.0}), squares(context, {step.squares});
      const Numbers<float> rate(context, {kRate});
      const Numbers<int64_t> updates(context, {kBefore});
      const Numbers<AdamScalars> scalars(context, {{NAN, NAN, NAN, NAN, -1}});
      const Numbers<StepOutcome> outcome(context, {{NAN, NAN, NAN, -1, -1}});
      plan_update(context, {.loss_sums = sums.data(),
                            .sum_of_squares = squares.data(),
                            .learning_rate = rate.data(),
                            .clip_norm = step.clip_norm,
                            .updates = updates.data(),
                            .scalars = scalars.data(),
                            .outcome = outcome.data()});
      const double norm = std::sqrt(step.squares);
      const bool skipped = !std::isfinite(norm);
      const int64_t expected_updates = kBefore + (skipped ? 0 : 1);
      const AdamScalars got = scalars.get()[0];
      const StepOutcome told = outcome.get()[0];
      trial.expect_same<int64_t>("updates, skip", {updates.get()[0], told.updates, got.skip, told.skipped},
                                 {expected_updates, expected_updates, skipped, skipped});
      trial.expect_same<double>("outcome", {told.loss, told.nll, told.gradient_norm}, {step.loss, 2.0, norm});
      if (skipped) continue;
      const bool clipped = step.clip_norm > 0.0 && norm > step.clip_norm;
      const auto correction = [&](double beta) {
        return 1.0 - std::pow(beta, static_cast<double>(expected_updates));
      };
      const Tolerance exact = {0.0, 1e-6};
      trial.expect("learning_rate", static_cast<double>(got.learning_rate), static_cast<double>(kRate),
                   exact);
      trial.expect("gradient_scale", static_cast<double>(got.gradient_scale),
                   clipped ? step.clip_norm / norm : 1.0, exact);
      trial.expect("bias_correction1", static_cast<double>(got.bias_correction1),
                   correction(static_cast<double>(0.9F)), exact);
      trial.expect("bias_correction2", static_cast<double>(got.bias_correction2),
                   correction(static_cast<double>(0.98F)), exact);
    }
  });
}

void try_adam(SelftestRun& run) {
  const int64_t n = parameters_of(run);
  run.kernel("adam", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    const AdamScalars scalars = {
        .learning_rate = 0.01F, .gradient_scale = 0.5F, .bias_correction1 = 0.5F, .bias_correction2 = 0.25F};
    Matrix value = trial.draw(1, n, kMaster), m = trial.draw(1, n, kMaster), v = trial.draw(1, n, kMaster);
    const Matrix gradient = trial.draw(1, n, kMaster);
    for (double& number : v.values) number = static_cast<double>(static_cast<float>(0.01 + std::abs(number)));
    const Operand device_value(context, value, kMaster), device_gradient(context, gradient, kMaster),
        device_m(context, m, kMaster), device_v(context, v, kMaster), compute(context, 1, n, DType::kBF16);
    const Numbers<AdamScalars> device_scalars(context, {scalars});
    adam(context, {.value = device_value.view(),
                   .gradient = device_gradient.view(),
                   .m = device_m.view(),
                   .v = device_v.view(),
                   .compute = compute.view(),
                   .scalars = device_scalars.data()});
    for (size_t i = 0; i < value.values.size(); ++i) {
      const double g = 0.5 * gradient.values[i];
      m.values[i] = 0.9 * m.values[i] + 0.1 * g;
      v.values[i] = 0.98 * v.values[i] + 0.02 * g * g;
      value.values[i] -= 0.01 * (m.values[i] / 0.5) / (std::sqrt(v.values[i] / 0.25) + 1e-9);
    }
    trial.expect("value", device_value, value, kCloseSingle);
    trial.expect("m", device_m, m, kCloseSingle);
    trial.expect("v", device_v, v, kCloseSingle);
    trial.expect("compute", compute, value, kRounded);
    AdamScalars skip = scalars;
    skip.skip = 1;
    const Numbers<AdamScalars> device_skip(context, {skip});
    adam(context, {.value = device_value.view(),
                   .gradient = device_gradient.view(),
                   .m = device_m.view(),
                   .v = device_v.view(),
                   .compute = compute.view(),
                   .scalars = device_skip.data()});
    trial.expect("value after a skipped step", device_value, value, kCloseSingle);
    trial.expect("m after a skipped step", device_m, m, kCloseSingle);
  });
}

void try_limits(SelftestRun& run) {
  const int64_t n = parameters_of(run);
  run.kernel("clip_values", shape_text(1, n), kMaster, [&](Trial& trial) {
    constexpr double kLimit = 0.25;
    Matrix x = trial.draw(1, n, kMaster);
    const Operand device_x(trial.context(), x, kMaster);
    clip_values(trial.context(), {.x = device_x.view(), .limit = kLimit});
    for (double& number : x.values) number = std::clamp(number, -kLimit, kLimit);
    trial.expect("x", device_x, x, kEqual);
  });
  run.kernel("weight_decay", shape_text(1, n), kMaster, [&](Trial& trial) {
    Matrix values = trial.draw(1, n, kMaster);
    const Operand device_values(trial.context(), values, kMaster);
    const FlatRange ranges[] = {{8, n / 3}, {8 * (n / 16), n - 8 * (n / 16)}};
    for (const int32_t skip : {0, 1}) {
      const Numbers<AdamScalars> scalars(trial.context(), {{0.25F, 1.0F, 1.0F, 1.0F, skip}});
      weight_decay(
          trial.context(),
          {.values = device_values.view(), .ranges = ranges, .decay = 0.5, .scalars = scalars.data()});
      for (const FlatRange& range : ranges) {
        for (int64_t i = range.begin; skip == 0 && i < range.begin + range.count; ++i)
          values.values[static_cast<size_t>(i)] *= 0.875;
      }
      trial.expect("values", device_values, values, kCloseSingle);
    }
  });
}

void try_averages(SelftestRun& run) {
  const int64_t n = parameters_of(run);
  run.kernel("moving_average", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix value = trial.draw(1, n, kMaster);
    Matrix average = trial.draw(1, n, kMaster);
    const Operand device_value(context, value, kMaster), device_average(context, average, kMaster);
    constexpr double kDecay = 0.75;
    struct Step {
      int64_t updates;
      int32_t skipped;
      double share;  // of the value
    };
    for (const Step& step : {Step{2, 0, 0.75}, Step{1000, 0, 0.25}, Step{1000, 1, 0.0}}) {
      const Numbers<StepOutcome> outcome(context, {{1.0, 1.0, 1.0, step.updates, step.skipped}});
      moving_average(context, {.value = device_value.view(),
                               .average = device_average.view(),
                               .decay = kDecay,
                               .outcome = outcome.data()});
      for (size_t i = 0; i < average.values.size(); ++i)
        average.values[i] += step.share * (value.values[i] - average.values[i]);
      trial.expect("average", device_average, average, kCloseSingle);
    }
  });
  run.kernel("exchange", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix a = trial.draw(1, n, kMaster), b = trial.draw(1, n, kMaster);
    const Operand device_a(context, a, kMaster), device_b(context, b, kMaster);
    exchange(context, {.a = device_a.view(), .b = device_b.view()});
    trial.expect("a", device_a, b, kEqual);
    trial.expect("b", device_b, a, kEqual);
  });
}

void try_loss(SelftestRun& run) {
  run.kernel("loss_sum", shape_text(1, run.rows), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix loss = trial.draw(1, run.rows, kMaster), nll = trial.draw(1, run.rows, kMaster);
    const Operand device_loss(context, loss, kMaster), device_nll(context, nll, kMaster);
    const Numbers<double> totals(context, {1.0, 2.0});
    loss_sum(context, {.loss = device_loss.view(), .nll = device_nll.view(), .totals = totals.data()});
    const std::vector<double> got = totals.get();
    trial.expect("totals[0]", got[0], std::accumulate(loss.values.begin(), loss.values.end(), 1.0),
                 tolerance_of(DType::kF64));
    trial.expect("totals[1]", got[1], std::accumulate(nll.values.begin(), nll.values.end(), 2.0),
                 tolerance_of(DType::kF64));
  });
}

void try_norm(SelftestRun& run) {
  const int64_t n = parameters_of(run);
  run.kernel("sum_of_squares", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix x = trial.draw(1, n, kMaster);
    const Operand device_x(context, x, kMaster);
    const Numbers<double> result(context, {NAN});
    sum_of_squares(context, {.x = device_x.view(), .result = result.data()});
    trial.expect("result", result.get()[0],
                 std::inner_product(x.values.begin(), x.values.end(), x.values.begin(), 0.0),
                 tolerance_of(DType::kF64));
  });
  run.kernel("find_not_finite", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    Matrix values = trial.draw(1, n, kMaster), gradients = trial.draw(1, n, kMaster);
    const int64_t first = n / 3, last = 2 * n / 3;
    values.at(0, first) = values.at(0, last) = NAN;
    gradients.at(0, first) = gradients.at(0, last) = INFINITY;
    const Operand device_values(context, values, kMaster), device_gradients(context, gradients, kMaster);
    for (const bool wanted : {true, false}) {
      const Numbers<int32_t> device_wanted(context, {wanted ? 1 : 0});
      const Numbers<NotFinitePlaces> places(context, {{-7, -7}});
      find_not_finite(context, {.values = device_values.view(),
                                .gradients = device_gradients.view(),
                                .wanted = device_wanted.data(),
                                .places = places.data()});
      const NotFinitePlaces got = places.get()[0];
      trial.expect_same<int64_t>("places", {got.first_value, got.last_gradient},
                                 {wanted ? first : -1, wanted ? last : -1});
    }
  });
}

void try_copies(SelftestRun& run) {
  const int64_t n = parameters_of(run);
  run.kernel("add", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    Matrix a = trial.draw(1, n, kMaster);
    const Matrix b = trial.draw(1, n, kMaster);
    const Operand device_a(context, a, kMaster), device_b(context, b, kMaster), sum(context, 1, n, kMaster),
        copy(context, 1, n, kMaster);
    add(context, {.steps = {{.term = device_a.view(), .additions = 0, .sum = copy.view()},
                            {.term = device_a.view(), .additions = 0},
                            {.term = device_b.view(), .additions = 1, .sum = sum.view()}}});
    trial.expect("copy", copy, a, kEqual);
    for (size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    trial.expect("sum", sum, a, kCloseSingle);
  });
  run.kernel("add", shape_text(1, n), DType::kF64, [&](Trial& trial) {
    Context& context = trial.context();
    Matrix a = trial.draw(1, n, kMaster);
    const Matrix b = trial.draw(1, n, kMaster);
    const Numbers<double> device_a(context, a.values), device_b(context, b.values),
        sum(context, std::vector<double>(a.values.size(), NAN));
    const auto view = [n](const Numbers<double>& x) { return Tensor{x.data(), 1, n, n, DType::kF64}; };
    add(context, {.steps = {{.term = view(device_a), .additions = 0},
                            {.term = view(device_b), .additions = 1, .sum = view(sum)}}});
    for (size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    trial.expect_same("sum", sum.get(), a.values);
  });
  for (const DType from : {kMaster, DType::kBF16}) {
    const DType to = from == kMaster ? DType::kBF16 : kMaster;
    run.kernel("cast", shape_text(1, n), from, [&](Trial& trial) {
      Context& context = trial.context();
      const Matrix x = trial.draw(1, n, from);
      const Operand source(context, x, from), destination(context, 1, n, to);
      cast(context, {.source = source.view(), .destination = destination.view()});
      trial.expect("destination", destination, x, to == DType::kBF16 ? kRounded : kEqual);
    });
  }
  run.kernel("fill_zero", shape_text(1, n), kMaster, [&](Trial& trial) {
    const Operand x(trial.context(), 1, n, kMaster);
    fill_zero(trial.context(), x.view());
    trial.expect("tensor", x, Matrix(1, n), kEqual);
  });
}

void try_digest(SelftestRun& run) {
  const int64_t n = parameters_of(run);
  run.kernel("bit_digest", shape_text(1, n), kMaster, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix x = trial.draw(1, n, kMaster);
    const std::vector<float> values(x.values.begin(), x.values.end());
    std::vector<uint64_t> words(static_cast<size_t>(n + 1) / 2);
    std::memcpy(words.data(), values.data(), values.size() * sizeof(float));
    words.push_back(values.size() * sizeof(float));
    std::vector<uint64_t> expected;
    for (const DigestLane& lane : kDigestLanes) {
      uint64_t sum = 0;
      for (size_t i = 0; i < words.size(); ++i) {
        uint64_t z = words[i] + (i + 1) * lane.step;
        z = (z ^ (z >> lane.a)) * lane.p;
        z = (z ^ (z >> lane.b)) * lane.q;
        sum += z ^ (z >> lane.c);
      }
      expected.push_back(sum);
    }
    const Operand device_x(context, x, kMaster);
    const Numbers<uint64_t> result(context, {7, 7});
    bit_digest(context, {.x = device_x.view(), .result = result.data()});
    if (result.get() != expected) trial.fail_with("the digest is another one");
  });
}

}  // namespace

void try_update(SelftestRun& run) {
  try_loss(run);
  try_norm(run);
  try_plan(run);
  try_limits(run);
  try_adam(run);
  try_averages(run);
  try_copies(run);
  try_digest(run);
}

}  // namespace ventris
