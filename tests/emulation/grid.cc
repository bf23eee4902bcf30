// SPDX-License-Identifier: Apache-2.0
// The turns of the blocks of a launch.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "tests/emulation/place.h"
#include "tests/emulation/symbols.h"

namespace ventris::emulation {
namespace {

// Blocks that run in turns. ThreadSanitizer knows at most 8,128 threads, and is slow with many.
constexpr unsigned kFewestBlocks = kRaceDetector ? 3 : 4;
constexpr unsigned kMaxBlocks = kRaceDetector ? 3 : 8;
// Over the threads of blocks before another block has its turn: 1, 2, 4, ... 64.
constexpr uint64_t kTurns = 7;
constexpr uint64_t kBlocksOfTurn = 8;  // on average, at most

// The standard library's waits of atomics yield the processor first, which takes long where it has other
// work.
void wait_while(const std::atomic<int>& word, int value) {
  while (word == value) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(const std::atomic<int>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

void Place::serve_turn() {
  gridDim = launch_->grid.blocks;
  blockDim = launch_->grid.threads;
  try {
    run_block();
    while (passes_ != 0 && !launch_->all_begun() && !launch_->random.one_in(kBlocksOfTurn)) {
      begin(*launch_);
      run_block();
    }
  } catch (const KernelFault& fault) {
    fault_ = fault.what();
    release(&ended_);
  }
}

void Place::serve() {
  timeline_ = this_timeline();
  static_memory_ = thread_locals_of_functions();
  while (true) {
    wait_while(has_turn_, 0);
    Place* next = this;
    while (next == this) {
      serve_turn();
      next = next_turn();
    }
    has_turn_ = 0;
    if (next != nullptr) {
      next->give_turn();
    } else {
      is_running_ = 0;
      wake(is_running_);
    }
  }
}

/// The place that has the next turn; null at the end of the launch.
Place* Place::next_turn() {
  Launch& launch = *launch_;
  if (fault_) {
    launch.failed = this;
    return nullptr;
  }
  if (alive_ == 0 && !launch.all_begun()) {
    begin(launch);
  } else if (alive_ == 0) {
    launch.busy[launch.chosen] = launch.busy.back();
    launch.busy.pop_back();
  }
  return launch.choose();
}

void Place::give_turn() {
  running = this;
  is_running_ = 1;
  has_turn_ = 1;
  wake(has_turn_);
}

void Place::wait_for_end() {
  wait_while(is_running_, 1);
}

Place* Launch::choose() {
  if (busy.empty()) return nullptr;
  chosen = random.below(busy.size());
  busy[chosen]->prepare_turn(busy.size() == 1 ? UINT64_MAX : uint64_t{1} << random.below(kTurns));
  return busy[chosen];
}

namespace {

/// They are never given back: their servers use them.
std::vector<Place*>& places() {
  static auto* all = new std::vector<Place*>;
  return *all;
}
Place& place(size_t i) {
  while (places().size() <= i) places().push_back(new Place(static_cast<unsigned>(places().size())));
  return *places()[i];
}

}  // namespace

uint64_t run_grid(const Grid& grid, Random random, const std::function<void()>& thread) {
  Launch launch{grid, thread, random,
                std::vector<uint64_t>(uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z)};
  std::iota(launch.order.begin(), launch.order.end(), 0);
  for (uint64_t left = launch.order.size(); left > 1; --left)
    std::swap(launch.order[left - 1], launch.order[launch.random.below(left)]);
  launch.busy.resize(
      std::min(launch.order.size(), kFewestBlocks + launch.random.below(kMaxBlocks - kFewestBlocks + 1)));
  for (size_t i = 0; i < launch.busy.size(); ++i) {
    launch.busy[i] = &place(i);
    launch.busy[i]->begin(launch);
  }
  release(&launch);
  const uint64_t races = races_found();
  launch.choose()->give_turn();
  Place::wait_for_end();
  for (Place* place : places()) {
    place->close();
    if (launch.failed != nullptr) place->forget_threads();
  }
  if (launch.failed != nullptr) launch.failed->throw_fault();
  if (races_found() != races) throw KernelFault("threads race: the report of ThreadSanitizer stands above");
  return launch.meetings;
}

}  // namespace ventris::emulation
