// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace ventris {

/// The report of `--statistics`: the time of translation, without reading and writing, and the work done in
/// it.
class DecodingStatistics {
 public:
  void begin() {
    begin_ = std::chrono::steady_clock::now();
    cpu_begin_ = std::clock();
  }
  void end() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    cpu_seconds_ += static_cast<double>(std::clock() - cpu_begin_) / CLOCKS_PER_SEC;
  }
  /// Adds one sentence, with the number of tokens in its best translation.
  void add_sentence(int64_t tokens) {
    ++sentences_;
    tokens_ += tokens;
  }
  /// Writes one JSON object and a line end to the standard error: "sentences", "tokens", "seconds",
  /// "cpu_seconds" (of all threads) and "peak_mib", the peak memory of this process.
  void print() const;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::clock_t cpu_begin_ = 0;
  double seconds_ = 0.0;
  double cpu_seconds_ = 0.0;
  int64_t sentences_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace ventris
