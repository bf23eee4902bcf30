// SPDX-License-Identifier: Apache-2.0
// Attention weights against a plain statement of the network (section 3 of the paper) in f64.
#include "model/attention_maps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/tiny_model.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::kTinyMarks;
using testing::TinyModel;

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

/// The network as loops over tokens. Notes softmax(Q K^T / sqrt(d_k)) of every layer and head.
class Reference {
 public:
  Reference(TinyModel& tiny, std::vector<int32_t> source_ids, std::vector<int32_t> target_ids)
      : tiny_(tiny), c_(tiny.config()) {
    source_ids.push_back(2);
    target_ids.insert(target_ids.begin(), 1);
    Matrix source = embed(source_ids, "source_positions");
    for (int i = 0; i < c_.encoder_layers; ++i) {
      const std::string layer = "encoder/layers/" + std::to_string(i);
      attend(source, nullptr, layer + "/self_attention", AttentionKind::kEncoderSelf);
      feed_forward(source, layer + "/feed_forward");
    }
    if (c_.pre_norm) source = norm(source, "encoder/norm");
    Matrix target = embed(target_ids, "target_positions");
    for (int i = 0; i < c_.decoder_layers; ++i) {
      const std::string layer = "decoder/layers/" + std::to_string(i);
      attend(target, nullptr, layer + "/self_attention", AttentionKind::kDecoderSelf);
      attend(target, &source, layer + "/cross_attention", AttentionKind::kCross);
      feed_forward(target, layer + "/feed_forward");
    }
  }

  /// By kind, then [layer * heads + head].
  std::array<std::vector<Matrix>, kAttentionKinds.size()> weights;

 private:
  Matrix parameter(const std::string& name) {
    const LogicalParameter* found = tiny_.store().find(name);
    if (found == nullptr) throw std::runtime_error(name + " is missing");
    const Tensor block = tiny_.store().logical_value(*found);
    Matrix matrix;
    for (int64_t r = 0; r < block.rows; ++r) {
      matrix.emplace_back(block.row<double>(r), block.row<double>(r) + block.cols);
    }
    return matrix;
  }

  Matrix linear(const Matrix& x, const std::string& name) {
    const Matrix weight = parameter(name + "/weight");
    Matrix y(x.size(), parameter(name + "/bias")[0]);
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < weight.size(); ++i) {
        for (size_t j = 0; j < y[t].size(); ++j) y[t][j] += x[t][i] * weight[i][j];
      }
    }
    return y;
  }

  Matrix norm(const Matrix& x, const std::string& name) {
    const Row gamma = parameter(name + "/gamma")[0];
    const Row beta = parameter(name + "/beta")[0];
    Matrix y = x;
    for (Row& row : y) {
      double mean = 0.0, variance = 0.0;
      for (const double v : row) mean += v / c_.d_model;
      for (const double v : row) variance += (v - mean) * (v - mean) / c_.d_model;
      for (size_t j = 0; j < row.size(); ++j) {
        const double scaled = (row[j] - mean) / std::sqrt(variance + double{c_.layer_norm_epsilon});
        row[j] = scaled * gamma[j] + beta[j];
      }
    }
    return y;
  }

  void add_branch(Matrix& x, const Matrix& branch, const std::string& sublayer) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t j = 0; j < x[t].size(); ++j) x[t][j] += branch[t][j];
    }
    if (!c_.pre_norm) x = norm(x, sublayer + "/norm");
  }

  Matrix embed(const std::vector<int32_t>& ids, const std::string& positions) {
    const Matrix table = parameter("embedding");
    const Matrix learned = c_.learned_positions ? parameter(positions) : Matrix{};
    Matrix x;
    for (size_t t = 0; t < ids.size(); ++t) {
      Row row = table[static_cast<size_t>(ids[t])];
      for (size_t j = 0; j < row.size(); ++j) {
        const size_t even = j / 2 * 2;
        const double angle =
            static_cast<double>(t) / std::pow(10000.0, static_cast<double>(even) / c_.d_model);
        const double sinusoid = j % 2 == 0 ? std::sin(angle) : std::cos(angle);
        row[j] = row[j] * std::sqrt(c_.d_model) + (learned.empty() ? sinusoid : learned[t][j]);
      }
      x.push_back(row);
    }
    return x;
  }

  void attend(Matrix& x, const Matrix* memory, const std::string& sublayer, AttentionKind kind) {
    const Matrix input = c_.pre_norm ? norm(x, sublayer + "/norm") : x;
    const Matrix& other = memory != nullptr ? *memory : input;
    const Matrix query = linear(input, sublayer + "/query");
    const Matrix key = linear(other, sublayer + "/key");
    const Matrix value = linear(other, sublayer + "/value");
    const auto width = static_cast<size_t>(c_.d_head());
    Matrix out(x.size(), Row(static_cast<size_t>(c_.d_model), 0.0));
    for (size_t begin = 0; begin < static_cast<size_t>(c_.d_model); begin += width) {
      Matrix p(query.size(), Row(key.size(), 0.0));
      for (size_t t = 0; t < query.size(); ++t) {
        const size_t seen = kind == AttentionKind::kDecoderSelf ? t + 1 : key.size();
        double sum = 0.0;
        for (size_t j = 0; j < seen; ++j) {
          double score = 0.0;
          for (size_t c = begin; c < begin + width; ++c) score += query[t][c] * key[j][c];
          sum += p[t][j] = std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (size_t j = 0; j < seen; ++j) {
          p[t][j] /= sum;
          for (size_t c = begin; c < begin + width; ++c) out[t][c] += p[t][j] * value[j][c];
        }
      }
      weights[static_cast<size_t>(kind)].push_back(p);
    }
    add_branch(x, linear(out, sublayer + "/output"), sublayer);
  }

  void feed_forward(Matrix& x, const std::string& sublayer) {
    Matrix hidden = linear(c_.pre_norm ? norm(x, sublayer + "/norm") : x, sublayer + "/inner");
    for (Row& row : hidden) {
      for (double& v : row) v = std::max(v, 0.0);
    }
    add_branch(x, linear(hidden, sublayer + "/outer"), sublayer);
  }

  TinyModel& tiny_;
  const TransformerConfig c_;
};

struct Tokens {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
  TokenPair pair() const { return {source, target}; }
};

const Tokens kPair = {{4, 9, 17, 5, 9}, {8, 3, 12}};

AttentionMapper mapper_of(TinyModel& tiny) {
  return {tiny.context(), tiny.config(), tiny.store(), tiny.ids(), kTinyMarks};
}

class AttentionMaps : public ::testing::TestWithParam<bool> {
 protected:
  TransformerConfig config() const { return testing::tiny_config(GetParam(), GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Norms, AttentionMaps, ::testing::Bool(), [](const auto& instance) {
  return std::string(instance.param ? "pre_norm_learned_positions" : "post_norm_sinusoids");
});

TEST_P(AttentionMaps, AreThoseOfPlainLoops) {
  TinyModel tiny(config(), DType::kF64);
  const AttentionMapper::AllMaps maps = mapper_of(tiny).all_maps(kPair.pair());
  const Reference reference(tiny, kPair.source, kPair.target);
  for (const AttentionKind kind : kAttentionKinds) {
    const auto& got = maps[static_cast<size_t>(kind)];
    const auto& expected = reference.weights[static_cast<size_t>(kind)];
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_EQ(got.size(), 6U);  // two layers of three heads
    for (size_t m = 0; m < got.size(); ++m) {
      ASSERT_EQ(got[m].queries, std::ssize(expected[m]));
      ASSERT_EQ(got[m].keys, std::ssize(expected[m][0]));
      for (int64_t t = 0; t < got[m].queries; ++t) {
        for (int64_t j = 0; j < got[m].keys; ++j) {
          EXPECT_NEAR(static_cast<double>(got[m].at(t, j)),
                      expected[m][static_cast<size_t>(t)][static_cast<size_t>(j)], 1e-6)
              << "kind " << static_cast<int>(kind) << ", map " << m << ", query " << t << ", key " << j;
        }
      }
    }
  }
}

TEST_P(AttentionMaps, HaveRowsThatSumToOneAndSeeNoLaterToken) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TinyModel tiny(config(), dtype, /*threads=*/2, KeptActivations::kNone);
    for (const Tokens& tokens : {kPair, Tokens{{7}, {}}, Tokens{{}, {5, 6}}}) {
      const AttentionMapper::AllMaps maps = mapper_of(tiny).all_maps(tokens.pair());
      for (const AttentionKind kind : kAttentionKinds) {
        for (const AttentionMap& map : maps[static_cast<size_t>(kind)]) {
          for (int64_t t = 0; t < map.queries; ++t) {
            double sum = 0.0;
            for (int64_t j = 0; j < map.keys; ++j) {
              sum += static_cast<double>(map.at(t, j));
              const bool hidden = kind == AttentionKind::kDecoderSelf && j > t;
              EXPECT_TRUE(!hidden || map.at(t, j) == 0.0F) << map.at(t, j);
            }
            EXPECT_TRUE(testing::close(sum, 1.0, testing::tolerance_of(DType::kF32))) << sum;
          }
        }
      }
    }
  }
}

TEST_P(AttentionMaps, OfOneLayerAreMeansOverHeadsForAnyNumberOfPairs) {
  TinyModel tiny(config(), DType::kF32);
  AttentionMapper mapper = mapper_of(tiny);
  std::vector<Tokens> tokens;
  for (size_t i = 0; i < 400; ++i) {  // more rows than a micro-batch has
    tokens.push_back(kPair);
    tokens.back().source.resize(1 + i % 5);
    tokens.back().target[0] = static_cast<int32_t>(3 + i % 11);
  }
  std::vector<TokenPair> pairs;
  for (const Tokens& pair : tokens) pairs.push_back(pair.pair());
  const std::vector<AttentionMap> means = mapper.cross_attention(pairs, 1);
  ASSERT_EQ(means.size(), tokens.size());
  for (const size_t i : {size_t{0}, size_t{3}, size_t{399}}) {
    const auto maps = mapper.all_maps(pairs[i])[static_cast<size_t>(AttentionKind::kCross)];
    ASSERT_EQ(means[i].keys, maps[0].keys);
    ASSERT_EQ(means[i].queries, maps[0].queries);
    for (int64_t t = 0; t < means[i].queries; ++t) {
      for (int64_t j = 0; j < means[i].keys; ++j) {
        const double mean =
            (double{maps[3].at(t, j)} + double{maps[4].at(t, j)} + double{maps[5].at(t, j)}) / 3;
        EXPECT_TRUE(testing::close(means[i].at(t, j), mean, testing::tolerance_of(DType::kF32)));
      }
    }
  }
}

}  // namespace
}  // namespace ventris
