// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/context.h"
#include "backend/device/tensor.h"
#include "backend/ops/packed_gemm.h"
#include "model/logical_parameter.h"

namespace ventris {

/// All parameters of a model, declared in forward order, then allocated as one flat buffer of values and one
/// of gradients, so that the optimizer, the norm, the reduction and the checkpoint see ranges of elements,
/// and backward completes a growing suffix. Every tensor starts at a multiple of 64 elements; gaps and
/// padding rows are zero and stay zero. Tensors that are frozen as a whole come first among the values, and
/// have no gradients.
class ParameterStore {
 public:
  /// Declares a matrix [rows, cols] (padded to `padded_rows` rows of storage if that is larger) and returns
  /// its id.
  ParameterId declare_matrix(const std::string& name, int64_t rows, int64_t cols, Initializer initializer,
                             int64_t padded_rows = 0);
  /// Declares a vector (padded to `padded_size` elements of storage if that is larger).
  ParameterId declare_vector(const std::string& name, int64_t size, Initializer initializer,
                             int64_t padded_size = 0);
  /// Several parameters of equal shape, stored as adjacent blocks of columns of one tensor (query, key,
  /// value).
  ParameterId declare_fused_matrix(const std::vector<std::string>& names, int64_t rows, int64_t cols_each,
                                   Initializer initializer);
  ParameterId declare_fused_vector(const std::vector<std::string>& names, int64_t size_each,
                                   Initializer initializer);

  /// After the last declaration and before allocate(): the parameters of these names keep their values. Of a
  /// tensor that has others too, the gradients of these columns are zero and stay zero.
  void freeze(const std::vector<std::string>& names);
  /// Allocates after the last declaration. `dtype` is that of the computation: with bf16, matrices have a
  /// rounded copy. Without `gradients` (inference) there are values only.
  void allocate(Device device, DType dtype, bool gradients);
  /// Fills all values; a pure function of (seed, name, shape).
  void initialize(Context& context, uint64_t seed);
  /// Rounds the masters to the bf16 copy; does nothing for other dtypes. Must be called after values were
  /// written from outside.
  void refresh_compute_copy(Context& context);

  /// A store for inference with the current values: `weights` and the transposes of `tables` only in packed
  /// form, all others as masters. With `emptied`, which is this store, the memory of each tensor is freed
  /// after it was copied. dtype() is the factor_dtype() of `packing`.
  ParameterStore packed_copy(Context& context, Packing packing, const std::vector<ParameterId>& weights,
                             const std::vector<ParameterId>& tables, ParameterStore* emptied) const;
  bool is_packed() const { return !kept_.empty(); }
  /// The packed form of a weight, or of the transpose of a table; empty if the store is not packed.
  PackedMatrix packed(ParameterId id) const {
    return is_packed() ? packed_[static_cast<size_t>(id)] : PackedMatrix{};
  }

  DType dtype() const { return dtype_; }
  /// Elements of the values, including gaps.
  int64_t flat_size() const { return flat_size_; }
  /// Of these, at their end, elements that have gradients: of all tensors that are not frozen as a whole.
  int64_t trained_size() const { return flat_size_ - frozen_size_; }
  int64_t frozen_size() const { return frozen_size_; }
  /// Parameters of the model, without gaps and padding.
  int64_t parameter_count() const;
  int64_t frozen_count() const;  // of these
  /// First element of a tensor in the values.
  int64_t offset(ParameterId id) const { return tensors_[static_cast<size_t>(id)].offset; }
  /// Elements with gradients before a tensor, by declaration; the first of its gradients, if it has any.
  int64_t gradient_begin(ParameterId id) const { return tensors_[static_cast<size_t>(id)].gradient; }
  /// Whether a tensor that was declared before has gradients.
  bool trains_before(ParameterId id) const { return gradient_begin(id) > 0; }
  /// Columns [begin, begin + count) of a tensor that are not frozen, in order; adjacent ones are one range.
  struct Columns {
    int64_t begin, count;
  };
  const std::vector<Columns>& trained_columns(ParameterId id) const {
    return tensors_[static_cast<size_t>(id)].trained;
  }
  /// Elements with gradients that follow one another also by declaration: where they begin there, and among
  /// the gradients.
  struct TrainedRange {
    int64_t declared, gradient, count;
  };
  std::vector<TrainedRange> trained_ranges() const;

  Tensor values() { return flat_values_; }  // [1, flat_size] master
  ConstTensor values() const { return flat_values_; }
  Tensor gradients() { return flat_gradients_; }   // [1, trained_size] master
  Tensor compute_copy() { return flat_compute_; }  // [1, flat_size] bf16, or empty
  /// The end of values() and of compute_copy() to which gradients() belong.
  Tensor trained_values() { return flat_values_.col_range(frozen_size_, trained_size()); }
  Tensor trained_compute_copy() {
    return flat_compute_ ? flat_compute_.col_range(frozen_size_, trained_size()) : Tensor{};
  }

  /// The values for operations: in bf16 the bf16 copy of a matrix, otherwise the master. [padded rows, cols]
  /// or [1, size].
  ConstTensor value(ParameterId id) const;
  /// A vector that gemm adds: as value(), but the bf16 copy on CUDA, which saves the rounding.
  ConstTensor bias(ParameterId id) const;
  Tensor gradient(ParameterId id) const;  // empty if the tensor is frozen as a whole

  const std::vector<LogicalParameter>& logical() const { return logical_; }
  /// The block of a logical parameter in `flat`, which is laid out as values(): [rows, cols], strided.
  Tensor logical_block(Tensor flat, const LogicalParameter& parameter) const;
  ConstTensor logical_block(ConstTensor flat, const LogicalParameter& parameter) const;
  /// The same in a buffer that is laid out as gradients(); empty if the parameter is frozen.
  Tensor trained_block(Tensor flat, const LogicalParameter& parameter) const;
  /// The same in the master values or the gradients.
  Tensor logical_value(const LogicalParameter& parameter) const;
  Tensor logical_gradient(const LogicalParameter& parameter) const;
  /// The parameter that owns an element of the values; padding belongs to the preceding one.
  const LogicalParameter& logical_at(int64_t element) const;
  /// Null if there is none of that name.
  const LogicalParameter* find(std::string_view name) const;

 private:
  struct Stored {
    int64_t rows;
    int64_t cols;
    int64_t offset;    // among the values
    int64_t gradient;  // gradient_begin()
    bool vector;
    std::vector<Columns> trained;
  };
  ParameterId declare(const std::vector<std::string>& names, int64_t rows, int64_t cols_each,
                      int64_t padded_rows, bool vector, Initializer initializer);

  bool on_cuda_ = false;
  std::vector<Stored> tensors_;
  std::vector<LogicalParameter> logical_;
  int64_t flat_size_ = 0;
  int64_t frozen_size_ = 0;
  DType dtype_ = DType::kF32;
  Arena memory_;
  Tensor flat_values_;
  Tensor flat_gradients_;
  Tensor flat_compute_;
  // Of a packed store, by id, in place of the flat buffers:
  std::vector<Tensor> kept_;          // empty if packed
  std::vector<PackedMatrix> packed_;  // empty if kept
};

}  // namespace ventris
