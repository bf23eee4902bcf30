// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/selftest.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backend/error.h"
#include "backend/gemm_choices.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

constexpr int64_t kLayerRows = 1500;
constexpr int64_t kScoreRows = 150;
constexpr int64_t kTileRows = 128;
constexpr int64_t kCpuRows = 1100;  // more than a block of any product has

}  // namespace

SelftestRun::SelftestRun(Context& context, const SelftestOptions& options, Precision precision_,
                         std::function<void(const KernelResult&)> tell)
    : model(options.model),
      precision(precision_),
      dtype(dtype_of(precision_)),
      close(tolerance_of(dtype)),
      rows(options.rows),
      layer_rows(std::min(options.rows, kLayerRows)),
      score_rows(std::min(options.rows, kScoreRows)),
      context_(context),
      tell_(std::move(tell)) {}

void SelftestRun::product(const char* name, const std::string& shape,
                          const std::function<void(Trial&)>& body) {
  use_tf32(context_, precision == Precision::kTf32);
  run(name, shape, name_of(precision), body);
  use_tf32(context_, false);
}

void SelftestRun::run(const char* name, const std::string& shape, const char* dtype_name,
                      const std::function<void(Trial&)>& body) {
  Trial trial(context_);
  try {
    body(trial);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kUnavailable) throw;
    trial.fail_with(error.what());
  }
  tell_({.kernel = name,
         .shape = shape,
         .dtype = dtype_name,
         .error = trial.error(),
         .finding = trial.finding()});
}

std::string shape_text(int64_t rows, int64_t cols) {
  return fmt::format("{}x{}", rows, cols);
}

TrialDropout::TrialDropout(Context& context, float rate) : position(context, {kPosition}) {
  constexpr uint64_t kSeed = 0x5EED0123456789ABULL;
  constexpr uint32_t kPlace = 0x300;
  on_host = {.rate = rate, .seed = kSeed, .place = kPlace, .position = &kPosition};
  key = on_host;
  key.position = position.data();
}

double TrialDropout::factor(int64_t row, int64_t col, int head) const {
  if (!on_host.active()) return 1.0;
  constexpr int64_t kBlock = 8;
  const auto bits = dropout_bits(on_host, static_cast<uint32_t>(row), static_cast<uint32_t>(col / kBlock),
                                 static_cast<uint32_t>(head));
  return bits[static_cast<size_t>(col % kBlock)] < on_host.threshold() ? 0.0 : on_host.scale();
}

std::vector<KernelResult> selftest(Context& context, const SelftestOptions& options,
                                   const std::function<void(const KernelResult&)>& tell) {
  std::vector<KernelResult> results;
  const auto keep = [&](const KernelResult& result) {
    results.push_back(result);
    tell(result);
  };
  for (const Precision precision : options.precisions) {
    SelftestRun run(context, options, precision, keep);
    try_products(run);
    if (run.on_cpu()) try_packed_products(run);
    try_layers(run);
    try_attention(run);
    try_scores(run);
    if (precision == options.precisions.front()) try_update(run);
  }
  return results;
}

int64_t selftest_rows(const TrainOptions& train, const Context& context) {
  const int64_t tokens = std::max(train.batch_source_tokens, train.batch_target_tokens);
  const int64_t padded = (tokens + kTileRows - 1) / kTileRows * kTileRows;
  return context.device() == Device::kCpu ? std::min(padded, kCpuRows) : padded;
}

SelftestOptions short_selftest() {
  SelftestOptions options;
  options.model.d_model = 128;
  options.model.d_ff = 256;
  options.model.heads = 4;
  options.model.vocab_size = 1000;
  options.rows = 200;
  return options;
}

}  // namespace ventris
