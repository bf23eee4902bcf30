#include "model/linear.h"

#include "backend/gemm.h"
#include "backend/packed_gemm.h"

namespace ventris {

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
  gemm(pass.context,
       {.a = x, .b = d_y, .c = pass.store.gradient(ids_.weight), .transpose_a = true, .accumulate = true});
}

void Linear::backward_bias(Pass& pass, ConstTensor d_y, const ColumnGroups& columns) const {
  bias_backward(
      pass.context,
      {.d_y = d_y, .d_bias = pass.store.gradient(ids_.bias), .columns = columns, .sums_later = true});
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
