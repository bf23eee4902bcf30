#include <gtest/gtest.h>

#include "backend/ops.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

constexpr DropoutPosition kPosition = {.step = 3, .row_base = 7};

DropoutKey key_of(float rate, const DropoutPosition* position = &kPosition) {
  return {.rate = rate, .seed = 0x123456789ABCULL, .place = 0x200, .position = position};
}
const DropoutPosition* device_position() {
  static const DeviceArray<DropoutPosition> position({kPosition});
  return position.data();
}

struct Size {
  int64_t rows;
  int64_t cols;
  int64_t gap;
};
constexpr Size kNormSizes[] = {{1, 5, 0},    {3, 7, 2},    {37, 64, 8},  {71, 229, 0}, {40, 520, 0},
                               {9, 1032, 0}, {3, 4093, 3}, {2, 4104, 0}, {1, 16384, 0}};

TEST(CudaLayerNorm, ForwardMatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : kNormSizes) {
      for (const float rate : {-1.0F, 0.0F, 0.3F}) {  // -1: no x
        const Buffer x = Buffer::random(size.rows, size.cols, dtype, 1);
        const Buffer residual = Buffer::random(size.rows, size.cols, dtype, 2);
        const Buffer gamma = Buffer::random(1, size.cols, DType::kF32, 3);
        const Buffer beta = Buffer::random(1, size.cols, DType::kF32, 4);
        Buffer sum(size.rows, size.cols, dtype), y(size.rows, size.cols, dtype);
        Buffer mean(1, size.rows, DType::kF32), rstd(1, size.rows, DType::kF32);
        const DeviceMatrix dx(x, size.gap), dresidual(residual, size.gap), dgamma(gamma), dbeta(beta);
        const DeviceMatrix dsum(size.rows, size.cols, dtype, size.gap),
            dy(size.rows, size.cols, dtype, size.gap);
        const DeviceMatrix dmean(1, size.rows, DType::kF32), drstd(1, size.rows, DType::kF32);
        LayerNormForwardArgs args{.residual = residual.view(),
                                  .gamma = gamma.view(),
                                  .beta = beta.view(),
                                  .mean = mean.view(),
                                  .rstd = rstd.view(),
                                  .y = y.view()};
        LayerNormForwardArgs device{.residual = dresidual.view(),
                                    .gamma = dgamma.view(),
                                    .beta = dbeta.view(),
                                    .mean = dmean.view(),
                                    .rstd = drstd.view(),
                                    .y = dy.view()};
        if (rate >= 0.0F) {
          args.x = x.view(), args.sum = sum.view(), args.dropout = key_of(rate);
          device.x = dx.view(), device.sum = dsum.view(), device.dropout = key_of(rate, device_position());
        }
        layer_norm_forward(cpu_context(), args);
        layer_norm_forward(cuda_context(), device);
        if (rate >= 0.0F) expect_matches("sum", dsum, sum, dtype);
        expect_matches("mean", dmean, mean, DType::kF32);
        expect_matches("rstd", drstd, rstd, DType::kF32);
        expect_matches("y", dy, y, dtype);
      }
    }
  }
}

TEST(CudaLayerNorm, BackwardMatchesCpuAndRepeatsItsBits) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : kNormSizes) {
      for (const float rate : {-1.0F, 0.0F, 0.3F}) {  // -1: no d_x, no d_bias, no d_sum_in
        const auto matrix = [&](uint32_t seed) { return Buffer::random(size.rows, size.cols, dtype, seed); };
        const Buffer d_y = matrix(1), d_sum_in = matrix(2), sum = matrix(3);
        const Buffer mean = Buffer::random(1, size.rows, DType::kF32, 4, 0.1);
        const Buffer rstd = Buffer::random(1, size.rows, DType::kF32, 5);
        const Buffer gamma = Buffer::random(1, size.cols, DType::kF32, 6);
        const auto vector = [&](uint32_t seed) { return Buffer::random(1, size.cols, DType::kF32, seed); };
        Buffer d_residual(size.rows, size.cols, dtype), d_x(size.rows, size.cols, dtype);
        Buffer d_gamma = vector(7), d_beta = vector(8), d_bias = vector(9);
        const DeviceMatrix dd_y(d_y, size.gap), dd_sum_in(d_sum_in, size.gap), dsum(sum, size.gap),
            dmean(mean), drstd(rstd), dgamma(gamma);
        struct Results {
          DeviceMatrix d_residual, d_x, d_gamma, d_beta, d_bias;
        };
        Results first{{size.rows, size.cols, dtype, size.gap},
                      {size.rows, size.cols, dtype, size.gap},
                      DeviceMatrix(d_gamma),
                      DeviceMatrix(d_beta),
                      DeviceMatrix(d_bias)};
        Results second{{size.rows, size.cols, dtype, size.gap},
                       {size.rows, size.cols, dtype, size.gap},
                       DeviceMatrix(d_gamma),
                       DeviceMatrix(d_beta),
                       DeviceMatrix(d_bias)};
        LayerNormBackwardArgs args{.d_y = d_y.view(),
                                   .sum = sum.view(),
                                   .mean = mean.view(),
                                   .rstd = rstd.view(),
                                   .gamma = gamma.view(),
                                   .d_residual = d_residual.view(),
                                   .d_gamma = d_gamma.view(),
                                   .d_beta = d_beta.view()};
        if (rate >= 0.0F) {
          args.d_sum_in = d_sum_in.view(), args.d_x = d_x.view(), args.d_bias = d_bias.view();
          args.dropout = key_of(rate);
        }
        layer_norm_backward(cpu_context(), args);
        for (const Results* r : {&first, &second}) {
          LayerNormBackwardArgs device{.d_y = dd_y.view(),
                                       .sum = dsum.view(),
                                       .mean = dmean.view(),
                                       .rstd = drstd.view(),
                                       .gamma = dgamma.view(),
                                       .d_residual = r->d_residual.view(),
                                       .d_gamma = r->d_gamma.view(),
                                       .d_beta = r->d_beta.view()};
          if (rate >= 0.0F) {
            device.d_sum_in = dd_sum_in.view(), device.d_x = r->d_x.view(), device.d_bias = r->d_bias.view();
            device.dropout = key_of(rate, device_position());
          }
          layer_norm_backward(cuda_context(), device);
        }
        expect_matches("d_residual", first.d_residual, d_residual, dtype);
        expect_matches("d_gamma", first.d_gamma, d_gamma, dtype);
        expect_matches("d_beta", first.d_beta, d_beta, dtype);
        expect_same("d_gamma", first.d_gamma, second.d_gamma);
        expect_same("d_beta", first.d_beta, second.d_beta);
        if (rate < 0.0F) continue;
        expect_matches("d_x", first.d_x, d_x, dtype);
        expect_matches("d_bias", first.d_bias, d_bias, dtype);
        expect_same("d_bias", first.d_bias, second.d_bias);
      }
    }
  }
}

TEST(CudaEmbedding, ForwardMatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const int64_t d : {1, 7, 64, 300}) {
      for (const auto& [rate, zero_start] : {std::pair{0.0F, false}, {0.3F, false}, {0.3F, true}}) {
        const Buffer table = Buffer::random(11, d, dtype, 1);
        const Buffer positions = Buffer::random(9, d, DType::kF32, 2);
        std::vector<int32_t> ids, position;
        for (int t = 0; t < 41; ++t) ids.push_back(t * 7 % 11), position.push_back(t % 9);
        Buffer out(41, d, dtype);
        const EmbeddingForwardArgs args{.ids = ids.data(),
                                        .position = position.data(),
                                        .table = table.view(),
                                        .positions = positions.view(),
                                        .scale = 2.5F,
                                        .zero_start = zero_start,
                                        .dropout = key_of(rate),
                                        .out = out.view()};
        embedding_forward(cpu_context(), args);
        const DeviceMatrix dtable(table), dpositions(positions), dout(41, d, dtype);
        const DeviceArray<int32_t> dids(ids), dposition(position);
        EmbeddingForwardArgs device = args;
        device.ids = dids.data(), device.position = dposition.data();
        device.table = dtable.view(), device.positions = dpositions.view(), device.out = dout.view();
        device.dropout = key_of(rate, device_position());
        embedding_forward(cuda_context(), device);
        expect_matches("out", dout, out, dtype);
      }
    }
  }
}

TEST(CudaEmbedding, BackwardMatchesCpuAndRepeatsItsBits) {
  for (const DType dtype : kDeviceDTypes) {
    for (const int rows : {1, 33, 300}) {
      for (const int64_t d : {5, 264}) {
        const Buffer d_out = Buffer::random(rows, d, dtype, 1, 0.1);
        std::vector<int32_t> ids,
            position;  // long runs, among them one of many pieces, and tokens that occur once
        for (int t = 0; t < rows; ++t)
          ids.push_back(t % 3 == 0 ? 2 : t % 7 == 0 ? 4 : 5 + t % 50), position.push_back(t % 4);
        Buffer d_table = Buffer::random(60, d, DType::kF32, 2),
               d_positions = Buffer::random(4, d, DType::kF32, 3);
        const DeviceMatrix dd_out(d_out), table1(d_table), table2(d_table), positions1(d_positions),
            positions2(d_positions);
        const DeviceArray<int32_t> dids(ids), dposition(position);
        const EmbeddingBackwardArgs args{.ids = ids.data(),
                                         .position = position.data(),
                                         .d_out = d_out.view(),
                                         .scale = 2.5F,
                                         .zero_start = d == 5,
                                         .dropout = key_of(0.3F),
                                         .d_table = d_table.view(),
                                         .d_positions = d_positions.view()};
        embedding_backward(cpu_context(), args);
        for (const bool again : {false, true}) {
          EmbeddingBackwardArgs device = args;
          device.ids = dids.data(), device.position = dposition.data(), device.d_out = dd_out.view();
          device.dropout = key_of(0.3F, device_position());
          device.d_table = again ? table2.view() : table1.view();
          device.d_positions = again ? positions2.view() : positions1.view();
          embedding_backward(cuda_context(), device);
        }
        expect_matches("d_table", table1, d_table, DType::kF32);
        expect_matches("d_positions", positions1, d_positions, DType::kF32);
        expect_same("d_table", table1, table2);
        expect_same("d_positions", positions1, positions2);
      }
    }
  }
}

TEST(CudaCrossEntropy, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : {Size{1, 5, 0}, Size{7, 128, 3}, Size{5, 2600, 0}}) {
      for (const bool gradient : {false, true}) {
        const int64_t vocab = size.cols - 2;
        constexpr int64_t kFirst = 3;
        const auto tokens = static_cast<int32_t>(kFirst + size.rows - size.rows / 4);
        Buffer logits = Buffer::random(size.rows, size.cols, dtype, 1, 3.0);
        std::vector<int32_t> labels;
        for (int64_t t = 0; t < size.rows; ++t) labels.push_back(static_cast<int32_t>(t * 31 % vocab));
        const float scale = 0.25F;
        Buffer loss(1, size.rows, DType::kF32), nll(1, size.rows, DType::kF32);
        const DeviceMatrix dlogits(logits, size.gap), dloss(1, size.rows, DType::kF32),
            dnll(1, size.rows, DType::kF32);
        const DeviceArray<int32_t> dlabels(labels);
        const DeviceArray<float> dscale({scale});
        const DeviceArray<int32_t> dtokens({tokens});
        const DeviceArray<double> totals({1.0, 2.0});
        CrossEntropyArgs args{.logits = logits.view(),
                              .labels = labels.data(),
                              .first_row = kFirst,
                              .tokens = &tokens,
                              .vocab = vocab,
                              .smoothing = 0.1F,
                              .gradient = gradient,
                              .gradient_scale = &scale,
                              .loss = loss.view(),
                              .nll = nll.view()};
        cross_entropy(cpu_context(), args);
        args.logits = dlogits.view(), args.labels = dlabels.data(), args.gradient_scale = dscale.data();
        args.tokens = dtokens.data(), args.loss = dloss.view(), args.nll = dnll.view();
        cross_entropy(cuda_context(), args);
        loss_sum(cuda_context(), {.loss = dloss.view(), .nll = dnll.view(), .totals = totals.data()});
        expect_matches("logits", dlogits, logits, dtype);
        expect_matches("loss", dloss, loss, DType::kF32);
        expect_matches("nll", dnll, nll, DType::kF32);
        double expected[2] = {1.0, 2.0};
        loss_sum(cpu_context(), {.loss = loss.view(), .nll = nll.view(), .totals = expected});
        const auto got = totals.get(cuda_stream());
        for (int i = 0; i < 2; ++i)
          EXPECT_TRUE(close(got[static_cast<size_t>(i)], expected[i], tolerance_of(DType::kF32)));
      }
    }
  }
}

TEST(CudaTopK, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Size& size : {Size{3, 5, 0}, Size{7, 131, 3}, Size{2, 2600, 0}}) {
      const int64_t vocab = size.cols - 2;
      Buffer logits = Buffer::random(size.rows, size.cols, dtype, 1, 3.0);
      logits.set(1, logits.get(2));  // equal values: in order of index
      const int k = static_cast<int>(std::min<int64_t>(vocab - 1, 8));
      const std::vector<int32_t> banned = {1, -1};
      std::vector<int32_t> row_banned = {0};  // of row 0; row 1 has two tokens left
      for (int32_t w = 2; w + 1 < static_cast<int32_t>(vocab); ++w) row_banned.push_back(w);
      std::vector<int32_t> row_begin(static_cast<size_t>(size.rows) + 1,
                                     static_cast<int32_t>(row_banned.size()));
      row_begin[0] = 0, row_begin[1] = 1;
      const auto count = static_cast<size_t>(size.rows * k);
      std::vector<float> values(count);
      std::vector<int32_t> indices(count);
      LogSoftmaxTopKArgs args{.logits = logits.view(),
                              .vocab = vocab,
                              .k = k,
                              .banned = banned.data(),
                              .row_banned = row_banned.data(),
                              .row_banned_begin = row_begin.data(),
                              .values = values.data(),
                              .indices = indices.data()};
      log_softmax_top_k(cpu_context(), args);
      const DeviceMatrix dlogits(logits, size.gap);
      const DeviceArray<int32_t> drow_banned(row_banned), drow_begin(row_begin);
      args.row_banned = drow_banned.data(), args.row_banned_begin = drow_begin.data();
      const DeviceArray<int32_t> dbanned(banned), dindices{std::vector<int32_t>(count)};
      const DeviceArray<float> dvalues{std::vector<float>(count)};
      args.logits = dlogits.view(), args.banned = dbanned.data();
      args.values = dvalues.data(), args.indices = dindices.data();
      log_softmax_top_k(cuda_context(), args);
      EXPECT_EQ(dindices.get(cuda_stream()), indices);
      const auto got = dvalues.get(cuda_stream());
      for (size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(got[i] == values[i] || close(got[i], values[i], tolerance_of(DType::kF32)));
      }

      std::vector<int32_t> labels(static_cast<size_t>(size.rows), 2);
      std::vector<float> expected(labels.size());
      log_probability(cpu_context(), {.logits = logits.view(),
                                      .labels = labels.data(),
                                      .vocab = vocab,
                                      .log_probabilities = expected.data()});
      const DeviceArray<int32_t> dlabels(labels);
      const DeviceArray<float> dprobabilities(expected);
      log_probability(cuda_context(), {.logits = dlogits.view(),
                                       .labels = dlabels.data(),
                                       .vocab = vocab,
                                       .log_probabilities = dprobabilities.data()});
      const auto probabilities = dprobabilities.get(cuda_stream());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(close(probabilities[i], expected[i], tolerance_of(DType::kF32)));
    }
  }
}

TEST(CudaRepetitionPenalty, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    Buffer logits = Buffer::random(3, 150, dtype, 2, 2.0);
    const DeviceMatrix dlogits(logits, 5);
    std::vector<int32_t> tokens = {4, 0};
    for (int32_t w = 0; w < 100; ++w) tokens.push_back(w);
    const std::vector<int32_t> begin = {0, 2, 2, 102};
    repetition_penalty(
        cpu_context(),
        {.logits = logits.view(), .tokens = tokens.data(), .begin = begin.data(), .penalty = 1.5F});
    const DeviceArray<int32_t> device_tokens(tokens), dbegin(begin);
    repetition_penalty(
        cuda_context(),
        {.logits = dlogits.view(), .tokens = device_tokens.data(), .begin = dbegin.data(), .penalty = 1.5F});
    expect_matches("logits", dlogits, logits, dtype);
  }
}

TEST(CudaLogProbabilitySum, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const int64_t vocab : {1, 131, 700}) {
      Buffer sum(3, vocab + 1, DType::kF32);
      const DeviceMatrix dsum(sum, 0);
      for (const bool first : {true, false}) {
        const Buffer logits = Buffer::random(3, vocab + 3, dtype, first ? 1 : 2, 3.0);
        const DeviceMatrix dlogits(logits, 2);
        log_probability_sum(cpu_context(),
                            {.logits = logits.view(), .vocab = vocab, .first = first, .sum = sum.view()});
        log_probability_sum(cuda_context(),
                            {.logits = dlogits.view(), .vocab = vocab, .first = first, .sum = dsum.view()});
        expect_matches("sum", dsum, sum, DType::kF32);
      }
    }
  }
}

}  // namespace
}  // namespace ventris::testing
