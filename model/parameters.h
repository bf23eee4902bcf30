#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/arena.h"
#include "backend/context.h"
#include "backend/packed_gemm.h"
#include "backend/tensor.h"

namespace ventris {

/// Index of a parameter tensor in its store.
using ParameterId = int;

enum class Initializer {
  kZero,
  kOne,
  kXavierUniform,  // U(-a, a), a = sqrt(6 / (rows + cols)) of the logical parameter (Glorot and Bengio 2010)
  kNormal,         // N(0, cols^-0.5)
};

/// One logical parameter, as in files: a block of columns of a stored tensor.
struct LogicalParameter {
  std::string name;  // e.g. "encoder/layers/0/self_attention/query/weight"
  ParameterId tensor;
  int64_t rows;  // rows without padding
  int64_t col_begin;
  int64_t cols;
  bool vector;  // written to files with one dimension
  Initializer initializer;
};

/// All parameters of a model, declared in forward order, then allocated as one flat buffer of values and one
/// of gradients, so that the optimizer, the norm, the reduction and the checkpoint see ranges of elements,
/// and backward completes a growing suffix. Every tensor starts at a multiple of 64 elements; gaps and
/// padding rows are zero and stay zero.
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

  /// Allocates after the last declaration. `dtype` is that of the computation: with bf16, matrices have a
  /// rounded copy. Without `gradients` (inference) there are values only.
  void allocate(Device device, DType dtype, bool gradients);
  /// Fills all values; a pure function of (seed, name, shape).
  void initialize(Context& context, uint64_t seed);
  /// Rounds the masters to the bf16 copy; does nothing for other dtypes. Must be called after values were
  /// written from outside.
  void refresh_compute_copy(Context& context);

  /// A store for inference with the current values: `weights` and the transpose of `table` only in packed
  /// form, all others as masters. With `emptied`, which is this store, the memory of each tensor is freed
  /// after it was copied. dtype() is the factor_dtype() of `packing`.
  ParameterStore packed_copy(Context& context, Packing packing, const std::vector<ParameterId>& weights,
                             ParameterId table, ParameterStore* emptied) const;
  bool is_packed() const { return !kept_.empty(); }
  /// The packed form of a weight, or of the transpose of the table; empty if the store is not packed.
  PackedMatrix packed(ParameterId id) const {
    return is_packed() ? packed_[static_cast<size_t>(id)] : PackedMatrix{};
  }

  DType dtype() const { return dtype_; }
  /// Elements of the flat buffers, including gaps.
  int64_t flat_size() const { return flat_size_; }
  /// Parameters of the model, without gaps and padding.
  int64_t parameter_count() const;
  /// First element of a tensor in the flat buffers.
  int64_t offset(ParameterId id) const { return tensors_[static_cast<size_t>(id)].offset; }

  Tensor values() { return flat_values_; }  // [1, flat_size] master
  ConstTensor values() const { return flat_values_; }
  Tensor gradients() { return flat_gradients_; }   // [1, flat_size] master
  Tensor compute_copy() { return flat_compute_; }  // [1, flat_size] bf16, or empty

  /// The values for operations: in bf16 the bf16 copy of a matrix, otherwise the master. [padded rows, cols]
  /// or [1, size].
  ConstTensor value(ParameterId id) const;
  /// A vector that gemm adds: as value(), but the bf16 copy on CUDA, which saves the rounding.
  ConstTensor bias(ParameterId id) const;
  Tensor gradient(ParameterId id) const;

  const std::vector<LogicalParameter>& logical() const { return logical_; }
  /// The block of a logical parameter in `flat`, which is laid out as values(): [rows, cols], strided.
  Tensor logical_block(Tensor flat, const LogicalParameter& parameter) const;
  ConstTensor logical_block(ConstTensor flat, const LogicalParameter& parameter) const;
  /// The same in the master values or the gradients.
  Tensor logical_value(const LogicalParameter& parameter) const;
  Tensor logical_gradient(const LogicalParameter& parameter) const;
  /// The parameter that owns an element of the flat buffers; padding belongs to the preceding one.
  const LogicalParameter& logical_at(int64_t element) const;
  /// Null if there is none of that name.
  const LogicalParameter* find(std::string_view name) const;

 private:
  struct Stored {
    int64_t rows;
    int64_t cols;
    int64_t offset;
    bool vector;
  };
  ParameterId declare(const std::vector<std::string>& names, int64_t rows, int64_t cols_each,
                      int64_t padded_rows, bool vector, Initializer initializer);

  bool on_cuda_ = false;
  std::vector<Stored> tensors_;
  std::vector<LogicalParameter> logical_;
  int64_t flat_size_ = 0;
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
