// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/context.h"
#include "backend/soft_targets.h"
#include "model/micro_batch.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// How a model learns from its teachers: the fields of SoftTargets, and how many of the most probable tokens
/// of each row are its targets; 0: all.
struct Distillation {
  float weight;
  float temperature;
  int top_k;
};

/// A model that teaches. A view: its parts must outlive their users.
struct TeacherModel {
  const TransformerConfig& config;
  ParameterStore& store;
  const TransformerIds& ids;
};

/// One or several trained models whose distributions over the target vocabulary another model learns, the
/// student: word-level knowledge distillation (Kim and Rush 2016, "Sequence-Level Knowledge Distillation",
/// section 3.1). Several teach the mean of their distributions. Without dropout, and forward alone, in memory
/// that is planned once; everything is enqueued on the device.
class Teachers {
 public:
  /// The teachers' stores have the dtype of the student's. Requires the vocabularies of `student`, and
  /// positions for its sentences. Throws Error(kUnavailable) with the bytes needed if memory does not
  /// suffice.
  Teachers(Context& context, const std::vector<TeacherModel>& models, const Distillation& how,
           const TransformerConfig& student, DType dtype, const MicroBatchCapacity& capacity);
  ~Teachers();
  Teachers(const Teachers&) = delete;
  Teachers& operator=(const Teachers&) = delete;

  /// Computes the decoder outputs of all teachers, which targets() needs. `batch` must outlive these calls.
  void forward(const MicroBatch& batch);
  /// The targets of the target rows [begin, begin + room.rows), valid until the next call. `room`:
  /// [rows, padded_vocab] T or master, overwritten; at most OutputLayer::chunk_rows() rows.
  SoftTargets targets(int64_t begin, Tensor room);

  /// Bytes of their activations and targets, without parameters, by the code that allocates them.
  static size_t planned_bytes(const std::vector<TransformerConfig>& teachers, const Distillation& how,
                              const TransformerConfig& student, Device device, DType dtype,
                              const MicroBatchCapacity& capacity);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris
