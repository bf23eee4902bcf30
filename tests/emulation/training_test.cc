// Training runs on the emulated CUDA device beside the same runs on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.h"
#include "trainer/translation.h"
#include "trainer/weights.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;
using testing::TemporaryFolder;

ContextOptions cuda() {
  return {.device = Device::kCuda, .scratch_bytes = size_t{1} << 20};
}

class CudaTraining : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    corpus_ = new std::string(testing::make_tiny_corpus(*folder_));
  }
  static void TearDownTestSuite() {
    delete corpus_;
    delete folder_;
  }

  TrainOptions options(const std::string& name, int64_t steps) const {
    TrainOptions run = testing::tiny_run_options(*corpus_, runs_ / name);
    run.model.encoder_layers = run.model.decoder_layers = 1;
    run.batch_source_tokens = 160;
    run.batch_target_tokens = 160;
    run.max_steps = steps;
    return run;
  }
  static TrainResult train_on(const ContextOptions& device, const TrainOptions& run) {
    Context context(device);
    const auto self = make_self_communicator();
    return train(context, *self, run, "test");
  }
  static std::vector<double> numbers_of(const TrainOptions& run, const char* name) {
    std::vector<double> found;
    std::ifstream file(run.model_dir + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains(name)) found.push_back(object[name]);
    }
    return found;
  }

  static TemporaryFolder* folder_;
  static std::string* corpus_;
  TemporaryFolder runs_;
};
TemporaryFolder* CudaTraining::folder_ = nullptr;
std::string* CudaTraining::corpus_ = nullptr;

TEST_F(CudaTraining, LossAndNormOfEveryStepAreThoseOfTheCpu) {
  TrainOptions on_cpu = options("cpu", 4);
  on_cpu.model.encoder_layers = on_cpu.model.decoder_layers = 2;
  on_cpu.clip_norm = 1.0;
  on_cpu.valid_every = 4;
  on_cpu.valid_bleu = false;
  on_cpu.valid_metric = "loss";
  TrainOptions on_device = on_cpu;
  on_device.model_dir = runs_ / "cuda";
  train_on({}, on_cpu);
  train_on(cuda(), on_device);
  for (const char* name : {"loss", "nll", "gradient_norm", "learning_rate", "valid_loss"}) {
    const std::vector<double> expected = numbers_of(on_cpu, name);
    const std::vector<double> got = numbers_of(on_device, name);
    ASSERT_EQ(got.size(), expected.size()) << name;
    ASSERT_FALSE(got.empty()) << name;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]) << name;
  }
}

TEST_F(CudaTraining, AnInterruptedRunComesToTheSameBits) {
  TrainOptions whole = options("whole", 4);
  whole.precision = DType::kBF16;
  const LoadedState expected(train_on(cuda(), whole).last_checkpoint, whole.model, kTinyVocabulary);
  TrainOptions parts = whole;
  parts.model_dir = runs_ / "parts";
  parts.max_steps = 2;
  train_on(cuda(), parts);
  parts.max_steps = 4;
  const LoadedState got(train_on(cuda(), parts).last_checkpoint, parts.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_TRUE(got.m == expected.m);
  EXPECT_TRUE(got.v == expected.v);
}

TEST_F(CudaTraining, ReplayedStepsHaveTheBitsOfStepsGivenAnew) {
  const TrainOptions captured = options("captured", 5);
  TrainOptions anew = options("anew", 5);
  anew.no_cuda_graph = true;
  const LoadedState got(train_on(cuda(), captured).last_checkpoint, captured.model, kTinyVocabulary);
  const LoadedState expected(train_on(cuda(), anew).last_checkpoint, anew.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_TRUE(got.m == expected.m);
  EXPECT_TRUE(got.v == expected.v);
  EXPECT_EQ(numbers_of(captured, "loss"), numbers_of(anew, "loss"));
}

TEST_F(CudaTraining, AModelTrainedOnTheDeviceTranslatesAlikeOnBoth) {
  const std::string checkpoint = train_on(cuda(), options("run", 2)).last_checkpoint;
  const std::vector<std::string> lines = {testing::tiny_pair(3).first, "", testing::tiny_pair(8).first};
  const auto self = make_self_communicator();
  const auto translate_on = [&](const ContextOptions& device) {
    Context context(device);
    const ModelSet models(context, {checkpoint}, DType::kF32);
    return Translator(context, *self, models, {.beam_size = 2, .max_extra_length = 2}).translate(lines);
  };
  const auto expected = translate_on({});
  const auto got = translate_on(cuda());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(got[i].translations.at(0).text, expected[i].translations.at(0).text);
  }
}

TEST_F(CudaTraining, NaNsAreFoundAndNamed) {
  TrainOptions run = options("run", 20);
  run.learning_rate_scale = 1e38;
  try {
    train_on(cuda(), run);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged) << error.what();
    EXPECT_NE(std::string(error.what()).find("first seen in"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ventris
