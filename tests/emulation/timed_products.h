// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace ventris::testing {

/// While it lives, products on CUDA are timed.
class TimedProducts {
 public:
  TimedProducts() {
    if (const char* before = std::getenv("VENTRIS_TUNE_GEMM")) before_ = before;
    unsetenv("VENTRIS_TUNE_GEMM");
  }
  ~TimedProducts() {
    if (before_) setenv("VENTRIS_TUNE_GEMM", before_->c_str(), 1);
  }
  TimedProducts(const TimedProducts&) = delete;
  TimedProducts& operator=(const TimedProducts&) = delete;

 private:
  std::optional<std::string> before_;  // the variable that may forbid it
};

}  // namespace ventris::testing
