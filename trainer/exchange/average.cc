// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/average.h"

#include <iterator>
#include <memory>
#include <utility>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

void check_same_tokenizers(const LoadedModel& model, const LoadedModel& first) {
  if (model.tokenizers->models() == first.tokenizers->models()) return;
  const std::string difference = vocabulary_difference(*first.tokenizers, *model.tokenizers);
  fail(ExitCode::kBadData, "{}: has another tokenizer than {}, so their parameters cannot be averaged: {}",
       model.path, first.path,
       difference.empty() ? "the tokens are the same, but text is tokenized differently" : difference);
}

}  // namespace

void average_checkpoints(const std::vector<std::string>& paths, const std::string& output,
                         const std::string& provenance) {
  if (paths.empty()) fail(ExitCode::kUsage, "there are no checkpoints to average");
  check_is_no_file_of_a_run(output);
  Context cpu(ContextOptions{});
  std::unique_ptr<LoadedModel> first;
  std::vector<double> sums;
  for (const std::string& path : paths) {
    std::unique_ptr<LoadedModel> model = load_model(cpu, path, DType::kF32, ModelUse::kParameters);
    const float* values = model->store.values().as<float>();
    if (first) {
      check_same_tokenizers(*model, *first);
      check_same_network(model->config, first->config, path);
    } else {
      sums.resize(static_cast<size_t>(model->store.flat_size()));
    }
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
    if (!first) first = std::move(model);
  }
  float* values = first->store.values().as<float>();
  const double count = static_cast<double>(paths.size());
  for (size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(sums[i] / count);
  save_weights(cpu, output, first->config, first->store, first->tokenizers->models(), provenance,
               /*probes=*/"", std::ssize(paths));
}

}  // namespace ventris
