// SPDX-License-Identifier: Apache-2.0
#include "trainer/teacher_models.h"

#include <algorithm>

#include "backend/error.h"
#include "comm/communicator.h"
#include "data/files/file_io.h"
#include "trainer/files/parameter_digest.h"
#include "trainer/run_shape.h"
#include "trainer/text.h"

namespace ventris {
namespace {

void check_vocabulary(const LoadedModel& teacher, const data::Corpus& corpus) {
  const std::string difference = vocabulary_difference(*teacher.tokenizers, corpus.tokenizers());
  if (difference.empty()) return;
  fail(
      ExitCode::kBadConfiguration,
      "--teacher {}: its vocabulary is not that of {}: {}. A teacher needs the same tokens: prepare the corpus "
      "with its tokenizer ('ventris prepare --tokenizer-from {}')",
      teacher.path, corpus.path(), difference, teacher.path);
}

/// Sinusoids reach as far as those of the student; learned positions have to be there.
void fit_positions(LoadedModel& teacher, const TrainOptions& options, const data::Corpus& corpus) {
  int& positions = teacher.config.max_positions;
  if (!teacher.config.learned_positions) {
    positions = std::max(positions, options.model.max_positions);
    return;
  }
  const bool samples = options.sample_source > 0.0 || options.sample_target > 0.0;
  const LongestRows rows = longest_rows(corpus);
  const int64_t needed = samples ? options.model.max_positions : std::max(rows.source, rows.target);
  if (positions >= needed) return;
  fail(
      ExitCode::kBadConfiguration,
      "--teacher {}: it has learned {} positions, but sentences of {} have up to {} tokens with their end mark{}",
      teacher.path, positions, corpus.path(), needed,
      samples ? " when they are sampled (--max-positions)" : "");
}

std::string learned_tokens(int top_k) {
  if (top_k == 0) return "all tokens";
  return top_k == 1 ? "the most probable token" : fmt::format("the {} most probable tokens", top_k);
}

}  // namespace

TeacherModels::TeacherModels(Context& context, const TrainOptions& options, const data::Corpus& corpus)
    : context_(context),
      how_{.weight = static_cast<float>(options.teacher_weight),
           .temperature = static_cast<float>(options.teacher_temperature),
           .top_k = options.teacher_top_k},
      dtype_(dtype_of(options.precision)),
      student_(options.model) {
  for (const std::string& file : options.teachers) {
    if (!data::is_there(file)) fail(ExitCode::kMissingInput, "--teacher {}: there is no such file", file);
    LoadedModel& model = *models_.emplace_back(load_model(context, file, dtype_));
    check_vocabulary(model, corpus);
    fit_positions(model, options, corpus);
    digests_ += (digests_.empty() ? "" : " ") + parameter_digest(context, model.store);
  }
}

std::vector<std::string> TeacherModels::paths() const {
  std::vector<std::string> paths;
  for (const auto& model : models_) paths.push_back(model->path);
  return paths;
}

std::vector<TransformerConfig> TeacherModels::configs() const {
  std::vector<TransformerConfig> configs;
  for (const auto& model : models_) configs.push_back(model->config);
  return configs;
}

std::vector<std::string> TeacherModels::descriptions() const {
  std::vector<std::string> lines;
  for (const auto& model : models_) {
    const TransformerConfig& config = model->config;
    lines.push_back(fmt::format("{}: {} parameters, {} + {} layers, width {}, {} heads", model->path,
                                thousands(model->store.parameter_count()), config.encoder_layers,
                                config.decoder_layers, config.d_model, config.heads));
  }
  lines.push_back(fmt::format("{} of {}, weight {:g}, temperature {:g}", learned_tokens(how_.top_k),
                              models_.size() == 1 ? "its distribution" : "the mean of their distributions",
                              how_.weight, how_.temperature));
  return lines;
}

int64_t TeacherModels::parameter_bytes() const {
  const size_t each = size_of(master_dtype(dtype_)) + (dtype_ == DType::kBF16 ? size_of(dtype_) : 0);
  int64_t elements = 0;
  for (const auto& model : models_) elements += model->store.flat_size();
  return elements * static_cast<int64_t>(each);
}

int64_t TeacherModels::activation_bytes(Device device, const MicroBatchCapacity& capacity) const {
  return static_cast<int64_t>(Teachers::planned_bytes(configs(), how_, student_, device, dtype_, capacity));
}

void TeacherModels::teach(Transformer& student, const MicroBatchCapacity& capacity) {
  std::vector<TeacherModel> views;
  for (const auto& model : models_) views.push_back({model->config, model->store, model->ids});
  teachers_.emplace(context_, views, how_, student_, dtype_, capacity);
  student.set_teachers(&*teachers_);
}

std::unique_ptr<TeacherModels> load_teachers(Context& context, Communicator& communicator,
                                             const TrainOptions& options, const data::Corpus& corpus) {
  check_equal_on_all_ranks(communicator, "the number of teachers (--teacher)",
                           std::to_string(options.teachers.size()));
  if (options.teachers.empty()) return nullptr;
  auto models = std::make_unique<TeacherModels>(context, options, corpus);
  check_equal_on_all_ranks(communicator, "the digests of the teachers' parameters", models->digests());
  return models;
}

}  // namespace ventris
