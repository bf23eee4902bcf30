#include "backend/packed_gemm.h"

#include "backend/cpu_kernels.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

void check_packed(Context& context, const PackedMatrix& packed) {
  VENTRIS_CHECK(context.device() == Device::kCpu, "packed products are of the CPU");
  VENTRIS_CHECK(packed.data != nullptr && packed.dtype != DType::kF64, "a packed matrix of {} at {}",
                name_of(packed.dtype), packed.data);
}

}  // namespace

size_t packed_bytes(int64_t rows, int64_t cols, DType dtype) {
  return cpu_kernels().packed_bytes(rows, cols, dtype);
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
  check_tensor(args.a, args.a.rows, args.b.rows, args.b.dtype, "a");
  check_tensor(args.c, args.a.rows, args.b.cols, args.c.dtype == DType::kF32 ? DType::kF32 : args.b.dtype,
               "c");
  check_optional(args.bias, 1, args.b.cols, DType::kF32, "bias");
  VENTRIS_CHECK(!args.accumulate || args.c.dtype == DType::kF32, "sums that go on from {}",
                name_of(args.c.dtype));
  cpu_kernels().packed_gemm(context, args);
}

}  // namespace ventris
