// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "model/teachers.h"
#include "tests/support/tiny_model.h"

namespace ventris::testing {

/// A network that has another shape in everything but its vocabularies.
inline TransformerConfig other_shape(const TransformerConfig& config) {
  TransformerConfig other = config;
  other.encoder_layers = 1;
  other.decoder_layers = 3;
  other.d_model = 8;
  other.d_ff = 12;
  other.heads = 2;
  other.pre_norm = !config.pre_norm;
  other.learned_positions = !config.learned_positions;
  other.marian_positions = false;
  other.output_bias = true;
  if (config.source_vocab_size == 0) other.tie = Tie::kNone;
  return other;
}

/// Teachers of these shapes, from which `student` learns as long as they live. One of its own shape has its
/// parameters.
class TinyTeachers {
 public:
  TinyTeachers(TinyModel& student, const std::vector<TransformerConfig>& configs, const Distillation& how)
      : student_(student) {
    if (configs.empty()) return;
    ContextOptions options;
    options.device = student.context().device();
    options.scratch_bytes = size_t{1} << 20;
    std::vector<TeacherModel> views;
    for (const TransformerConfig& config : configs) {
      TinyModel& model = models_.emplace_back(config, student.store().dtype(), options,
                                              KeptActivations::kNone, StagedRows::kExact);
      synchronize(model.context());
      views.push_back({model.config(), model.store(), model.ids()});
    }
    teachers_.emplace(student.context(), views, how, student.config(), student.store().dtype(),
                      TinyModel::kCapacity);
    student.model().set_teachers(&*teachers_);
  }
  ~TinyTeachers() { student_.model().set_teachers(nullptr); }
  TinyTeachers(const TinyTeachers&) = delete;
  TinyTeachers& operator=(const TinyTeachers&) = delete;

  TinyModel& model(size_t index) { return models_[index]; }
  Teachers& teachers() { return *teachers_; }

 private:
  TinyModel& student_;
  std::deque<TinyModel> models_;
  std::optional<Teachers> teachers_;
};

}  // namespace ventris::testing
