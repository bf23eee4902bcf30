#include <gtest/gtest.h>

#include <cmath>

#include "backend/ops.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

struct Size {
  int64_t rows;
  int64_t cols;
  int64_t gap;  // between rows on the device
};
constexpr Size kSizes[] = {{1, 1, 0}, {3, 7, 2}, {5, 64, 0}, {37, 264, 8}, {71, 229, 0}};

TEST(CudaCast, MatchesCpu) {
  for (const DType from : kDeviceDTypes) {
    for (const DType to : kDeviceDTypes) {
      for (const Size& size : kSizes) {
        const Buffer x = Buffer::random(size.rows, size.cols, from, 1);
        Buffer y(size.rows, size.cols, to);
        cast(cpu_context(), {.source = x.view(), .destination = y.view()});
        const DeviceMatrix device_x(x, size.gap);
        const DeviceMatrix device_y(size.rows, size.cols, to, size.gap);
        cast(cuda_context(), {.source = device_x.view(), .destination = device_y.view()});
        expect_same_bits("y", device_y.get(cuda_stream()), y);
      }
    }
  }
}

TEST(CudaFillZero, ClearsAllElements) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : kSizes) {
      const DeviceMatrix x(Buffer::random(size.rows, size.cols, dtype, 1), size.gap);
      fill_zero(cuda_context(), x.view());
      expect_same_bits("x", x.get(cuda_stream()), Buffer(size.rows, size.cols, dtype));
    }
  }
}

TEST(CudaAdam, MatchesCpu) {
  for (const int64_t n : {1, 7, 64, 5003}) {
    for (const bool compute : {false, true}) {
      Buffer value = Buffer::random(1, n, DType::kF32, 1);
      const Buffer gradient = Buffer::random(1, n, DType::kF32, 2);
      Buffer m = Buffer::random(1, n, DType::kF32, 3);
      Buffer v(1, n, DType::kF32);
      for (int64_t i = 0; i < n; ++i) v.set(i, 0.01 + gradient.get(i) * gradient.get(i));
      Buffer copy(1, n, DType::kBF16);
      const DeviceMatrix device_value(value), device_gradient(gradient), device_m(m), device_v(v),
          device_copy(copy);
      const AdamScalars scalars{0.01F, 0.5F, 0.3F, 0.2F};
      const DeviceArray<AdamScalars> device_scalars({scalars});
      AdamArgs args{.value = value.view(),
                    .gradient = gradient.view(),
                    .m = m.view(),
                    .v = v.view(),
                    .scalars = &scalars};
      if (compute) args.compute = copy.view();
      adam(cpu_context(), args);
      AdamArgs device{.value = device_value.view(),
                      .gradient = device_gradient.view(),
                      .m = device_m.view(),
                      .v = device_v.view(),
                      .scalars = device_scalars.data()};
      if (compute) device.compute = device_copy.view();
      adam(cuda_context(), device);
      expect_matches("value", device_value, value, DType::kF32);
      expect_matches("m", device_m, m, DType::kF32);
      expect_matches("v", device_v, v, DType::kF32);
      expect_matches("compute", device_copy, copy, DType::kBF16);
    }
  }
}

TEST(CudaSwish, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : kSizes) {
      Buffer x = Buffer::random(size.rows, size.cols, dtype, 1, 4.0);
      x.set(0, -200.0);
      Buffer y(size.rows, size.cols, dtype);
      Buffer gradient = Buffer::random(size.rows, size.cols, dtype, 2);
      const DeviceMatrix device_x(x, size.gap), device_gradient(gradient, size.gap);
      const DeviceMatrix device_y(size.rows, size.cols, dtype, size.gap);
      swish_forward(cpu_context(), {.x = x.view(), .y = y.view()});
      swish_forward(cuda_context(), {.x = device_x.view(), .y = device_y.view()});
      expect_matches("y", device_y, y, dtype);
      swish_backward(cpu_context(), {.x = x.view(), .d_y = gradient.view()});
      swish_backward(cuda_context(), {.x = device_x.view(), .d_y = device_gradient.view()});
      expect_matches("d_x", device_gradient, gradient, dtype);
      swish_forward(cuda_context(), {.x = device_x.view(), .y = device_x.view()});
      expect_matches("y in place", device_x, y, dtype);
    }
  }
}

TEST(CudaAdd, MatchesCpuBitByBitAlsoInPlace) {
  for (const int64_t n : {1, 7, 64, 5003}) {
    for (const int64_t gap : {0, 1}) {  // 1: not aligned
      Buffer a = Buffer::random(1, n + gap, DType::kF32, 1);
      Buffer b = Buffer::random(1, n + gap, DType::kF32, 2);
      const DeviceMatrix device_a(a), device_b(b);
      const auto part = [&](const auto& whole) { return whole.col_range(gap, n); };
      add(cpu_context(), {.a = part(a.view()), .b = part(b.view()), .sum = part(a.view())});
      add(cuda_context(),
          {.a = part(device_a.view()), .b = part(device_b.view()), .sum = part(device_a.view())});
      expect_matches("sum", device_a, a, DType::kF32);
      add(cuda_context(), {.a = part(device_a.view()), .sum = part(device_b.view())});
      add(cpu_context(), {.a = part(a.view()), .sum = part(b.view())});
      expect_matches("copy", device_b, b, DType::kF32);
    }
  }
  const DeviceArray<double> a({1.5, -2.0, 1e300});
  const DeviceArray<double> b({0.25, 2.0, 1e300});
  const DeviceArray<double> sum(std::vector<double>(3));
  const auto row = [](const DeviceArray<double>& array) {
    return Tensor{array.data(), 1, 3, 3, DType::kF64};
  };
  add(cuda_context(), {.a = row(a), .b = row(b), .sum = row(sum)});
  EXPECT_EQ(sum.get(cuda_stream()), (std::vector<double>{1.75, 0.0, 2e300}));
  add(cuda_context(), {.a = row(a), .sum = row(sum)});
  EXPECT_EQ(sum.get(cuda_stream()), (std::vector<double>{1.5, -2.0, 1e300}));
}

TEST(CudaMovingAverage, MatchesCpuAndIsExchangedWithTheValues) {
  for (const int64_t n : {1, 7, 64, 5003}) {
    for (const int32_t skipped : {0, 1}) {
      const StepOutcome outcome = {
          .loss = 1.0, .nll = 1.0, .gradient_norm = 1.0, .updates = 31, .skipped = skipped};
      Buffer value = Buffer::random(1, n, DType::kF32, 1);
      Buffer average = Buffer::random(1, n, DType::kF32, 2);
      const DeviceMatrix device_value(value), device_average(average);
      const DeviceArray<StepOutcome> device_outcome({outcome});
      moving_average(cpu_context(),
                     {.value = value.view(), .average = average.view(), .decay = 0.9, .outcome = &outcome});
      moving_average(cuda_context(), {.value = device_value.view(),
                                      .average = device_average.view(),
                                      .decay = 0.9,
                                      .outcome = device_outcome.data()});
      expect_matches("average", device_average, average, DType::kF32);
      exchange(cuda_context(), {.a = device_value.view(), .b = device_average.view()});
      expect_matches("value", device_value, average, DType::kF32);
      expect_matches("average", device_average, value, DType::kF32);
    }
  }
}

TEST(CudaSumOfSquares, MatchesCpuAndRepeatsItsBits) {
  for (const int64_t n : {1, 7, 16384, 40003}) {
    const Buffer x = Buffer::random(1, n, DType::kF32, 1);
    const DeviceMatrix device_x(x);
    double expected = 0.0;
    sum_of_squares(cpu_context(), {.x = x.view(), .result = &expected});
    const DeviceArray<double> result({-1.0, -1.0});
    for (int i = 0; i < 2; ++i)
      sum_of_squares(cuda_context(), {.x = device_x.view(), .result = result.data() + i});
    const auto got = result.get(cuda_stream());
    EXPECT_TRUE(close(got[0], expected, tolerance_of(DType::kF64)));
    EXPECT_EQ(got[0], got[1]);
  }
}

TEST(CudaAdam, ASkippedStepChangesNothing) {
  const Buffer value = Buffer::random(1, 77, DType::kF32, 1);
  const Buffer gradient = Buffer::random(1, 77, DType::kF32, 2);
  const DeviceMatrix device_value(value), device_gradient(gradient), device_m(value), device_v(gradient);
  const DeviceArray<AdamScalars> scalars({{.learning_rate = 1.0F,
                                           .gradient_scale = 1.0F,
                                           .bias_correction1 = 1.0F,
                                           .bias_correction2 = 1.0F,
                                           .skip = 1}});
  adam(cuda_context(), {.value = device_value.view(),
                        .gradient = device_gradient.view(),
                        .m = device_m.view(),
                        .v = device_v.view(),
                        .scalars = scalars.data()});
  expect_same_bits("value", device_value.get(cuda_stream()), value);
  expect_same_bits("m", device_m.get(cuda_stream()), value);
  expect_same_bits("v", device_v.get(cuda_stream()), gradient);
}

TEST(CudaFindNotFinite, FindsWhatTheCpuFinds) {
  for (const int64_t n : {1, 300, 5003}) {
    Buffer good = Buffer::random(1, n, DType::kF32, 1);
    Buffer bad = Buffer::random(1, n, DType::kF32, 2);
    bad.set(n / 2, NAN);
    bad.set(n - 1, INFINITY);
    for (const Buffer* values : {&good, &bad}) {
      for (const Buffer* gradients : {&good, &bad}) {
        for (const int32_t wanted : {0, 1}) {
          NotFinitePlaces expected{};
          find_not_finite(cpu_context(), {.values = values->view(),
                                          .gradients = gradients->view(),
                                          .wanted = &wanted,
                                          .places = &expected});
          const DeviceArray<int32_t> device_wanted({wanted});
          const DeviceArray<NotFinitePlaces> places({{5, 5}});
          const DeviceMatrix device_values(*values), device_gradients(*gradients);
          find_not_finite(cuda_context(), {.values = device_values.view(),
                                           .gradients = device_gradients.view(),
                                           .wanted = device_wanted.data(),
                                           .places = places.data()});
          const NotFinitePlaces got = places.get(cuda_stream())[0];
          EXPECT_EQ(got.first_value, expected.first_value) << n;
          EXPECT_EQ(got.last_gradient, expected.last_gradient) << n;
        }
      }
    }
  }
}

TEST(CudaPlanUpdate, MatchesCpu) {
  const double squares[] = {4.0, 0.25, NAN, INFINITY};
  for (const double sum : squares) {
    for (const double nll : {2.5, static_cast<double>(NAN)}) {
      const double losses[2] = {3.5, nll};
      const float rate = 0.125F;
      int64_t updates = 41;
      AdamScalars scalars{};
      StepOutcome outcome{};
      PlanUpdateArgs args{.loss_sums = losses,
                          .sum_of_squares = &sum,
                          .learning_rate = &rate,
                          .clip_norm = 1.0,
                          .updates = &updates,
                          .scalars = &scalars,
                          .outcome = &outcome};
      plan_update(cpu_context(), args);
      const DeviceArray<double> device_losses({3.5, nll}), device_sum({sum});
      const DeviceArray<float> device_rate({rate});
      const DeviceArray<int64_t> device_updates({41});
      const DeviceArray<AdamScalars> device_scalars({AdamScalars{}});
      const DeviceArray<StepOutcome> device_outcome({StepOutcome{}});
      args.loss_sums = device_losses.data();
      args.sum_of_squares = device_sum.data();
      args.learning_rate = device_rate.data();
      args.updates = device_updates.data();
      args.scalars = device_scalars.data();
      args.outcome = device_outcome.data();
      plan_update(cuda_context(), args);
      EXPECT_EQ(device_updates.get(cuda_stream())[0], updates);
      const AdamScalars got = device_scalars.get(cuda_stream())[0];
      EXPECT_EQ(got.skip, scalars.skip);
      EXPECT_EQ(got.learning_rate, scalars.learning_rate);
      EXPECT_FLOAT_EQ(got.gradient_scale, scalars.gradient_scale);
      EXPECT_FLOAT_EQ(got.bias_correction1, scalars.bias_correction1);
      EXPECT_FLOAT_EQ(got.bias_correction2, scalars.bias_correction2);
      const StepOutcome told = device_outcome.get(cuda_stream())[0];
      EXPECT_EQ(told.skipped, outcome.skipped);
      EXPECT_EQ(told.updates, outcome.updates);
      EXPECT_EQ(told.loss, 3.5);
      if (outcome.skipped == 0) {
        EXPECT_EQ(told.nll, 2.5);
        EXPECT_DOUBLE_EQ(told.gradient_norm, outcome.gradient_norm);
      }
    }
  }
}

TEST(CudaBiasBackward, MatchesCpuAndRepeatsItsBits) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : kSizes) {
      for (const bool relu : {false, true}) {
        Buffer d_y = Buffer::random(size.rows, size.cols, dtype, 1);
        const Buffer y = Buffer::random(size.rows, size.cols, dtype, 2);
        Buffer d_bias = Buffer::random(1, size.cols, DType::kF32, 3);
        const DeviceMatrix device_d_y(d_y, size.gap), device_y(y, size.gap), first(d_bias), second(d_bias);
        for (const DeviceMatrix* sums : {&first, &second}) {  // masking twice changes nothing
          if (relu) {
            bias_relu_backward(cuda_context(),
                               {.d_y = device_d_y.view(), .y = device_y.view(), .d_bias = sums->view()});
          } else {
            bias_backward(cuda_context(), {.d_y = device_d_y.view(), .d_bias = sums->view()});
          }
        }
        if (relu) {
          bias_relu_backward(cpu_context(), {.d_y = d_y.view(), .y = y.view(), .d_bias = d_bias.view()});
        } else {
          bias_backward(cpu_context(), {.d_y = d_y.view(), .d_bias = d_bias.view()});
        }
        expect_matches("d_y", device_d_y, d_y, dtype);
        expect_matches("d_bias", first, d_bias, DType::kF32);
        expect_same("d_bias", first, second);
      }
    }
  }
}

}  // namespace
}  // namespace ventris::testing
