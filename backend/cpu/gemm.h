// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/gemm.h"
#include "backend/ops/packed_gemm.h"

/// The products of the CPU, a map:
///
///   gemm.cc            gemm(). f64 goes to gemm_reference, bf16 to oneDNN; f32, and bf16 where oneDNN has
///                      none, to chained_gemm: b is packed part by part, and a times each part added to c
///   gemm_kernel.cc     packed_gemm(): the sums of a few rows and a panel stay in registers, each one
///                      chain of fused multiply-adds in order of depth
///   gemm_pack.cc       pack(): b as panels of columns, in the order in which the kernel reads them
///   gemm_panels.h      the layout of panels, and the tasks of the threads over them
///   gemm_int8.cc       the same of 8-bit integers: layout, pack() and packed_gemm()
///   gemm_int8_dot.h    sums of four products of 8-bit integers in the instructions of each processor
///   gemm_onednn.cc     bf16: primitives of oneDNN by shape, and a product cut into few shapes
///   gemm_reference.cc  the plain loop
///
/// No bit depends on the number of threads. gemm_onednn.cc and gemm_reference.cc are compiled once, the
/// others for each instruction set. Attention multiplies in small_matmul.h.
namespace ventris {

/// gemm() of f32 or bf16 by packed_gemm() in f32: every element is one chain of fused multiply-adds in order
/// of k, from zero or, with `accumulate`, from c, rounded to the dtype of c at its end. So its bits depend
/// only on its row of op(a) and its column of op(b), not on the number of rows, columns or threads, nor on
/// the width of the processor's vectors.
void chained_gemm_cpu(Context& context, const GemmArgs& args);

/// Any dtype, any shape: for f64, and the reference in tests of the fast paths.
void gemm_reference(Context& context, const GemmArgs& args);

/// gemm() of bf16. False, with nothing done, if oneDNN has no primitive for it on this processor.
bool onednn_gemm(Context& context, const GemmArgs& args);

size_t packed_bytes_cpu(int64_t rows, int64_t cols, Packing packing);
/// Also takes a source in bf16.
void pack_cpu(Context& context, const PackArgs& args);
/// Also writes c in bf16 if b is in f32.
void packed_gemm_cpu(Context& context, const PackedGemmArgs& args);
/// The elements of a column as stored in the packed matrix. T is its dtype.
template <typename T>
void copy_column(const PackedMatrix& packed, int64_t column, T* to);

/// The same functions for matrices of Packing::kInt8; the elements of a column are its integers times its
/// scale.
size_t int8_packed_bytes(int64_t rows, int64_t cols);
void int8_pack(Context& context, const PackArgs& args);
void int8_gemm(Context& context, const PackedGemmArgs& args);
void int8_copy_column(const PackedMatrix& packed, int64_t column, float* to);

}  // namespace ventris
