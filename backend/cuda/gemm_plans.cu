// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "backend/cuda/gemm_plans.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/device/context_cuda.h"

namespace ventris {
namespace {

constexpr int kCandidates = 32;
constexpr int kTimedRuns = 8;  // one after the other, between two events
/// Operands of timed products take turns in so much memory, more than devices have cache, up to kMaxTurns.
constexpr size_t kTurnBytes = size_t{128} << 20;
constexpr size_t kMaxTurns = 4;

cudaDataType type_of(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  VENTRIS_BLAS_CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
}
template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  VENTRIS_BLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

/// The transpose of a row-major matrix, which is its memory read as column-major.
GemmPlan::Layout layout_of(DType dtype, int64_t rows, int64_t cols, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  VENTRIS_BLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type_of(dtype), static_cast<uint64_t>(cols),
                                                static_cast<uint64_t>(rows), rows <= 1 ? cols : stride));
  return GemmPlan::Layout(layout);
}

class Preference {
 public:
  Preference() { VENTRIS_BLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference_)); }
  ~Preference() { static_cast<void>(cublasLtMatmulPreferenceDestroy(preference_)); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  operator cublasLtMatmulPreference_t() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

std::string name_of_device(const CudaDevice& device) {
  cudaDeviceProp properties;
  VENTRIS_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  int driver = 0;
  VENTRIS_CUDA_CHECK(cudaDriverGetVersion(&driver));
  return fmt::format("{} {} multiprocessors cuBLASLt {} driver {}", properties.name,
                     properties.multiProcessorCount, cublasLtGetVersion(), driver);
}

std::string text_of(const GemmPlanKey& key) {
  const GemmShape& s = key.shape;
  const char* sums = key.column_sums ? " sums" : "";
  return fmt::format("{} {} {}{}{}{}{} m {} n {} k {} strides {} {} {} alignment {} {} {} {}",
                     key.tf32 ? "tf32" : name_of(s.dtype), name_of(s.c_dtype), s.transpose_a ? "t" : "n",
                     s.transpose_b ? "t" : "n", s.bias ? " bias" : "", s.relu ? " relu" : "", sums, s.m, s.n,
                     s.k, s.a_stride, s.b_stride, s.c_stride, key.alignment.a, key.alignment.b,
                     key.alignment.c, key.alignment.bias);
}

cublasLtEpilogue_t epilogue_of(const GemmPlanKey& key) {
  const GemmShape& s = key.shape;
  if (key.column_sums) return CUBLASLT_EPILOGUE_BGRADA;  // of our b
  if (s.relu) return s.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return s.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

bool made_of_multiples(const GemmShape& shape) {
  constexpr int64_t kUnit = 64;
  return shape.m % kUnit == 0 && shape.n % kUnit == 0 && shape.k % kUnit == 0;
}

/// Whether cuBLASLt did as it was asked; false if it has no kernel for that on this device. Anything else is
/// an error that names the product: arguments that it calls wrong are a fault of ours, not a missing kernel.
bool supported(cublasStatus_t status, const GemmPlan& plan) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  const bool wrong = status == CUBLAS_STATUS_INVALID_VALUE || status == CUBLAS_STATUS_INTERNAL_ERROR;
  fail(
      wrong ? ExitCode::kInternal : ExitCode::kUnavailable, "gemm {}: cuBLASLt {} refuses it: {} ({}){}",
      plan.text, cublasLtGetVersion(), cublasLtGetStatusString(status), cublasLtGetStatusName(status),
      wrong ? "; expected arguments as its manual allows them; please report this with the lines above" : "");
}

bool tuning_wanted() {
  const char* wanted = std::getenv("VENTRIS_TUNE_GEMM");
  return wanted == nullptr || std::string(wanted) != "0";
}

class Event {
 public:
  Event() { VENTRIS_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

size_t bytes_of(const ConstTensor& tensor) {
  return static_cast<size_t>((tensor.rows - 1) * tensor.stride + tensor.cols) * size_of(tensor.dtype);
}

/// What is recorded of a product that is done in another way.
constexpr GemmAlgorithm kDeclined = {};

}  // namespace

/// Sets of operands of one product: the caller's, and copies in memory of their own as far as the device has
/// it, since operands of a step are seldom in the cache. A result to which products are added is never the
/// caller's.
class OperandTurns {
 public:
  OperandTurns(const GemmArgs& args, cudaStream_t stream) {
    const size_t a = padded(bytes_of(args.a));
    const size_t b = padded(bytes_of(args.b));
    const size_t c = padded(bytes_of(args.c));
    const size_t wanted = std::min(kMaxTurns, kTurnBytes / (a + b + c) + 1);
    if (!args.accumulate) {
      turns_.push_back(args);
    } else if (char* memory = room(c)) {
      turns_.push_back(args);
      turns_.back().c.data = memory;
    }
    while (!turns_.empty() && turns_.size() < wanted) {
      char* memory = room(a + b + c);
      if (memory == nullptr) break;
      GemmArgs turn = args;
      turn.a.data = memory;
      turn.b.data = memory + a;
      turn.c.data = memory + a + b;
      const auto copy = [stream](const void* to, const ConstTensor& from) {
        VENTRIS_CUDA_CHECK(cudaMemcpyAsync(const_cast<void*>(to), from.data, bytes_of(from),
                                           cudaMemcpyDeviceToDevice, stream));
      };
      copy(turn.a.data, args.a);
      copy(turn.b.data, args.b);
      turns_.push_back(turn);
    }
  }
  ~OperandTurns() {
    for (char* memory : memory_) static_cast<void>(cudaFree(memory));
  }
  OperandTurns(const OperandTurns&) = delete;
  OperandTurns& operator=(const OperandTurns&) = delete;

  /// Without memory for a result there is none.
  bool empty() const { return turns_.empty(); }
  const GemmArgs& operator[](int run) const { return turns_[static_cast<size_t>(run) % turns_.size()]; }

 private:
  static size_t padded(size_t bytes) {
    constexpr size_t kAlignment = 256;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  char* room(size_t bytes) {
    char* memory = nullptr;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    memory_.push_back(memory);
    return memory;
  }

  std::vector<GemmArgs> turns_;
  std::vector<char*> memory_;
};

size_t GemmPlanKeyHash::operator()(const GemmPlanKey& key) const {
  const GemmAlignment& alignment = key.alignment;
  return GemmShapeHash()(key.shape) * 31 +
         (alignment.a << 15 | alignment.b << 10 | alignment.c << 5 | alignment.bias) +
         (key.column_sums ? 3 : 0) + (key.tf32 ? 1 : 0);
}

GemmPlans::GemmPlans(CudaDevice& device)
    : device_(device), tune_(tuning_wanted()), chosen_(name_of_device(device)) {}

GemmPlan GemmPlans::describe(const GemmPlanKey& key) const {
  const GemmShape& s = key.shape;
  GemmPlan plan;
  plan.text = text_of(key);
  cublasLtMatmulDesc_t operation = nullptr;
  VENTRIS_BLAS_CHECK(cublasLtMatmulDescCreate(
      &operation, key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  plan.operation.reset(operation);
  const auto transpose = [](bool transposed) -> int32_t { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose(s.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose(s.transpose_a));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<int32_t>(epilogue_of(key)));
  if (s.bias || key.column_sums) {
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(s.c_dtype)));
    // The heuristic takes the alignment from the address.
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<uintptr_t>(key.alignment.bias));
  }
  plan.a = layout_of(s.dtype, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.a_stride);
  plan.b = layout_of(s.dtype, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.b_stride);
  plan.c = layout_of(s.c_dtype, s.m, s.n, s.c_stride);
  return plan;
}

std::vector<GemmAlgorithm> GemmPlans::candidates(const GemmPlanKey& key, const GemmPlan& plan) const {
  const Preference preference;
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{CudaDevice::kWorkspaceBytes});
  // Partial sums in the workspace, added in a separate step: a fixed order, and no rounding to bf16 before.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment.b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment.a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment.c);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment.c);
  cublasLtMatmulHeuristicResult_t found[kCandidates];
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(device_.blas, plan.operation.get(), plan.b.get(), plan.a.get(),
                                     plan.c.get(), plan.c.get(), preference, kCandidates, found, &count);
  std::vector<GemmAlgorithm> algorithms;
  if (!supported(status, plan)) return algorithms;
  for (int i = 0; i < count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= CudaDevice::kWorkspaceBytes)
      algorithms.push_back(std::bit_cast<GemmAlgorithm>(found[i].algo));
  }
  return algorithms;
}

bool GemmPlans::usable(const GemmPlan& plan, const GemmAlgorithm& algorithm) const {
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  return cublasLtMatmulAlgoCheck(device_.blas, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                 plan.c.get(), &algo, &result) == CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= CudaDevice::kWorkspaceBytes;
}

std::optional<float> GemmPlans::milliseconds_of(const OperandTurns& turns,
                                                const std::function<bool(const GemmArgs&)>& run) const {
  const Event begin;
  const Event end;
  bool runs = run(turns[0]);  // to warm up
  VENTRIS_CUDA_CHECK(cudaEventRecord(begin, device_.stream));
  for (int i = 0; runs && i < kTimedRuns; ++i) runs = run(turns[i]);
  VENTRIS_CUDA_CHECK(cudaEventRecord(end, device_.stream));
  VENTRIS_CUDA_CHECK(cudaEventSynchronize(end));
  float time = 0.0F;
  VENTRIS_CUDA_CHECK(cudaEventElapsedTime(&time, begin, end));
  return runs ? std::optional(time) : std::nullopt;
}

std::optional<GemmPlans::Timed> GemmPlans::fastest(const GemmPlan& plan, const OperandTurns& turns,
                                                   const void* bias,
                                                   const std::vector<GemmAlgorithm>& candidates) const {
  std::optional<Timed> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto time = milliseconds_of(turns, [&](const GemmArgs& turn) {
      return supported(enqueue(plan, turn, bias, candidates[i]), plan);
    });
    if (time && (!best || *time < best->milliseconds) && sums_repeat(plan, turns[0], candidates[i]))
      best = Timed{i, *time};
  }
  return best;
}

bool GemmPlans::sums_repeat(const GemmPlan& plan, const GemmArgs& turn,
                            const GemmAlgorithm& algorithm) const {
  if (!turn.column_sums) return true;
  std::vector<char> sums[2];
  for (std::vector<char>& run : sums) {
    if (!supported(enqueue(plan, turn, nullptr, algorithm), plan)) return false;
    run.resize(bytes_of(turn.column_sums));
    VENTRIS_CUDA_CHECK(cudaMemcpyAsync(run.data(), turn.column_sums.data, run.size(), cudaMemcpyDeviceToHost,
                                       device_.stream));
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(device_.stream));
  }
  return sums[0] == sums[1];
}

/// Nothing if the library has no algorithm.
std::optional<GemmAlgorithm> GemmPlans::choose(const GemmPlanKey& key, const GemmPlan& plan,
                                               const GemmArgs& args, const void* bias) {
  const auto all = candidates(key, plan);
  if (all.empty()) return std::nullopt;
  const auto kept = chosen_.find(plan.text);
  if (kept && usable(plan, *kept)) return kept;
  if (!tune_ || !made_of_multiples(key.shape)) return all.front();
  const OperandTurns turns(args, device_.stream);
  const auto best = turns.empty() ? Timed{} : fastest(plan, turns, bias, all);
  const GemmAlgorithm own = all[best ? best->candidate : 0];
  chosen_.add(plan.text, own);
  return own;
}

/// Nothing if the other way is to be taken.
std::optional<GemmAlgorithm> GemmPlans::choose_or_decline(
    const GemmPlanKey& key, const GemmPlan& plan, const GemmArgs& args,
    const std::function<void(const GemmArgs&)>& otherwise) {
  const auto taken = [&](const GemmAlgorithm& recorded) {
    return recorded != kDeclined && usable(plan, recorded) ? std::optional(recorded) : std::nullopt;
  };
  if (const auto kept = chosen_.find(plan.text)) return taken(*kept);
  if (!plan.settled) return std::nullopt;
  GemmAlgorithm own = kDeclined;
  const auto all = candidates(key, plan);
  const OperandTurns turns(args, device_.stream);
  if (!all.empty() && !turns.empty()) {
    const auto best = fastest(plan, turns, nullptr, all);
    const auto rival = milliseconds_of(turns, [&](const GemmArgs& turn) {
      otherwise(turn);
      return true;
    });
    if (best && best->milliseconds < rival) own = all[best->candidate];
  }
  chosen_.add(plan.text, own);
  return taken(own);
}

const GemmPlan& GemmPlans::find(const GemmPlanKey& key, const GemmArgs& args, const void* bias) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  expect_no_capture(key);
  GemmPlan plan = describe(key);
  const auto algorithm = choose(key, plan, args, bias);
  plan.exists = algorithm.has_value();
  if (algorithm) plan.algorithm = *algorithm;
  return plans_.emplace(key, std::move(plan)).first->second;
}

void GemmPlans::expect_no_capture(const GemmPlanKey& key) const {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  VENTRIS_CUDA_CHECK(cudaStreamIsCapturing(device_.stream, &capture));
  VENTRIS_CHECK(capture == cudaStreamCaptureStatusNone,
                "gemm {}: this shape first occurs while a graph is captured; run the same step once before",
                text_of(key));
}

bool GemmPlans::pays(const GemmPlanKey& asked, const GemmArgs& args,
                     const std::function<void(const GemmArgs&)>& otherwise) {
  const GemmPlanKey key = with_tf32(asked);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second.exists;
  expect_no_capture(key);
  GemmPlan plan = describe(key);
  plan.settled = (tune_ && made_of_multiples(key.shape)) || chosen_.find(plan.text);
  const auto algorithm = choose_or_decline(key, plan, args, otherwise);
  plan.exists = algorithm.has_value();
  plan.algorithm = algorithm.value_or(kDeclined);
  return plans_.emplace(key, std::move(plan)).first->second.exists;
}

GemmPlanKey GemmPlans::with_tf32(const GemmPlanKey& key) const {
  GemmPlanKey result = key;
  result.tf32 = tf32_ && key.shape.dtype == DType::kF32;
  return result;
}

const GemmPlan& GemmPlans::plan(const GemmPlanKey& asked, const GemmArgs& args, const void* bias) {
  const GemmPlanKey key = with_tf32(asked);
  const GemmPlan& plan = find(key, args, bias);
  if (!plan.exists) {
    fail(ExitCode::kUnavailable, "gemm {}: cuBLASLt {} has no algorithm for it on this device", plan.text,
         cublasLtGetVersion());
  }
  return plan;
}

std::string GemmPlans::choices() const {
  std::map<std::string, GemmAlgorithm> algorithms;
  for (const auto& [key, plan] : plans_) {
    if (plan.exists || plan.settled) algorithms.emplace(plan.text, plan.algorithm);
  }
  return chosen_.text_of(algorithms);
}

bool GemmPlans::prefer(const std::string& choices) {
  return chosen_.take(choices);
}

void GemmPlans::end_tuning() {
  tune_ = false;
}

cublasStatus_t GemmPlans::enqueue(const GemmPlan& plan, const GemmArgs& args, const void* bias,
                                  const GemmAlgorithm& algorithm) const {
  if (args.bias) set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (args.column_sums) set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.column_sums.data);
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  const float alpha = 1.0F;
  const float beta = args.accumulate ? 1.0F : 0.0F;
  return cublasLtMatmul(device_.blas, plan.operation.get(), &alpha, args.b.data, plan.b.get(), args.a.data,
                        plan.a.get(), &beta, args.c.data, plan.c.get(), args.c.data, plan.c.get(), &algo,
                        device_.workspace, CudaDevice::kWorkspaceBytes, device_.stream);
}

void GemmPlans::run(const GemmPlan& plan, const GemmArgs& args, const void* bias) const {
  if (!supported(enqueue(plan, args, bias, plan.algorithm), plan)) {
    fail(ExitCode::kUnavailable,
         "gemm {}: cuBLASLt {} does not take these operands with the algorithm that it proposed for them",
         plan.text, cublasLtGetVersion());
  }
}

}  // namespace ventris
