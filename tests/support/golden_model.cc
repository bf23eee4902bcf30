// SPDX-License-Identifier: Apache-2.0
#include "tests/support/golden_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "backend/ops/adam.h"
#include "tests/support/golden_file.h"
#include "tests/support/source_dir.h"
#include "tests/support/tiny_model.h"

namespace ventris::testing {
namespace {

using Golden = std::map<std::string, GoldenArray>;

class GoldenModel {
 public:
  GoldenModel(const std::string& name, DType dtype, const ContextOptions& options)
      : golden_(read_golden(source_dir() + "/tests/golden/transformer_" + name + ".golden")),
        tiny_(config(), dtype, options),
        batch_(sentences()) {
    ParameterStore& store = tiny_.store();
    tiny_.change_values([&](Tensor all) {
      for (const LogicalParameter& parameter : store.logical()) {
        const GoldenArray& golden = golden_.at("value/" + parameter.name);
        const Tensor value = store.logical_block(all, parameter);
        require(golden.rows == value.rows && golden.cols == value.cols, parameter.name);
        for (int64_t r = 0; r < value.rows; ++r) {
          std::copy_n(golden.floats.begin() + r * value.cols, value.cols, value.row<float>(r));
        }
      }
    });
    tiny_.zero_gradients();
  }

  TinyModel& tiny() { return tiny_; }
  const PackedBatch& batch() const { return batch_; }
  const GoldenArray& golden(const std::string& name) const { return golden_.at(name); }
  float tokens() const { return static_cast<float>(batch_.target_tokens()); }

  /// Sums of |got - expected|^2 and |expected|^2 over the rows of a logical parameter that the file has.
  Squares compare(ConstTensor got, const std::string& name) const {
    const GoldenArray& expected = golden(name);
    require(expected.rows >= 1 && expected.rows <= got.rows && expected.cols == got.cols, name);
    Squares squares;
    for (int64_t r = 0; r < expected.rows; ++r) {
      for (int64_t c = 0; c < got.cols; ++c) {
        const double e = expected.floats[static_cast<size_t>(r * got.cols + c)];
        squares.add({std::pow(got.row<float>(r)[c] - e, 2), e * e});
      }
    }
    return squares;
  }

 private:
  static void require(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error("the shape of " + what + " is not that of the golden file");
  }

  TransformerConfig config() const {
    const std::vector<int32_t>& c = golden("config").integers;
    TransformerConfig config{.encoder_layers = c[0],
                             .decoder_layers = c[1],
                             .d_model = c[2],
                             .d_ff = c[3],
                             .heads = c[4],
                             .vocab_size = c[5],
                             .pre_norm = c[6] != 0,
                             .learned_positions = c[7] != 0,
                             .max_positions = c[8],
                             .dropout = 0.0F,
                             .attention_dropout = 0.0F};
    if (c.size() > 9) {
      config.tie = static_cast<Tie>(c[9]);
      config.source_vocab_size = c[10];
    }
    if (c.size() > 11) config.activation = static_cast<Activation>(c[11]);
    return config;
  }

  std::vector<SentencePair> sentences() const {
    const GoldenArray& lengths = golden("lengths");
    auto source = golden("sources").integers.begin();
    auto target = golden("targets").integers.begin();
    std::vector<SentencePair> pairs;
    for (size_t s = 0; s < lengths.rows; ++s) {
      const auto source_end = source + lengths.integers[2 * s];
      const auto target_end = target + lengths.integers[2 * s + 1];
      pairs.push_back({{source, source_end}, {target, target_end}});
      source = source_end;
      target = target_end;
    }
    return pairs;
  }

  Golden golden_;
  TinyModel tiny_;
  PackedBatch batch_;
};

void check_logits(GoldenModel& model, const Bounds& bounds) {
  const GoldenArray& expected = model.golden("logits");
  const std::vector<double> got = model.tiny().logits(model.batch());
  const auto width = static_cast<size_t>(model.tiny().config().padded_vocab());
  ASSERT_EQ(got.size(), expected.rows * width);
  Squares squares;
  for (size_t r = 0; r < expected.rows; ++r) {
    for (size_t c = 0; c < expected.cols; ++c) {
      const double e = expected.floats[r * expected.cols + c];
      squares.add({std::pow(got[r * width + c] - e, 2), e * e});
    }
  }
  EXPECT_LT(squares.distance(), bounds.logits);
}

/// The biases of keys are left out of the comparison: the softmax does not see them, so that their gradient
/// is zero, and exactly zero here, while PyTorch computes rounding errors that its Adam scales up to full
/// steps.
bool comparable(const LogicalParameter& parameter) {
  return !parameter.name.ends_with("key/bias");
}

void check_gradients(GoldenModel& model, const Bounds& bounds) {
  ParameterStore& store = model.tiny().store();
  Squares all;
  const HostCopy gradients(model.tiny().context(), store.gradients());
  for (const LogicalParameter& parameter : store.logical()) {
    const ConstTensor gradient = store.logical_block(gradients.view(), parameter);
    if (comparable(parameter)) {
      const Squares squares = model.compare(gradient, "gradient/" + parameter.name);
      EXPECT_LT(squares.distance(), bounds.gradient) << parameter.name;
      all.add(squares);
    } else {
      for (int64_t c = 0; c < gradient.cols; ++c) {
        EXPECT_EQ(gradient.row<float>(0)[c], 0.0F) << parameter.name;
      }
    }
  }
  EXPECT_LT(all.distance(), bounds.all_gradients);
}

void check_ten_steps(GoldenModel& model, const Bounds& bounds) {
  TinyModel& tiny = model.tiny();
  ParameterStore& store = tiny.store();
  const std::vector<float>& schedule = model.golden("schedule").floats;
  const auto bytes = static_cast<size_t>(store.flat_size()) * sizeof(float);
  Arena memory(tiny.context().device(), 2 * bytes + 1024);
  const Tensor m = memory.allocate(1, store.flat_size(), DType::kF32);
  const Tensor v = memory.allocate(1, store.flat_size(), DType::kF32);
  auto* device_scalars = memory.allocate_array<AdamScalars>(1);
  for (int step = 1; step <= static_cast<int>(schedule[2]); ++step) {
    tiny.zero_gradients();
    const LossSums sums = tiny.step(model.batch(), {.gradient_scale = 1.0F / model.tokens()});
    const double expected_loss = model.golden("losses").floats[static_cast<size_t>(step - 1)];
    EXPECT_NEAR(sums.loss / expected_loss, 1.0, bounds.loss) << "step " << step;
    if (step == 1) check_gradients(model, bounds);
    const double rate = schedule[0] / std::sqrt(tiny.config().d_model) *
                        std::min(std::pow(step, -0.5), step * std::pow(schedule[1], -1.5));
    const AdamScalars scalars = {.learning_rate = static_cast<float>(rate),
                                 .gradient_scale = 1.0F,
                                 .bias_correction1 = static_cast<float>(1 - std::pow(0.9, step)),
                                 .bias_correction2 = static_cast<float>(1 - std::pow(0.98, step))};
    copy_to_device(tiny.context(), device_scalars, &scalars, sizeof(scalars));
    adam(tiny.context(), {.value = store.values(),
                          .gradient = store.gradients(),
                          .m = m,
                          .v = v,
                          .compute = store.compute_copy(),
                          .scalars = device_scalars});
  }
  const HostCopy values(tiny.context(), store.values());
  for (const LogicalParameter& parameter : store.logical()) {
    if (!comparable(parameter)) continue;
    EXPECT_LT(
        model.compare(store.logical_block(values.view(), parameter), "final/" + parameter.name).distance(),
        bounds.parameter)
        << parameter.name;
  }
}

}  // namespace

void check_golden_model(const std::string& name, DType dtype, const ContextOptions& options) {
  const Bounds& bounds = dtype == DType::kF32 ? kF32Bounds : kBF16Bounds;
  GoldenModel model(name, dtype, options);
  check_logits(model, bounds);
  EXPECT_NEAR(model.tiny().evaluate(model.batch()).loss / model.golden("losses").floats[0], 1.0, bounds.loss);
  check_ten_steps(model, bounds);
}

}  // namespace ventris::testing
