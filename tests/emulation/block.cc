#include "tests/emulation/block.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ventris::emulation {
namespace {

using boost::context::fiber;

constexpr unsigned kLanes = 32;
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kRedZone = 1024;  // behind dynamic shared memory
constexpr char kRedByte = '\xA5';

/// A meeting of threads: over when `arrived` has reached the number of those that must come.
struct Barrier {
  unsigned arrived = 0;
  uint64_t passed = 0;
};

struct Warp {
  Barrier barrier;
  unsigned size = 0;
  unsigned alive = 0;
  const char* what = nullptr;
  alignas(64) char slots[2][kLanes * kSlotBytes];
};

struct Thread {
  fiber context;
  uint3 index{};
  bool done = true;
  const Barrier* waits_for = nullptr;  // runs on when this barrier has passed `waits_until` times
  uint64_t waits_until = 0;
};

class Block {
 public:
  void run(dim3 grid, dim3 index, dim3 shape, size_t shared_bytes, bool reverse,
           const std::function<void()>& body);

  void barrier() {
    ++block_barrier_.arrived;
    if (block_barrier_.arrived == alive_) return release(block_barrier_);
    wait(block_barrier_);
  }

  const char* exchange(const char* what, const void* give, size_t bytes) {
    Warp& warp = warps_[current_ / kLanes];
    if (warp.size != kLanes || warp.alive != kLanes) {
      throw KernelFault(
          fmt::format("{} in a warp of which {} threads run: it takes all 32", what, warp.alive));
    }
    if (warp.barrier.arrived == 0) {
      warp.what = what;
    } else if (std::strcmp(warp.what, what) != 0) {
      throw KernelFault(fmt::format("lanes of one warp are in {} and in {}", warp.what, what));
    }
    char* slots = warp.slots[warp.barrier.passed % 2];
    std::memcpy(slots + current_ % kLanes * kSlotBytes, give, bytes);
    if (++warp.barrier.arrived == kLanes) {
      release(warp.barrier);
    } else {
      wait(warp.barrier);
    }
    return slots;
  }

  unsigned current() const { return current_; }
  char* shared() { return shared_; }
  uint64_t number() const { return number_; }

 private:
  void release(Barrier& barrier) {
    barrier.arrived = 0;
    ++barrier.passed;
    progress_ = true;
  }
  void wait(Barrier& barrier) {
    Thread& thread = threads_[current_];
    thread.waits_for = &barrier;
    thread.waits_until = barrier.passed + 1;
    scheduler_ = std::move(scheduler_).resume();
  }
  void start(Thread& thread);
  void end_thread();
  void schedule(bool reverse);
  void forget_threads() {
    threads_.clear();  // unwinds their stacks
    threads_.shrink_to_fit();
  }

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<char> shared_memory_;
  char* shared_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  fiber scheduler_;
  Barrier block_barrier_;
  unsigned alive_ = 0;
  uint64_t number_ = 0;
  unsigned current_ = 0;
  bool progress_ = false;
  std::optional<std::string> fault_;
};

/// A fiber lives as long as its place in the block: it runs the body for one block after another.
void Block::start(Thread& thread) {
  if (thread.context) return;
  thread.context =
      fiber(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes), [this](fiber&& scheduler) {
        scheduler_ = std::move(scheduler);
        while (true) {
          try {
            (*body_)();
          } catch (const KernelFault& fault) {
            if (!fault_) fault_ = fault.what();
          }
          end_thread();
          scheduler_ = std::move(scheduler_).resume();
        }
        return std::move(scheduler_);
      });
}

void Block::end_thread() {
  threads_[current_].done = true;
  --warps_[current_ / kLanes].alive;
  --alive_;
  progress_ = true;
  if (alive_ != 0 && block_barrier_.arrived == alive_) release(block_barrier_);
}

void Block::schedule(bool reverse) {
  const auto count = static_cast<unsigned>(threads_.size());
  while (alive_ != 0) {
    progress_ = false;
    for (unsigned i = 0; i < count; ++i) {
      current_ = reverse ? count - 1 - i : i;
      Thread& thread = threads_[current_];
      if (thread.done || (thread.waits_for != nullptr && thread.waits_for->passed < thread.waits_until))
        continue;
      thread.waits_for = nullptr;
      threadIdx = thread.index;
      thread.context = std::move(thread.context).resume();
      if (fault_) throw KernelFault(*fault_);
    }
    if (!progress_) {
      const auto at_block = std::count_if(threads_.begin(), threads_.end(), [this](const Thread& t) {
        return !t.done && t.waits_for == &block_barrier_;
      });
      throw KernelFault(fmt::format(
          "threads wait for ever: {} at sync_threads, {} in a warp operation ({}), {} ended", at_block,
          alive_ - at_block, warps_[0].what == nullptr ? "none" : warps_[0].what, count - alive_));
    }
  }
}

void Block::run(dim3 grid, dim3 index, dim3 shape, size_t shared_bytes, bool reverse,
                const std::function<void()>& body) {
  const unsigned count = shape.x * shape.y * shape.z;
  ++number_;
  if (threads_.size() != count) {
    forget_threads();
    threads_.resize(count);
  }
  gridDim = grid;
  blockDim = shape;
  blockIdx = {index.x, index.y, index.z};
  warps_.resize((count + kLanes - 1) / kLanes);
  for (unsigned w = 0; w < warps_.size(); ++w) {
    warps_[w].barrier = {};
    warps_[w].what = nullptr;
    warps_[w].size = warps_[w].alive = std::min(kLanes, count - w * kLanes);
  }
  block_barrier_ = {};
  alive_ = count;
  body_ = &body;
  fault_.reset();
  shared_memory_.resize(shared_bytes + kRedZone + 128);
  shared_ = shared_memory_.data() + (128 - reinterpret_cast<uintptr_t>(shared_memory_.data()) % 128) % 128;
  std::memset(shared_, 0xFF, shared_bytes);
  std::memset(shared_ + shared_bytes, kRedByte, kRedZone);
  for (unsigned t = 0; t < count; ++t) {
    Thread& thread = threads_[t];
    thread.index = {t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
    thread.done = false;
    thread.waits_for = nullptr;
    start(thread);
  }
  try {
    schedule(reverse);
  } catch (...) {
    forget_threads();
    throw;
  }
  for (size_t i = 0; i < kRedZone; ++i) {
    if (shared_[shared_bytes + i] != kRedByte) {
      throw KernelFault(
          fmt::format("a write {} bytes past the {} bytes of dynamic shared memory", i, shared_bytes));
    }
  }
}

Block& the_block() {
  static Block block;
  return block;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, bool reverse, const std::function<void()>& thread) {
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = reverse ? count - 1 - i : i;
    const dim3 index(static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                     static_cast<unsigned>(at / grid.x / grid.y));
    try {
      the_block().run(grid, index, block, shared_bytes, i % 2 == 1, thread);
    } catch (const KernelFault& fault) {
      throw KernelFault(fmt::format("block ({}, {}, {}) of {} x {} x {}: {}", index.x, index.y, index.z,
                                    grid.x, grid.y, grid.z, fault.what()));
    }
  }
}

void block_barrier() {
  the_block().barrier();
}
const char* warp_exchange(const char* what, const void* give, size_t bytes) {
  return the_block().exchange(what, give, bytes);
}
int lane() {
  return static_cast<int>(the_block().current() % kLanes);
}
char* dynamic_shared_memory() {
  return the_block().shared();
}
uint64_t block_number() {
  return the_block().number();
}

}  // namespace ventris::emulation
