// SPDX-License-Identifier: Apache-2.0
#include "model/teachers.h"

#include <algorithm>

#include "backend/profile.h"
#include "backend/tempered_softmax.h"
#include "model/decoder.h"
#include "model/encoder.h"
#include "model/output_layer.h"
#include "model/pass.h"
#include "model/phases.h"

namespace ventris {
namespace {

constexpr KeptActivations kKept = KeptActivations::kNone;

/// The memory of one teacher except its parameters.
struct TeacherActivations {
  Tensor sinusoids = {};  // [max_positions, d_model] master, if positions are not learned
  Encoder::Saved encoder;
  Decoder::Saved decoder;

  void plan(Arena& arena, const TransformerConfig& config, DType dtype, const MicroBatchCapacity& capacity) {
    if (!config.learned_positions)
      sinusoids = arena.allocate(config.max_positions, config.d_model, master_dtype(dtype));
    encoder = Encoder::plan(arena, config, dtype, capacity.source_rows, kKept);
    decoder = Decoder::plan(arena, config, dtype, capacity, kKept);
  }
};

/// What all teachers share.
struct SharedMemory {
  BatchAttentionWork attention_work;
  Tensor mean = {};            // [rows of a chunk, padded_vocab] master: probabilities, where all are needed
  int32_t* indices = nullptr;  // [rows of a chunk, k]
  Tensor listed = {};          // [rows of a chunk, k] master: their probabilities

  void plan(Arena& arena, size_t teachers, const Distillation& how, const TransformerConfig& student,
            Device device, DType dtype, const MicroBatchCapacity& capacity) {
    attention_work = BatchAttentionWork::plan(arena, device, dtype, capacity);
    const int64_t rows = OutputLayer::chunk_rows(student, device, OutputLayer::logits_dtype(device, dtype),
                                                 capacity.target_rows, /*two_passes=*/false);
    const DType master = master_dtype(dtype);
    if (teachers > 1 || how.top_k == 0) mean = arena.allocate(rows, student.padded_vocab(), master);
    if (how.top_k == 0) return;
    const int64_t k = std::min<int64_t>(how.top_k, student.vocab_size);
    indices = arena.allocate_array<int32_t>(rows * k);
    listed = arena.allocate(rows, k, master);
  }
};

}  // namespace

size_t Teachers::planned_bytes(const std::vector<TransformerConfig>& teachers, const Distillation& how,
                               const TransformerConfig& student, Device device, DType dtype,
                               const MicroBatchCapacity& capacity) {
  Arena arena;
  SharedMemory{}.plan(arena, teachers.size(), how, student, device, dtype, capacity);
  for (const TransformerConfig& config : teachers) TeacherActivations{}.plan(arena, config, dtype, capacity);
  return arena.high_water();
}

struct Teachers::Impl {
  struct Teacher {
    TeacherModel model;
    TeacherActivations activations;
    Encoder encoder;
    Decoder decoder;
    OutputLayer output;
    ConstTensor hidden = {};  // [target rows, d_model] T of the last batch
  };

  static std::vector<TransformerConfig> configs_of(const std::vector<TeacherModel>& models) {
    std::vector<TransformerConfig> configs;
    for (const TeacherModel& model : models) configs.push_back(model.config);
    return configs;
  }

  Impl(Context& context_in, const std::vector<TeacherModel>& models, const Distillation& how_in,
       const TransformerConfig& student_in, DType dtype, const MicroBatchCapacity& capacity)
      : context(context_in),
        how(how_in),
        student(student_in),
        memory(context.device(),
               planned_bytes(configs_of(models), how, student, context.device(), dtype, capacity),
               "activations of the teachers") {
    shared.plan(memory, models.size(), how, student, context.device(), dtype, capacity);
    for (const TeacherModel& model : models) {
      VENTRIS_CHECK(model.config.vocab_size == student.vocab_size && model.store.dtype() == dtype,
                    "a teacher of {} tokens in {}, the student has {} in {}", model.config.vocab_size,
                    name_of(model.store.dtype()), student.vocab_size, name_of(dtype));
      TeacherActivations planned;
      planned.plan(memory, model.config, dtype, capacity);
      if (planned.sinusoids) fill_sinusoids(context, model.config, planned.sinusoids);
      const auto positions = [&](const char* name) {
        return positions_of(model.store, name, planned.sinusoids);
      };
      teachers.push_back({.model = model,
                          .activations = planned,
                          .encoder = Encoder(model.ids, positions("source_positions")),
                          .decoder = Decoder(model.ids, positions("target_positions")),
                          .output = OutputLayer(model.ids)});
    }
  }

  Pass pass(const Teacher& teacher) {
    return {.context = context,
            .config = teacher.model.config,
            .store = teacher.model.store,
            .batch = *batch,
            .attention_work = shared.attention_work,
            .kept = kKept};
  }

  Context& context;
  const Distillation how;
  const TransformerConfig student;
  Arena memory;
  SharedMemory shared;
  std::vector<Teacher> teachers;
  const MicroBatch* batch = nullptr;
};

Teachers::Teachers(Context& context, const std::vector<TeacherModel>& models, const Distillation& how,
                   const TransformerConfig& student, DType dtype, const MicroBatchCapacity& capacity)
    : impl_(std::make_unique<Impl>(context, models, how, student, dtype, capacity)) {}

Teachers::~Teachers() = default;

void Teachers::forward(const MicroBatch& batch) {
  const ProfileRange range(impl_->context, kTeachersForward);
  impl_->batch = &batch;
  for (Impl::Teacher& teacher : impl_->teachers) {
    Pass pass = impl_->pass(teacher);
    const ConstTensor memory = teacher.encoder.forward(pass, teacher.activations.encoder);
    teacher.hidden = teacher.decoder.forward(pass, memory, teacher.activations.decoder);
  }
}

SoftTargets Teachers::targets(int64_t begin, Tensor room) {
  Impl& all = *impl_;
  const int64_t rows = room.rows;
  const int64_t vocab = all.student.vocab_size;
  const int32_t* const tokens = all.batch->target_offsets + all.batch->sentences;
  SoftTargets targets = {
      .probabilities = {}, .indices = nullptr, .weight = all.how.weight, .temperature = all.how.temperature};
  Tensor mean;
  if (all.shared.mean) mean = all.shared.mean.row_range(0, rows).col_range(0, vocab);
  for (const Impl::Teacher& teacher : all.teachers) {
    Pass pass = all.pass(teacher);
    teacher.output.logits(pass, teacher.hidden.row_range(begin, rows), room);
    if (!mean) continue;
    tempered_softmax(all.context, {.logits = room,
                                   .temperature = all.how.temperature,
                                   .factor = 1.0F / static_cast<float>(all.teachers.size()),
                                   .accumulate = &teacher != &all.teachers.front(),
                                   .first_row = begin,
                                   .tokens = tokens,
                                   .vocab = vocab,
                                   .probabilities = mean});
  }
  if (!all.shared.listed) {
    targets.probabilities = mean;
    return targets;
  }
  const Tensor listed = all.shared.listed.row_range(0, rows);
  soft_targets(all.context, {.scores = mean ? mean : room,
                             .are_logits = !mean,
                             .temperature = all.how.temperature,
                             .first_row = begin,
                             .tokens = tokens,
                             .vocab = vocab,
                             .k = static_cast<int>(listed.cols),
                             .indices = all.shared.indices,
                             .probabilities = listed});
  targets.probabilities = listed;
  targets.indices = all.shared.indices;
  return targets;
}

}  // namespace ventris
