// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "backend/device/dtype.h"
#include "backend/device/error.h"
#include "backend/device/transfer.h"
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
  std::minstd_rand random(7);
  const auto tokens = [&](int count) {
    std::vector<int32_t> drawn(static_cast<size_t>(count));
    for (int32_t& token : drawn)
      token = kFirstToken + static_cast<int32_t>(random() % (kStepVocabulary - kFirstToken));
    return drawn;
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

/// "" or the first quantity of a step that is beyond its tolerance; NaN is.
std::string difference(StepResult& found, StepResult& expected, DType dtype, const ParameterStore& store) {
  const double loss_tolerance = dtype == DType::kF32 ? 0.001 : 0.02;
  const double gradient_tolerance = dtype == DType::kF32 ? 0.01 : 0.3;
  if (!(std::abs(found.loss - expected.loss) <= loss_tolerance * expected.loss))
    return fmt::format("the loss is {:.6g}, on the CPU {:.6g}", found.loss, expected.loss);
  const auto flat = [&](StepResult& result) {
    return Tensor{result.gradients.data(), 1, store.trained_size(), store.trained_size(), DType::kF32};
  };
  double all = 0.0;  // mean square of all gradients
  for (const double gradient : expected.gradients)
    all += gradient * gradient / static_cast<double>(store.trained_size());
  for (const LogicalParameter& parameter : store.logical()) {
    const Tensor ours = store.trained_block(flat(found), parameter);
    const Tensor theirs = store.trained_block(flat(expected), parameter);
    double squares = 0.0;
    double errors = 0.0;
    for (int64_t row = 0; row < theirs.rows; ++row) {
      for (int64_t col = 0; col < theirs.cols; ++col) {
        const double reference = theirs.row<float>(row)[col];
        const double error = ours.row<float>(row)[col] - reference;
        squares += reference * reference;
        errors += error * error;
      }
    }
    const double relative =
        std::sqrt(errors / std::max(squares, all * static_cast<double>(theirs.rows * theirs.cols)));
    if (!(relative <= gradient_tolerance))
      return fmt::format("the gradient of {} differs from the CPU's by {:.3g} of its root mean square",
                         parameter.name, relative);
  }
  return "";
}

}  // namespace

TransformerConfig model_of_steps(const std::string& preset) {
  TransformerConfig model = preset_options(preset).model;
  model.vocab_size = kStepVocabulary;
  return model;
}

std::vector<std::string> faults_of_steps(const ContextOptions& device, int threads,
                                         const TransformerConfig& model) {
  std::vector<std::string> faults;
  try {
    ParameterStore store;
    declare_transformer(model, store);
    std::array<StepResult, 2> expected = take_steps({.threads = threads}, DType::kF32, model);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::array<StepResult, 2> found = take_steps(device, dtype, model);
      for (size_t step = 0; step < found.size(); ++step) {
        const std::string text = difference(found[step], expected[step], dtype, store);
        if (text.empty()) continue;
        faults.push_back(fmt::format("computes wrongly: step {} in {}: {}", step + 1, name_of(dtype), text));
        break;
      }
    }
  } catch (const Error& error) {
    faults.push_back(fmt::format("takes no training step: {}", error.what()));
  }
  return faults;
}

}  // namespace ventris
