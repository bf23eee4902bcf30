// SPDX-License-Identifier: Apache-2.0
#include "backend/device/thread_pool.h"

#include <omp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backend/device/error.h"

namespace ventris {
namespace {

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Long enough to bridge the gap between two operations of a step, short enough that an idle thread frees its
// core for another rank.
constexpr std::chrono::microseconds kSpin{50};

template <typename Condition>
bool spin_until(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (true) {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      pause_briefly();
    }
    if (std::chrono::steady_clock::now() >= end) return condition();
  }
}

}  // namespace

struct ThreadPool::Impl {
  // The state of the current job in one word: the number of the job, whether workers may join it, and the
  // number of those that have. A worker that wakes late finds the job closed and never accesses its fields.
  static constexpr uint64_t kJoined = 0xFFFF;
  static constexpr uint64_t kOpen = uint64_t{1} << 16;
  static constexpr uint64_t kJob = uint64_t{1} << 17;

  std::atomic<uint64_t> state{0};
  std::atomic<int64_t> next{0};
  int64_t count = 0;
  Function function = nullptr;
  void* body = nullptr;

  std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards error and sleep
  std::condition_variable wake;
  std::exception_ptr error;
  std::vector<std::thread> workers;

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop.store(true);
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void work(int thread) {
    try {
      while (true) {
        const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
        if (index >= count) return;
        function(body, index, thread);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next.store(count, std::memory_order_relaxed);
    }
  }

  void serve(int thread) {
    omp_set_num_threads(1);
    uint64_t last_job = 0;
    while (true) {
      const auto is_new = [&] {
        return stop.load() || ((state.load() & kOpen) != 0 && state.load() / kJob != last_job);
      };
      if (!spin_until(is_new)) {
        std::unique_lock lock(mutex);
        ++sleeping;
        wake.wait(lock, is_new);
        --sleeping;
      }
      if (stop.load()) return;
      uint64_t seen = state.load();
      bool joined = false;
      while ((seen & kOpen) != 0 && seen / kJob != last_job && !joined) {
        joined = state.compare_exchange_weak(seen, seen + 1);
      }
      if (!joined) continue;
      last_job = seen / kJob;
      work(thread);
      state.fetch_sub(1);
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  VENTRIS_CHECK(threads >= 1 && threads <= 4096, "{} threads", threads);
  omp_set_num_threads(1);
  impl_->workers.reserve(static_cast<size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    try {
      impl_->workers.emplace_back([impl = impl_.get(), thread] { impl->serve(thread); });
    } catch (const std::system_error& error) {
      fail(ExitCode::kUnavailable,
           "the system started {} threads, but not thread {}: {}; use fewer --threads", thread, thread + 1,
           error.what());
    }
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

void ThreadPool::run(int64_t count, Function function, void* state) {
  Impl& impl = *impl_;
  if (impl.workers.empty() || count <= 1) {
    for (int64_t index = 0; index < count; ++index) function(state, index, 0);
    return;
  }
  impl.count = count;
  impl.function = function;
  impl.body = state;
  impl.next.store(0, std::memory_order_relaxed);
  impl.state.store((impl.state.load() / Impl::kJob + 1) * Impl::kJob | Impl::kOpen);
  if (impl.sleeping.load() > 0) {
    const std::lock_guard lock(impl.mutex);
    impl.wake.notify_all();
  }
  impl.work(0);
  impl.state.fetch_and(~Impl::kOpen);
  const auto all_left = [&] { return (impl.state.load() & Impl::kJoined) == 0; };
  while (!spin_until(all_left)) std::this_thread::yield();
  if (impl.error) std::rethrow_exception(std::exchange(impl.error, nullptr));
}

}  // namespace ventris
