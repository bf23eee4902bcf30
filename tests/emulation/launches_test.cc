// SPDX-License-Identifier: Apache-2.0
// What the device is asked for in a step of training and of translation: every kernel, product, copy and
// memset by its name, so that another one is a decision and no accident.
//
// When a test fails: find what asks for more or for less than before. Is it wanted, change the table in the
// same commit. Is it not, the change forgets something that results do not show, such as an argument without
// which an operation does work again that was done before.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <string>

#include "model/search/beam_search.h"
#include "tests/emulation/controls.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_run.h"
#include "trainer/run.h"
#include "trainer/train.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;
using testing::TinyModel;

using Launches = std::map<std::string, int64_t>;

Launches difference(const Launches& all, const Launches& before) {
  Launches added = all;
  for (const auto& [name, count] : before) added[name] -= count;
  return added;
}

template <typename Work>
Launches launches_of(const Work& work) {
  const Launches before = emulation::launches();
  work();
  return difference(emulation::launches(), before);
}

/// A line of a table. A column for each kind of step.
template <size_t kColumns>
struct Row {
  const char* name;
  int64_t counts[kColumns];
};

/// Expects of `got` what the column says, and nothing besides.
template <size_t kColumns, size_t kRows>
void expect_launches(const char* what, const Launches& got, const Row<kColumns> (&table)[kRows],
                     size_t column) {
  Launches surplus = got;
  for (const Row<kColumns>& row : table) surplus[row.name] -= row.counts[column];
  std::string lines;
  for (const auto& [name, more] : surplus) {
    if (more == 0) continue;
    const auto found = got.find(name);
    const int64_t count = found == got.end() ? 0 : found->second;
    lines += fmt::format("\n  {}: {}, in the table {} ({:+})", name, count, count - more, more);
  }
  if (!lines.empty()) {
    ADD_FAILURE() << "the launches of " << what << " are not those of the table; " << __FILE__
                  << " says at its beginning what to do:" << lines;
  }
}

ContextOptions cuda() {
  return {.device = Device::kCuda, .scratch_bytes = size_t{1} << 20};
}

/// Two layers a side, with heads of 32 columns, which the kernels on tensor cores take.
TransformerConfig with_shape(TransformerConfig config) {
  config.encoder_layers = config.decoder_layers = 2;
  config.d_model = 64;
  config.d_ff = 64;
  config.heads = 2;
  return config;
}

class CudaLaunches : public ::testing::Test {
 protected:
  void SetUp() override { setenv("VENTRIS_TUNE_GEMM", "0", 1); }  // products run once, not to be timed

  /// Of step `number` of a run with dropout and label smoothing.
  static Launches launches_of_step(int64_t number, Precision precision, bool pre_norm, bool graph,
                                   int64_t tokens = 48) {
    const TemporaryFolder folder;
    TrainOptions options = testing::tiny_run_options(testing::tiny_corpus(), folder / "run");
    options.model = with_shape(options.model);
    options.model.pre_norm = pre_norm;
    options.precision = precision;
    options.batch_source_tokens = options.batch_target_tokens = tokens;
    options.logical_shards = 1;
    options.log_every = 1000;
    options.no_cuda_graph = !graph;
    Context context(cuda());
    const auto self = make_self_communicator();
    const auto run = make_run(context, *self, options, "test", nullptr);
    const auto step = [&] {
      const data::GlobalBatch batch = begin_step(*run);
      EXPECT_TRUE(compute_step(*run, batch));
      complete_step(*run, batch);
    };
    for (int64_t i = 1; i < number; ++i) step();
    const Launches launches = launches_of(step);
    finish(*run);
    return launches;
  }
};

// f32; bf16; bf16 with pre-norm
// clang-format off
constexpr Row<3> kTrainingStep[] = {
    {"adam_step",                  {  1,   1,   1}},
    {"add_columns",                {  5,   5,   7}},
    {"attend",                     {  6,   0,   0}},
    {"attend_on_tensor_cores",     {  0,   6,   6}},
    {"chunk_squares",              {  1,   1,   1}},
    {"clear_rows",                 { 24,   0,   0}},
    {"copy to device",             {  2,   2,   2}},
    {"copy to host",               {  1,   1,   1}},
    {"cross_entropy_row",          {  1,   1,   1}},
    {"embed",                      {  2,   2,   2}},
    {"gradients_on_tensor_cores",  {  0,   6,   6}},
    {"join_runs",                  {  2,   2,   2}},
    {"key_gradient",               {  6,   0,   0}},
    {"list_work",                  {  0,   3,   3}},
    {"memset",                     {  3,   3,   3}},
    {"norm_backward",              { 10,  10,  12}},
    {"norm_forward",               { 10,  10,  12}},
    {"plan",                       {  1,   1,   1}},
    {"product",                    { 66,  66,  66}},
    {"query_gradient",             {  6,   0,   0}},
    {"search",                     {  1,   1,   1}},
    {"sum_columns",                { 11,  11,  11}},
    {"sum_losses",                 {  1,   1,   1}},
    {"sum_partials",               {  1,   1,   1}},
    {"sum_runs",                   {  2,   2,   2}},
};
// clang-format on

TEST_F(CudaLaunches, OfATrainingStep) {
  constexpr int64_t kStep = 3;  // the first ones also make memory
  expect_launches("a step in f32", launches_of_step(kStep, Precision::kF32, false, false), kTrainingStep, 0);
  expect_launches("a step in bf16", launches_of_step(kStep, Precision::kBF16, false, false), kTrainingStep,
                  1);
  expect_launches("a step with pre-norm", launches_of_step(kStep, Precision::kBF16, true, false),
                  kTrainingStep, 2);
}

/// Where products that also sum the gradients of biases were measured to be faster. Those of the hidden
/// layers are summed where ReLU's gradient is masked.
TEST_F(CudaLaunches, OfATrainingStepWhoseProductsSumColumns) {
  unsetenv("VENTRIS_TUNE_GEMM");
  emulation::blas_answers().plain_ms = 20;
  Launches launches = launches_of_step(3, Precision::kBF16, false, false, /*tokens=*/64);
  emulation::blas_answers() = {};
  EXPECT_EQ(launches["sum_columns"], 4);
  launches["sum_columns"] = 11;
  expect_launches("a step whose products sum columns", launches, kTrainingStep, 1);
}

constexpr Row<1> kReplayedStep[] = {
    {"copy to device", {2}},  // the batch, the learning rate
    {"copy to host", {1}},    // the report
    {"graph", {1}},
};

TEST_F(CudaLaunches, OfAReplayedTrainingStep) {
  constexpr int64_t kStep = 7;  // both stages of batches have their graphs
  expect_launches("a replayed step", launches_of_step(kStep, Precision::kBF16, false, true), kReplayedStep,
                  0);
}

// f32: for the sources, the first token and the end mark; for a token more. bf16: likewise
// clang-format off
constexpr Row<4> kTranslation[] = {
    {"attend",                  {  2,   0,   0,   0}},
    {"attend_on_tensor_cores",  {  0,   0,   2,   0}},
    {"cast_packs",              {  4,   2,   4,   2}},
    {"clear_rows",              {  2,   0,   0,   0}},
    {"copy to device",          {  5,   2,   5,   2}},
    {"copy to host",            {  2,   1,   2,   1}},
    {"decode",                  {  8,   4,   8,   4}},
    {"embed",                   {  3,   1,   3,   1}},
    {"list_work",               {  0,   0,   1,   0}},
    {"log_probability_row",     {  1,   0,   1,   0}},
    {"norm_forward",            { 16,   6,  16,   6}},
    {"product",                 { 35,  13,  35,  13}},
    {"top_k_row",               {  2,   1,   2,   1}},
};
// clang-format on

TEST_F(CudaLaunches, OfTranslation) {
  size_t column = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TinyModel tiny(with_shape(testing::tiny_config(/*pre_norm=*/false)), dtype, cuda(),
                   KeptActivations::kNone, StagedRows::kExact);
    const auto launches_for = [&](int tokens) {
      BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(),
                        {.beam_size = 3, .max_length = tokens, .min_length = tokens});
      const std::vector<std::vector<int32_t>> sources = {{4, 9, 17, 5}, {8, 3}};
      search.translate(sources);  // makes memory
      return launches_of([&] { search.translate(sources); });
    };
    expect_launches("a translation of one token", launches_for(1), kTranslation, column++);
    expect_launches("a token more", difference(launches_for(4), launches_for(3)), kTranslation, column++);
  }
}

}  // namespace
}  // namespace ventris
