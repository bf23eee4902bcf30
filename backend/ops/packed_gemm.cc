// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/packed_gemm.h"

#include "backend/cpu/kernel_table.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

void check_packed(Context& context, const PackedMatrix& packed) {
  VENTRIS_CHECK(context.device() == Device::kCpu, "packed products exist only on the CPU");
  VENTRIS_CHECK(packed.data != nullptr, "a packed matrix without memory");
  VENTRIS_CHECK(packed.packing != Packing::kInt8 || packed.rows <= kMaxInt8Rows,
                "{} rows of int8, at most {}", packed.rows, kMaxInt8Rows);
}

}  // namespace

const char* name_of(Packing packing) {
  return packing == Packing::kInt8 ? "int8" : name_of(factor_dtype(packing));
}

size_t packed_bytes(int64_t rows, int64_t cols, Packing packing) {
  return cpu_kernels().packed_bytes(rows, cols, packing);
}

void pack(Context& context, const PackArgs& args) {
  check_packed(context, args.to);
  const ConstTensor& source = args.source;
  const int64_t cols = args.transpose ? source.rows : source.cols;
  check_tensor(source, args.transpose ? cols : args.to.rows, args.transpose ? args.to.rows : cols,
               DType::kF32, "source");
  VENTRIS_CHECK(args.first_column >= 0 && args.first_column + cols <= args.to.cols,
                "columns [{}, {}) of a packed matrix that has {}", args.first_column,
                args.first_column + cols, args.to.cols);
  cpu_kernels().pack(context, args);
}

void packed_gemm(Context& context, const PackedGemmArgs& args) {
  check_packed(context, args.b);
  const DType factor = factor_dtype(args.b.packing);
  check_tensor(args.a, args.a.rows, args.b.rows, factor, "a");
  check_tensor(args.c, args.a.rows, args.b.cols, args.c.dtype == DType::kF32 ? DType::kF32 : factor, "c");
  check_optional(args.bias, 1, args.b.cols, DType::kF32, "bias");
  VENTRIS_CHECK(!args.accumulate || args.c.dtype == DType::kF32, "accumulation in {}, expected f32",
                name_of(args.c.dtype));
  VENTRIS_CHECK(!args.accumulate || args.b.packing != Packing::kInt8, "accumulation in int8");
  cpu_kernels().packed_gemm(context, args);
}

}  // namespace ventris
