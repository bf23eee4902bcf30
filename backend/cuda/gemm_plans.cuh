// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "backend/cpu/gemm_onednn.h"
#include "backend/cuda/gemm_algorithms.h"
#include "backend/ops/gemm.h"

namespace ventris {

struct CudaDevice;
class OperandTurns;

/// The largest powers of two, up to 16, that divide the addresses of a GEMM; the choice of kernels depends on
/// them.
struct GemmAlignment {
  uint32_t a = 16, b = 16, c = 16, bias = 16;

  bool operator==(const GemmAlignment&) const = default;
};

struct GemmPlanKey {
  GemmShape shape;
  bool column_sums = false;
  GemmAlignment alignment;  // `bias`: of the column sums too
  bool tf32 = false;        // factors in f32 are rounded to TF32; set by GemmPlans

  bool operator==(const GemmPlanKey&) const = default;
};
struct GemmPlanKeyHash {
  size_t operator()(const GemmPlanKey& key) const;
};

/// The plan for one shape: descriptors and algorithm of cuBLASLt, whose matrices are column-major. A
/// row-major matrix is its transpose there, so it computes c^T = op(b)^T op(a)^T: its first operand is our b.
struct GemmPlan {
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t operation) const {
      static_cast<void>(cublasLtMatmulDescDestroy(operation));
    }
    void operator()(cublasLtMatrixLayout_t layout) const {
      static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
    }
  };
  using Operation = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Destroy>;
  using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Destroy>;

  std::string text;  // names the product in records and errors
  Operation operation;
  Layout a, b, c;
  bool exists = true;    // cuBLASLt has an algorithm
  bool settled = false;  // the choice between this product and another way is to be recorded
  GemmAlgorithm algorithm = {};
};

/// The plans of a device, by shape. A plan serves products that overwrite c and those that add to it, which
/// cuBLASLt does not tell apart before they run. It is created when its shape first occurs, which must not
/// happen while a graph is captured. Of the first 32 candidates of cuBLASLt's heuristic the fastest is
/// chosen, which synchronises with the device to time them, one after the other on operands that are not in
/// its cache; the first candidate is chosen if VENTRIS_TUNE_GEMM is 0, and for shapes that are not multiples
/// of 64: these occur in decoding, not in training, and a new one in nearly every step.
///
/// The bits of a result depend on the algorithm. It stays the same within a process because plans are kept,
/// and within a run because its checkpoints have them (backend/ops/gemm_choices.h). Algorithms that add parts
/// of a sum do so in f32 and in a fixed order. That in which columns are summed is not documented
/// (CUBLASLT_EPILOGUE_BGRADA): an algorithm is chosen for it only if two runs on equal operands leave equal
/// bits.
class GemmPlans {
 public:
  explicit GemmPlans(CudaDevice& device);

  /// If a plan is created, candidates run on the operands and overwrite c, unless it accumulates. `bias`: [1,
  /// n] of c's dtype, as cuBLASLt requires, or null. An error if cuBLASLt has no algorithm.
  const GemmPlan& plan(const GemmPlanKey& key, const GemmArgs& args, const void* bias);
  /// As gemm_sums_columns_cuda, for products that can be done in another way too.
  bool pays(const GemmPlanKey& key, const GemmArgs& args,
            const std::function<void(const GemmArgs&)>& otherwise);
  /// As in backend/ops/gemm_choices.h.
  std::string choices() const;
  bool prefer(const std::string& choices);
  void end_tuning();
  void use_tf32(bool use) { tf32_ = use; }
  /// Enqueues the product.
  void run(const GemmPlan& plan, const GemmArgs& args, const void* bias) const;

 private:
  GemmPlanKey with_tf32(const GemmPlanKey& key) const;
  const GemmPlan& find(const GemmPlanKey& key, const GemmArgs& args, const void* bias);
  GemmPlan describe(const GemmPlanKey& key) const;
  std::vector<GemmAlgorithm> candidates(const GemmPlanKey& key, const GemmPlan& plan) const;
  bool usable(const GemmPlan& plan, const GemmAlgorithm& algorithm) const;
  std::optional<GemmAlgorithm> choose(const GemmPlanKey& key, const GemmPlan& plan, const GemmArgs& args,
                                      const void* bias);
  std::optional<GemmAlgorithm> choose_or_decline(const GemmPlanKey& key, const GemmPlan& plan,
                                                 const GemmArgs& args,
                                                 const std::function<void(const GemmArgs&)>& otherwise);
  /// An error during a capture.
  void expect_no_capture(const GemmPlanKey& key) const;
  struct Timed {
    size_t candidate;
    float milliseconds;
  };
  /// The fastest of the candidates whose sums repeat; nothing if none takes the operands.
  std::optional<Timed> fastest(const GemmPlan& plan, const OperandTurns& turns, const void* bias,
                               const std::vector<GemmAlgorithm>& candidates) const;
  /// Whether two runs leave equal bits in turn.column_sums; true if it is empty.
  bool sums_repeat(const GemmPlan& plan, const GemmArgs& turn, const GemmAlgorithm& algorithm) const;
  /// Of kTimedRuns, after one to warm up; nothing if `run` says that it did not run.
  std::optional<float> milliseconds_of(const OperandTurns& turns,
                                       const std::function<bool(const GemmArgs&)>& run) const;
  cublasStatus_t enqueue(const GemmPlan& plan, const GemmArgs& args, const void* bias,
                         const GemmAlgorithm& algorithm) const;

  CudaDevice& device_;
  bool tune_;
  bool tf32_ = false;
  GemmAlgorithms chosen_;
  std::unordered_map<GemmPlanKey, GemmPlan, GemmPlanKeyHash> plans_;
};

}  // namespace ventris
