// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/block.h"
#include "tests/emulation/race_detector.h"
#include "tests/emulation/random.h"
#include "tests/emulation/stacks.h"
#include "tests/emulation/types.h"

/// Behind block.h: a block and its threads (block.cc), and the turns of the blocks of a launch (grid.cc).
namespace ventris::emulation {

inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kMaxThreads = 1024;
static_assert(kMaxPlaces == 8 * kMaxThreads);

/// A meeting of threads: over when `arrived` has reached the number of those that must come.
struct Barrier {
  unsigned arrived = 0;
  uint64_t passed = 0;  // of one block
  char order[2] = {};   // for the race detector, of even and odd meetings
};

struct Warp {
  Barrier barrier;
  unsigned size = 0;
  unsigned alive = 0;
  const char* what = nullptr;
  size_t bytes = 0;  // that each lane gives
  alignas(64) char slots[2][kLanes * kSlotBytes];
};

struct Thread {
  StackPosition stopped = nullptr;  // where it goes on; null: at its beginning
  Timeline timeline = nullptr;
  uint3 index{};
  bool done = true;
  const Barrier* waits_for = nullptr;  // runs on when this barrier has passed `waits_until` times
  uint64_t waits_until = 0;
};

class Place;

/// What the blocks of a launch have in common.
struct Launch {
  const Grid& grid;
  const std::function<void()>& body;
  Random random;
  std::vector<uint64_t> order;  // of the blocks
  size_t begun = 0;
  uint64_t meetings = 0;          // the most of the blocks that have ended
  std::vector<Place*> busy = {};  // whose blocks have not ended
  size_t chosen = 0;              // of `busy`: has the turn
  Place* failed = nullptr;

  bool all_begun() const { return begun == order.size(); }
  /// One of `busy`, by chance, prepared for its turn; null if there is none.
  Place* choose();
};

/// A place for one block after another. It has a thread of the system, whose variables with the storage
/// duration of a thread are the static shared memory of the block (types.h); only one place runs at a time.
class Place {
 public:
  explicit Place(unsigned number) : number_(number), server_([this] { serve(); }) { server_.detach(); }

  /// With the next block of the launch.
  void begin(Launch& launch);
  /// In its next turn the threads of the block run at most so often until each waits or has ended, and then
  /// perhaps blocks after it.
  void prepare_turn(uint64_t passes) { passes_ = passes; }
  /// Wakes the server for its turn, after which it wakes that of the next place.
  void give_turn();
  /// Returns when the launch has ended, or has failed.
  static void wait_for_end();
  [[noreturn]] void throw_fault() const { throw KernelFault(name_of_block() + ": " + *fault_); }
  /// What the threads of all its blocks did comes before what the caller does.
  void close() { acquire(&ended_); }
  /// After a fault: threads stand in the midst of a kernel.
  void forget_threads() {
    for (Thread& thread : threads_) thread.stopped = nullptr;
  }

  // For the threads of the block.
  void barrier();
  const char* exchange(const char* what, const void* give, size_t bytes, bool orders_memory);
  void pass_time() {
    if (!launch_->random.one_in(4)) return;
    progress_ = true;
    leave();
  }
  [[noreturn]] void fail(const std::string& text);
  unsigned current() const { return current_; }
  unsigned thread_place() const { return number_ * kMaxThreads + current_; }
  char* shared() { return shared_; }
  uint64_t number() const { return block_number_; }

 private:
  void serve();
  void serve_turn();
  Place* next_turn();
  void run_block();
  std::string name_of_block() const;
  void poison();
  void make_timelines();
  void pass();
  bool can_run(const Thread& thread) const {
    return !thread.done && (thread.waits_for == nullptr || thread.waits_for->passed >= thread.waits_until);
  }
  /// Makes the next thread of the pass that can run the current one; false at the end of the pass.
  bool find_next();
  /// Where the current thread goes on.
  StackPosition enter();
  static void live();
  void end_thread();
  /// The current thread stops, and the next of the pass goes on; the server at its end and after a fault.
  void leave();
  void meet(Barrier& barrier, unsigned all, bool orders_memory);
  void release_all(Barrier& barrier) {
    barrier.arrived = 0;
    ++barrier.passed;
    progress_ = true;
  }
  [[noreturn]] static void fail_partial(const char* what, unsigned alive);
  [[noreturn]] static void fail_different(const char* what, size_t bytes, const Warp& warp);
  void check_red_zone() const;
  [[noreturn]] void fail_waiting() const;

  const unsigned number_;
  Launch* launch_ = nullptr;
  uint3 block_{};
  uint64_t block_number_ = 0;
  Stacks stacks_{kMaxThreads};
  std::vector<Thread> threads_{kMaxThreads};
  unsigned count_ = 0;  // of threads of the block
  std::vector<Warp> warps_{kMaxThreads / kLanes};
  std::vector<std::pair<char*, size_t>> static_memory_;
  std::vector<char> shared_memory_;
  char* shared_ = nullptr;
  StackPosition server_stopped_ = nullptr;
  Timeline timeline_ = nullptr;  // of the server
  Barrier block_barrier_;
  unsigned alive_ = 0;
  unsigned current_ = 0;
  unsigned next_ = 0;  // of the pass, if `left_` is not 0
  unsigned step_ = 0;
  unsigned left_ = 0;
  bool progress_ = false;
  char begun_ = 0;  // for the race detector
  char ended_ = 0;  // likewise
  std::optional<std::string> fault_;

  // Between servers, and between them and the caller of run_grid(). The race detector does not see it: it is
  // no order of blocks.
  std::atomic<int> has_turn_ = 0;
  static inline std::atomic<int> is_running_ = 0;
  uint64_t passes_ = 0;
  std::thread server_;  // last: it uses all of the above
};

inline Place* running = nullptr;  // whose threads run

}  // namespace ventris::emulation
