// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/embedding.h"

#include <cmath>

#include "backend/device/elementary.h"
#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void embedding_forward(Context& context, const EmbeddingForwardArgs& args) {
  const int64_t d = args.out.cols;
  const DType dtype = args.out.dtype;
  check_tensor(args.out, args.out.rows, d, dtype, "out");
  if (args.packed_table) {
    VENTRIS_CHECK(context.device() == Device::kCpu && args.packed_table.rows == d &&
                      factor_dtype(args.packed_table.packing) == dtype,
                  "a packed table of {} rows of {}, expected {} of {} on the CPU", args.packed_table.rows,
                  name_of(args.packed_table.packing), d, name_of(dtype));
  } else {
    check_tensor(args.table, args.table.rows, d, dtype, "table");
  }
  check_tensor(args.positions, args.positions.rows, d, master_dtype(dtype), "positions");
  VENTRIS_CHECK(args.ids != nullptr && args.position != nullptr, "ids or position is missing");
  check_dropout(args.dropout);
  kernels::embedding_forward(context, args);
}

void embedding_backward(Context& context, const EmbeddingBackwardArgs& args) {
  const int64_t d = args.d_out.cols;
  const DType master = master_dtype(args.d_out.dtype);
  check_tensor(args.d_out, args.d_out.rows, d, args.d_out.dtype, "d_out");
  check_optional(args.d_table, args.d_table.rows, d, master, "d_table");
  check_optional(args.d_positions, args.d_positions.rows, d, master, "d_positions");
  VENTRIS_CHECK(args.ids != nullptr && args.position != nullptr, "ids or position is missing");
  check_dropout(args.dropout);
  VENTRIS_CHECK(context.device() == Device::kCpu || ((!args.d_table || args.id_order != nullptr) &&
                                                     (!args.d_positions || args.position_order != nullptr)),
                "the order of rows by their {} is missing; CUDA needs it, of order_rows",
                args.d_table && args.id_order == nullptr ? "ids" : "positions");
  kernels::embedding_backward(context, args);
}

namespace {

template <typename M>
void fill_sinusoids(const Tensor& positions, Sinusoids sinusoids) {
  const int64_t d = positions.cols;
  // The exponent of pair i is -i / steps.
  const double half = static_cast<double>(d) / 2.0;
  const double steps = sinusoids == Sinusoids::kMarian ? half - 1.0 : half;
  for (int64_t p = 0; p < positions.rows; ++p) {
    M* row = positions.row<M>(p);
    for (int64_t c = 0; c < d; ++c) {
      const int64_t pair = c / 2;
      const double exponent = static_cast<double>(pair) / steps;
      const double angle = static_cast<double>(p) / portable_pow(10000.0, exponent);
      row[c] = static_cast<M>(c % 2 == 0 ? portable_sin(angle) : portable_cos(angle));
    }
  }
}

}  // namespace

void sinusoidal_positions(Tensor positions, Sinusoids sinusoids) {
  VENTRIS_CHECK(sinusoids == Sinusoids::kPaper || positions.cols >= 4,
                "Marian's sinusoids have at least 4 channels, not {}", positions.cols);
  check_tensor(positions, positions.rows, positions.cols, master_dtype(positions.dtype), "positions");
  if (positions.dtype == DType::kF64) {
    fill_sinusoids<double>(positions, sinusoids);
  } else {
    fill_sinusoids<float>(positions, sinusoids);
  }
}

}  // namespace ventris
