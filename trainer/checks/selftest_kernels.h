// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/dropout.h"
#include "trainer/checks/selftest.h"
#include "trainer/checks/selftest_trial.h"

// Private to the files of the self-test: its kernels, one function a group. Each runs the operations of its
// group at the shapes of a SelftestRun.

namespace ventris {

/// Rows of a product that differ; the others repeat them. A prime, so that no tile or split of a product sees
/// the same rows at the same place as its neighbour.
inline constexpr int64_t kDistinctRows = 127;

/// The shapes of a self-test in one precision.
class SelftestRun {
 public:
  SelftestRun(Context& context, const SelftestOptions& options, Precision precision_,
              std::function<void(const KernelResult&)> tell);

  /// Runs `body` and tells its result. `of` is the dtype to name.
  void kernel(const char* name, const std::string& shape, DType of, const std::function<void(Trial&)>& body) {
    run(name, shape, name_of(of), body);
  }
  /// The same of a matrix product, in the precision.
  void product(const char* name, const std::string& shape, const std::function<void(Trial&)>& body);

  bool on_cpu() const { return context_.device() == Device::kCpu; }
  Device device() const { return context_.device(); }

  const TransformerConfig model;
  const Precision precision;
  const DType dtype;         // T
  const Tolerance close;     // of results in T
  const int64_t rows;        // of products
  const int64_t layer_rows;  // of operations on activations
  const int64_t score_rows;  // of operations on logits

 private:
  void run(const char* name, const std::string& shape, const char* dtype_name,
           const std::function<void(Trial&)>& body);

  Context& context_;
  const std::function<void(const KernelResult&)> tell_;
};

/// Of results in f32, of sums and statistics too. Tensor cores truncate partial sums of bf16 products to 24
/// bits: over 32,768 rows at most 2^11 times, each by less than 2^-23 of the sum. A chain of f32 additions
/// over rows that repeat rounds alike in each turn: 4.3e-5 of the sum after 12,544 rows on an H100. A row
/// that is left out is more: 6e-4 of the sum of 12,544 rows, and of 25,088 3e-4.
inline constexpr Tolerance kCloseSingle = {2e-5, 2e-4};
inline constexpr Tolerance kCloseLongSum = {2e-4, 2e-4};
inline constexpr Tolerance kCloseSum = {5e-4, 5e-4};

std::string shape_text(int64_t rows, int64_t cols);

/// A dropout key of an operation and the same key for the reference, whose position is on the host.
struct TrialDropout {
  TrialDropout(Context& context, float rate);
  /// What element (row, col) of the mask multiplies by (backend/dropout.h).
  double factor(int64_t row, int64_t col, int head = 0) const;

  static constexpr DropoutPosition kPosition = {.step = 5, .row_base = 1000};
  DropoutKey key;      // for the operation
  DropoutKey on_host;  // for the reference
  Numbers<DropoutPosition> position;
};

void try_products(SelftestRun& run);         // gemm: forward, gradients of data and of weights
void try_packed_products(SelftestRun& run);  // of translation, on the CPU only
void try_layers(SelftestRun& run);           // embedding, LayerNorm, bias, activations
void try_attention(SelftestRun& run);
void try_scores(SelftestRun& run);  // the loss; scores of tokens in a search
void try_update(SelftestRun& run);  // sum of losses, norm, plan, Adam, averages, copies: in f32 whatever T is

}  // namespace ventris
