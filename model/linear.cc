// SPDX-License-Identifier: Apache-2.0
#include "model/linear.h"

#include <algorithm>
#include <vector>

#include "backend/ops/cast.h"
#include "backend/ops/gemm.h"
#include "backend/ops/linear_backward.h"
#include "backend/ops/packed_gemm.h"

namespace ventris {
namespace {

bool trains_all_columns(const ParameterStore& store, ParameterId id) {
  const std::vector<ParameterStore::Columns>& trained = store.trained_columns(id);
  return trained.size() == 1 && trained.front().count == store.value(id).cols;
}

}  // namespace

void Linear::forward(Pass& pass, ConstTensor x, Tensor y, bool relu) const {
  if (const PackedMatrix weight = pass.store.packed(ids_.weight)) {
    return packed_gemm(pass.context,
                       {.a = x, .b = weight, .c = y, .bias = pass.store.bias(ids_.bias), .relu = relu});
  }
  gemm(
      pass.context,
      {.a = x, .b = pass.store.value(ids_.weight), .c = y, .bias = pass.store.bias(ids_.bias), .relu = relu});
}

void Linear::backward_weight(Pass& pass, ConstTensor x, ConstTensor d_y) const {
  for (const auto& [begin, count] : pass.store.trained_columns(ids_.weight)) {
    gemm(pass.context, {.a = x,
                        .b = d_y.col_range(begin, count),
                        .c = pass.store.gradient(ids_.weight).col_range(begin, count),
                        .transpose_a = true,
                        .accumulate = true});
  }
}

void Linear::backward_bias(Pass& pass, ConstTensor d_y, const ColumnGroups& columns) const {
  const ColumnGroups groups = columns.count > 0 ? columns : ColumnGroups{0, d_y.cols, d_y.cols};
  for (const auto& [begin, count] : pass.store.trained_columns(ids_.bias)) {
    for (int64_t group = groups.first; group < begin + count; group += groups.period) {
      const int64_t first = std::max(begin, group);
      const int64_t size = std::min(begin + count, group + groups.count) - first;
      if (size <= 0) continue;
      bias_backward(pass.context, {.d_y = d_y.col_range(first, size),
                                   .d_bias = pass.store.gradient(ids_.bias).col_range(first, size),
                                   .sums_later = true});
    }
  }
}

void Linear::backward_parameters(Pass& pass, ConstTensor x, ConstTensor d_y,
                                 const ColumnGroups& columns) const {
  if (!trains_all_columns(pass.store, ids_.weight) || !trains_all_columns(pass.store, ids_.bias)) {
    backward_bias(pass, d_y, columns);
    return backward_weight(pass, x, d_y);
  }
  linear_backward(pass.context, {.x = x,
                                 .d_y = d_y,
                                 .d_weight = pass.store.gradient(ids_.weight),
                                 .d_bias = pass.store.gradient(ids_.bias),
                                 .columns = columns,
                                 .sums_later = true});
}

void Linear::backward_relu_bias(Pass& pass, ConstTensor y, Tensor d_y) const {
  bias_relu_backward(pass.context,
                     {.d_y = d_y, .y = y, .d_bias = pass.store.gradient(ids_.bias), .sums_later = true});
}

void Linear::backward_input(Pass& pass, ConstTensor d_y, Tensor d_x, bool accumulate) const {
  gemm(pass.context, {.a = d_y,
                      .b = pass.store.value(ids_.weight),
                      .c = d_x,
                      .transpose_b = true,
                      .accumulate = accumulate});
}

}  // namespace ventris
