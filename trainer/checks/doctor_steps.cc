// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/dtype.h"
#include "backend/philox.h"
#include "backend/transfer.h"
#include "comm/communicator.h"
#include "model/packed_pairs.h"
#include "model/transformer.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace ventris {
namespace {

constexpr int kStepVocabulary = 1000;
constexpr uint64_t kStepSeed = 1;
constexpr double kStepRate = 1e-3;
constexpr int kSourceLengths[] = {5, 17, 1, 40, 63, 28};  // tokens; targets have kLonger more
constexpr int kLonger = 3;

/// Quantities of one training step.
struct StepResult {
  double loss = 0.0;  // per target token
  std::vector<float> gradients;
};

PackedPairs pairs_of_steps() {
  constexpr int32_t kFirstToken = 3;
  PackedPairs pairs({.source_end_id = 2, .begin_id = 1, .end_id = 2});
  uint32_t drawn = 0;
  const auto tokens = [&](int count) {
    std::vector<int32_t> drawn_tokens(static_cast<size_t>(count));
    for (int32_t& token : drawn_tokens)
      token = kFirstToken + static_cast<int32_t>(philox4x32_10({drawn++, 0, 0, 0}, {7, 0})[0] %
                                                 (kStepVocabulary - kFirstToken));
    return drawn_tokens;
  };
  for (const int length : kSourceLengths) {
    const std::vector<int32_t> source = tokens(length);
    pairs.add(source, tokens(length + kLonger));
  }
  return pairs;
}

std::array<StepResult, 2> take_steps(const ContextOptions& device, DType dtype,
                                     const TransformerConfig& model) {
  Context context(device);
  ParameterStore store;
  const TransformerIds ids = declare_transformer(model, store);
  store.allocate(context.device(), dtype, /*gradients=*/true);
  store.initialize(context, kStepSeed);
  const PackedPairs pairs = pairs_of_steps();
  const auto padded = [](int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; };
  const MicroBatchCapacity capacity{.source_rows = padded(pairs.source_rows()),
                                    .target_rows = padded(pairs.target_rows()),
                                    .sentences = static_cast<int>(std::size(kSourceLengths))};
  Transformer transformer(context, model, store, ids, capacity, KeptActivations::kAll);
  Optimizer optimizer(context, store, TrainOptions{});
  optimizer.set_updates(0);
  BatchStage stage(context, capacity, training_orders(context.device(), model));
  HostBatch batch = pairs.view();
  batch.gradient_scale = 1.0F / static_cast<float>(pairs.target_rows());
  const auto self = make_self_communicator();
  std::array<StepResult, 2> results;
  for (StepResult& result : results) {
    stage.wait_until_sent();
    stage.fill(batch);
    stage.send();
    optimizer.set_learning_rate(kStepRate);
    transformer.forward_backward(stage.batch(), kStepSeed, {});
    double sums[2] = {};
    copy_to_host(context, sums, transformer.loss_sums().data, sizeof(sums));
    result.loss = sums[0] / static_cast<double>(pairs.target_rows());
    result.gradients.resize(static_cast<size_t>(store.trained_size()));
    copy_to_host(context, result.gradients.data(), store.gradients().data,
                 result.gradients.size() * sizeof(float));
    optimizer.update(transformer.loss_sums(), *self);
  }
  synchronize(context);
  return results;
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(std::max<size_t>(values.size(), 1)));
}

/// "" or the first quantity of a step that is beyond its tolerance; NaN is.
std::string difference(StepResult& found, StepResult& expected, DType dtype, const ParameterStore& store) {
  const double loss_tolerance = dtype == DType::kF32 ? 0.001 : 0.02;
  const double gradient_tolerance = dtype == DType::kF32 ? 0.01 : 0.3;
  if (!(std::abs(found.loss - expected.loss) <= loss_tolerance * expected.loss))
    return fmt::format("the loss is {:.6g}, on the CPU {:.6g}", found.loss, expected.loss);
  const auto flat = [&](StepResult& result) {
    return Tensor{result.gradients.data(), 1, store.trained_size(), store.trained_size(), DType::kF32};
  };
  const double all =
      root_mean_square(std::vector<double>(expected.gradients.begin(), expected.gradients.end()));
  for (const LogicalParameter& parameter : store.logical()) {
    const Tensor ours = store.trained_block(flat(found), parameter);
    const Tensor theirs = store.trained_block(flat(expected), parameter);
    std::vector<double> reference;
    std::vector<double> differences;
    for (int64_t row = 0; row < theirs.rows; ++row) {
      for (int64_t col = 0; col < theirs.cols; ++col) {
        reference.push_back(static_cast<double>(theirs.row<float>(row)[col]));
        differences.push_back(static_cast<double>(ours.row<float>(row)[col]) - reference.back());
      }
    }
    const double error = root_mean_square(differences) / std::max(root_mean_square(reference), all);
    if (!(error <= gradient_tolerance))
      return fmt::format("the gradient of {} differs from the CPU's by {:.3g} of its root mean square",
                         parameter.name, error);
  }
  return "";
}

}  // namespace

TransformerConfig model_of_steps(const std::string& preset) {
  TransformerConfig model = preset_options(preset).model;
  model.vocab_size = kStepVocabulary;
  return model;
}

std::vector<std::string> compare_steps(const ContextOptions& device, int threads,
                                       const TransformerConfig& model) {
  ParameterStore store;
  declare_transformer(model, store);
  std::array<StepResult, 2> expected = take_steps({.threads = threads}, DType::kF32, model);
  std::vector<std::string> wrong;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::array<StepResult, 2> found = take_steps(device, dtype, model);
    for (size_t step = 0; step < found.size(); ++step) {
      const std::string text = difference(found[step], expected[step], dtype, store);
      if (text.empty()) continue;
      wrong.push_back(fmt::format("step {} in {}: {}", step + 1, name_of(dtype), text));
      break;
    }
  }
  return wrong;
}

}  // namespace ventris
