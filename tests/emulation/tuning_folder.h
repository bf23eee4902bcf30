// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace ventris::testing {

/// While it lives, products on CUDA are timed, and the file of their algorithms is in a folder of its own.
class TuningFolder {
 public:
  TuningFolder() : path_(::testing::TempDir() + "ventris-tuning-" + std::to_string(getpid())) {
    if (const char* before = std::getenv("VENTRIS_TUNE_GEMM")) before_ = before;
    setenv("VENTRIS_CACHE_DIR", path_.c_str(), 1);
    unsetenv("VENTRIS_TUNE_GEMM");
  }
  ~TuningFolder() {
    std::filesystem::remove_all(path_);
    unsetenv("VENTRIS_CACHE_DIR");
    if (before_) setenv("VENTRIS_TUNE_GEMM", before_->c_str(), 1);
  }
  TuningFolder(const TuningFolder&) = delete;
  TuningFolder& operator=(const TuningFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::optional<std::string> before_;  // the variable that may forbid it
};

}  // namespace ventris::testing
