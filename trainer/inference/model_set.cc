// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/model_set.h"

#include <algorithm>

#include "backend/device/error.h"
#include "data/io/file_io.h"

namespace ventris {
namespace {

void check_same_vocabulary(const LoadedModel& first, const LoadedModel& other) {
  const std::string difference = vocabulary_difference(*first.tokenizers, *other.tokenizers);
  if (difference.empty()) return;
  fail(ExitCode::kBadConfiguration,
       "the models of an ensemble must have the same vocabulary, but {} and {} differ: {}", first.path,
       other.path, difference);
}

}  // namespace

ModelSet::ModelSet(Context& context, const std::vector<std::string>& files, Packing precision) {
  VENTRIS_CHECK(!files.empty(), "no model given");
  for (const std::string& file : files) {
    models_.push_back(
        load_model(context, file, factor_dtype(precision),
                   precision == Packing::kInt8 ? ModelUse::kTranslationInInt8 : ModelUse::kTranslation));
    check_same_vocabulary(*models_.front(), *models_.back());
  }
}

std::vector<SearchModel> ModelSet::search_models() const {
  std::vector<SearchModel> views;
  for (const auto& model : models_) views.push_back({model->config, model->store, model->ids});
  return views;
}

size_t ModelSet::longest_sentence() const {
  int min = models_.front()->config.max_positions;
  for (const auto& model : models_) min = std::min(min, model->config.max_positions);
  return static_cast<size_t>(min - 1);
}

std::vector<std::string> ModelSet::file_digests() const {
  std::vector<std::string> digests;
  for (const auto& model : models_) digests.push_back(data::digest_of_file(model->path));
  return digests;
}

std::vector<int64_t> ModelSet::averaged_checkpoints() const {
  std::vector<int64_t> numbers;
  for (const auto& model : models_) numbers.push_back(model->averaged_checkpoints);
  return numbers;
}

std::string ModelSet::path() const {
  std::string paths;
  for (const auto& model : models_) paths += (paths.empty() ? "" : ", ") + model->path;
  return paths;
}

}  // namespace ventris
