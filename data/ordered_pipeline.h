// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

// Private to data/.

namespace ventris::data {

/// Blocks pass from one producer through `threads` workers to one consumer, which receives them in the order
/// of production for any number of workers. At most 2 * threads + 3 blocks exist at a time. run() ends when
/// `produce` returns false and all blocks are consumed, or throws the error of the first block, in order,
/// whose production, work or consumption failed.
template <typename Block>
class OrderedPipeline {
 public:
  using Produce = std::function<bool(Block&)>;              // on a separate thread
  using Work = std::function<void(Block&, size_t worker)>;  // on the workers, each of which has a number
  using Consume = std::function<void(Block&)>;              // on the thread that calls run()

  OrderedPipeline(int threads, Produce produce, Work work, Consume consume)
      : workers_(static_cast<size_t>(threads)),
        produce_(std::move(produce)),
        work_(std::move(work)),
        consume_(std::move(consume)) {}
  ~OrderedPipeline() { stop(); }
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  void run() {
    threads_.emplace_back([this] { produce_all(); });
    for (size_t i = 0; i < workers_; ++i) {
      threads_.emplace_back([this, i] { work_all(i); });
    }
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return in_order_.empty() ? produced_all_ : in_order_.front()->done; });
      if (in_order_.empty()) {
        return;
      }
      const std::shared_ptr<Slot> slot = in_order_.front();
      in_order_.pop_front();
      lock.unlock();
      changed_.notify_all();
      if (slot->error) {
        std::rethrow_exception(slot->error);
      }
      consume_(slot->block);
    }
  }

 private:
  struct Slot {
    Block block;
    bool done = false;
    std::exception_ptr error;
  };

  void produce_all() {
    bool more = true;
    while (more) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || in_order_.size() < 2 * workers_ + 2; });
        if (stopping_) {
          return;
        }
      }
      const auto slot = std::make_shared<Slot>();
      bool failed = false;
      try {
        more = produce_(slot->block);
      } catch (...) {
        slot->error = std::current_exception();
        slot->done = true;
        more = false;
        failed = true;
      }
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (more || failed) {
          in_order_.push_back(slot);
        }
        if (more) {
          to_work_.push_back(slot);
        }
        produced_all_ = !more;
      }
      changed_.notify_all();
    }
  }

  void work_all(size_t worker) {
    for (;;) {
      std::shared_ptr<Slot> slot;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || produced_all_ || !to_work_.empty(); });
        if (stopping_ || to_work_.empty()) {
          return;
        }
        slot = to_work_.front();
        to_work_.pop_front();
      }
      try {
        work_(slot->block, worker);
      } catch (...) {
        slot->error = std::current_exception();
      }
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        slot->done = true;
      }
      changed_.notify_all();
    }
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  const size_t workers_;
  const Produce produce_;
  const Work work_;
  const Consume consume_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> in_order_;
  std::deque<std::shared_ptr<Slot>> to_work_;
  bool produced_all_ = false;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ventris::data
