// SPDX-License-Identifier: Apache-2.0
// Validation of one model on the CPU and on the emulated CUDA device, with more and with fewer rows together.
#include "trainer/validation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/tiny_run.h"
#include "trainer/files/weights.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

/// Trained for a few steps, so that its translations are neither empty nor all the same.
class CudaValidation : public ::testing::Test {
 protected:
  CudaValidation() : corpus_path_(testing::make_tiny_corpus(folder_)), corpus_(corpus_path_) {
    run_ = testing::tiny_run_options(corpus_path_, folder_ / "run");
    run_.model.encoder_layers = run_.model.decoder_layers = 1;
    run_.model.dropout = run_.model.attention_dropout = 0.0F;
    run_.learning_rate_scale = 0.5;
    run_.max_steps = 150;
    run_.log_every = 150;
    run_.valid_beam_size = 2;
    run_.valid_max_sentences = 8;
    Context context(ContextOptions{});
    checkpoint_ = train(context, *communicator_, run_, "test").last_checkpoint;
  }

  ValidationMetrics validate(Device device, ValidationRows rows) {
    Context context({.device = device, .scratch_bytes = size_t{1} << 20});
    const auto model = load_model(context, checkpoint_, DType::kF32);
    Transformer transformer(context, model->config, model->store, model->ids,
                            Validation::capacity(corpus_, rows), KeptActivations::kNone);
    const ValidationSets sets(corpus_);
    Validation validation(context, *communicator_, corpus_, sets, run_, rows);
    return validation.run(transformer, model->store, model->ids, 1, [] {}).value().metrics;
  }

  TemporaryFolder folder_;
  const std::string corpus_path_;
  const data::Corpus corpus_;
  TrainOptions run_;
  std::string checkpoint_;
  const std::unique_ptr<Communicator> communicator_ = make_self_communicator();
};

TEST_F(CudaValidation, DoesNotDependOnTheRowsThatAreComputedTogether) {
  const ValidationMetrics expected = validate(Device::kCpu, {.loss = 1024});
  EXPECT_GT(expected.bleu, 0.0);
  for (const Device device : {Device::kCpu, Device::kCuda}) {
    // A sentence at a time, a few of them, and all.
    for (const ValidationRows rows : {ValidationRows{1, 1}, {40, 25}, {4096, 0}}) {
      SCOPED_TRACE(std::to_string(rows.loss) + (device == Device::kCpu ? " rows, CPU" : " rows, CUDA"));
      const ValidationMetrics got = validate(device, rows);
      EXPECT_NEAR(got.loss, expected.loss, 1e-5 * expected.loss);
      EXPECT_NEAR(got.nll, expected.nll, 1e-5 * expected.nll);
      EXPECT_EQ(got.bleu, expected.bleu);
    }
  }
}

}  // namespace
}  // namespace ventris
