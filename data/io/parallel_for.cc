// SPDX-License-Identifier: Apache-2.0
#include "data/io/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ventris::data {

void parallel_for(int64_t pieces, int threads, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  int64_t failed = pieces;  // the first piece that failed
  const auto run = [&] {
    for (int64_t piece = next++; piece < pieces; piece = next++) {
      try {
        work(piece);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (piece < failed) failure = std::current_exception();
        failed = std::min(failed, piece);
        next = pieces;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min<int64_t>(threads, pieces); ++i) others.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ventris::data
