// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

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
  bool frozen = false;  // by ParameterStore::freeze()
};

}  // namespace ventris
