// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

// Private to data/.

namespace ventris::data {

/// Blocks pass from produce(block), which returns false at the end, through work(block, worker) on `threads`
/// threads, each with its number as `worker`, to consume(block) on the calling thread, in the order of
/// production. At most 2 * threads + 3 blocks exist at a time. Throws the error of the first block, in order,
/// whose production, work or consumption failed.
template <typename Block, typename Produce, typename Work, typename Consume>
void run_in_order(int threads, const Produce& produce, const Work& work, const Consume& consume) {
  using BlockPointer = std::unique_ptr<Block>;
  const auto read = [&] {
    auto block = std::make_unique<Block>();
    return produce(*block) ? std::move(block) : nullptr;
  };
  std::mutex mutex;
  std::condition_variable is_idle;
  std::vector<size_t> idle(static_cast<size_t>(threads));
  std::iota(idle.begin(), idle.end(), size_t{0});
  const auto work_on = [&](BlockPointer block) {
    std::unique_lock lock(mutex);
    is_idle.wait(lock, [&] { return !idle.empty(); });
    const size_t worker = idle.back();
    idle.pop_back();
    lock.unlock();
    std::exception_ptr error;
    try {
      work(*block, worker);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    idle.push_back(worker);
    lock.unlock();
    is_idle.notify_one();
    if (error) std::rethrow_exception(error);
    return block;
  };
  std::deque<std::future<BlockPointer>> in_work;
  std::exception_ptr read_error;
  std::future<BlockPointer> next = std::async(std::launch::async, read);
  while (next.valid() || !in_work.empty()) {
    if (next.valid() && in_work.size() < static_cast<size_t>(2 * threads + 2)) {
      try {
        BlockPointer block = next.get();
        if (block == nullptr) continue;
        in_work.push_back(std::async(std::launch::async, work_on, std::move(block)));
        next = std::async(std::launch::async, read);
      } catch (...) {
        read_error = std::current_exception();
      }
    } else {
      consume(*in_work.front().get());
      in_work.pop_front();
    }
  }
  if (read_error) std::rethrow_exception(read_error);
}

}  // namespace ventris::data
