// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/block.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/emulation/place.h"

namespace ventris::emulation {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kRedZone = 1024;  // behind dynamic shared memory
constexpr char kRedByte = '\xA5';
uint64_t blocks_begun = 0;  // of all launches

/// memcpy, which ThreadSanitizer watches also in a file that it does not watch.
void copy_unwatched(char* to, const void* from, size_t bytes) {
  if constexpr (kRaceDetector) {
    const volatile char* byte = static_cast<const char*>(from);  // a plain loop becomes a call of memcpy
    for (size_t i = 0; i < bytes; ++i) to[i] = byte[i];
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

/// A fiber lives as long as its place: it runs the body for one block after another.
void Place::live() {
  Place& place = *running;
  while (true) {
    acquire(place.launch_);
    acquire(&place.begun_);
    try {
      place.launch_->body();
    } catch (const KernelFault& fault) {
      if (!place.fault_) place.fault_ = fault.what();
    }
    release(&place.ended_);
    place.end_thread();
    place.leave();
  }
}

bool Place::find_next() {
  while (left_ != 0) {
    --left_;
    current_ = next_;
    next_ += step_;
    if (next_ >= count_) next_ -= count_;
    if (can_run(threads_[current_])) return true;
  }
  return false;
}

StackPosition Place::enter() {
  Thread& thread = threads_[current_];
  if (thread.stopped == nullptr) thread.stopped = stacks_.start(current_, live);
  thread.waits_for = nullptr;
  threadIdx = thread.index;
  if (left_ != 0) {  // what the one after it will pop, and who comes after that
    const char* soon = static_cast<const char*>(threads_[next_].stopped);
    __builtin_prefetch(soon);
    __builtin_prefetch(soon + kCacheLine);
    const unsigned after = next_ + step_;
    __builtin_prefetch(&threads_[after >= count_ ? after - count_ : after]);
  }
  go_to(thread.timeline);
  return thread.stopped;
}

void Place::leave() {
  StackPosition& stopped = threads_[current_].stopped;
  if (!fault_ && find_next()) {
    ventris_switch_stacks(stopped, enter());
  } else {
    go_to(timeline_);
    ventris_switch_stacks(stopped, server_stopped_);
  }
}

void Place::end_thread() {
  threads_[current_].done = true;
  --warps_[current_ / kLanes].alive;
  --alive_;
  progress_ = true;
  if (alive_ != 0 && block_barrier_.arrived == alive_) release_all(block_barrier_);
}

/// Never comes back: the launch is over, and a kernel's stack holds nothing that had to be freed.
void Place::fail(const std::string& text) {
  if (!fault_) fault_ = text;
  release(&ended_);
  leave();
  std::abort();
}

void Place::meet(Barrier& barrier, unsigned all, bool orders_memory) {
  char* order = &barrier.order[barrier.passed % 2];
  if (orders_memory) release(order);
  if (++barrier.arrived == all) {
    release_all(barrier);
  } else {
    Thread& thread = threads_[current_];
    thread.waits_for = &barrier;
    thread.waits_until = barrier.passed + 1;
    leave();
  }
  if (orders_memory) acquire(order);
}

void Place::barrier() {
  meet(block_barrier_, alive_, true);
}

const char* Place::exchange(const char* what, const void* give, size_t bytes, bool orders_memory) {
  Warp& warp = warps_[current_ / kLanes];
  if (warp.size != kLanes || warp.alive != kLanes) fail_partial(what, warp.alive);
  if (warp.barrier.arrived == 0) {
    warp.what = what;
    warp.bytes = bytes;
  } else if (bytes != warp.bytes || (warp.what != what && std::strcmp(warp.what, what) != 0)) {
    fail_different(what, bytes, warp);
  }
  char* slots = warp.slots[warp.barrier.passed % 2];
  char* slot = slots + current_ % kLanes * bytes;
  if (bytes == sizeof(uint32_t)) {
    std::memcpy(slot, give, sizeof(uint32_t));
  } else if (bytes != 0) {
    copy_unwatched(slot, give, bytes);
  }
  meet(warp.barrier, kLanes, orders_memory);
  return slots;
}

void Place::fail_partial(const char* what, unsigned alive) {
  throw KernelFault(fmt::format("{} in a warp of which {} threads run: it takes all 32", what, alive));
}
void Place::fail_different(const char* what, size_t bytes, const Warp& warp) {
  if (std::strcmp(warp.what, what) != 0)
    throw KernelFault(fmt::format("lanes of one warp are in {} and in {}", warp.what, what));
  throw KernelFault(
      fmt::format("lanes of one warp are in {} with {} and with {} bytes", what, warp.bytes, bytes));
}

/// Static shared memory, of all kernels, and the dynamic one.
void Place::poison() {
  for (const auto& [begin, bytes] : static_memory_) std::memset(begin, 0xFF, bytes);
  const size_t bytes = launch_->grid.shared_bytes;
  shared_memory_.resize(std::max(shared_memory_.size(), bytes + kRedZone + 128));
  shared_ = shared_memory_.data() + (128 - reinterpret_cast<uintptr_t>(shared_memory_.data()) % 128) % 128;
  std::memset(shared_, 0xFF, bytes);
  std::memset(shared_ + bytes, kRedByte, kRedZone);
}

void Place::begin(Launch& launch) {
  launch_ = &launch;
  const uint64_t index = launch.order[launch.begun++];
  block_number_ = ++blocks_begun;
  const dim3& blocks = launch.grid.blocks;
  block_ = {static_cast<unsigned>(index % blocks.x), static_cast<unsigned>(index / blocks.x % blocks.y),
            static_cast<unsigned>(index / blocks.x / blocks.y)};
  const dim3& shape = launch.grid.threads;
  count_ = alive_ = shape.x * shape.y * shape.z;
  for (unsigned w = 0; w * kLanes < count_; ++w) {
    Warp& warp = warps_[w];
    warp.barrier.passed = warp.barrier.arrived = 0;
    warp.what = nullptr;
    warp.size = warp.alive = std::min(kLanes, count_ - w * kLanes);
  }
  block_barrier_.passed = block_barrier_.arrived = 0;
  fault_.reset();
  uint3 at{};
  for (unsigned t = 0; t < count_; ++t) {
    Thread& thread = threads_[t];
    thread.index = at;
    thread.done = false;
    thread.waits_for = nullptr;
    if (++at.x != shape.x) continue;
    at.x = 0;
    if (++at.y != shape.y) continue;
    at.y = 0;
    ++at.z;
  }
  shared_ = nullptr;
}

std::string Place::name_of_block() const {
  const dim3& blocks = launch_->grid.blocks;
  return fmt::format("block ({}, {}, {}) of {} x {} x {}", block_.x, block_.y, block_.z, blocks.x, blocks.y,
                     blocks.z);
}

void Place::fail_waiting() const {
  const auto at_block = std::count_if(threads_.begin(), threads_.begin() + count_, [this](const Thread& t) {
    return !t.done && t.waits_for == &block_barrier_;
  });
  throw KernelFault(fmt::format(
      "threads wait for ever: {} at sync_threads, {} in a warp operation ({}), {} ended", at_block,
      alive_ - at_block, warps_[0].what == nullptr ? "none" : warps_[0].what, count_ - alive_));
}

/// All threads once, from a random one on in steps of a random size.
void Place::pass() {
  progress_ = false;
  const auto count = uint64_t{count_};
  uint64_t step = 1 + launch_->random.below(count);
  if (std::has_single_bit(count)) {
    step |= 1;
  } else {
    while (std::gcd(step, count) != 1) ++step;
  }
  step_ = static_cast<unsigned>(step % count);
  next_ = static_cast<unsigned>(launch_->random.below(count));
  left_ = count_;
  if (find_next()) ventris_switch_stacks(server_stopped_, enter());
  if (fault_) {
    acquire(&ended_);
    throw KernelFault(std::string(*fault_));
  }
  if (!progress_) fail_waiting();
}

void Place::check_red_zone() const {
  const size_t bytes = launch_->grid.shared_bytes;
  const char* zone = shared_ + bytes;
  // Each byte is like the first.
  if (*zone == kRedByte && std::memcmp(zone, zone + 1, kRedZone - 1) == 0) return;
  const char* written = std::find_if(zone, zone + kRedZone, [](char c) { return c != kRedByte; });
  throw KernelFault(
      fmt::format("a write {} bytes past the {} bytes of dynamic shared memory", written - zone, bytes));
}

/// On the server, for a new one is ordered after what its maker did.
void Place::make_timelines() {
  for (unsigned t = 0; t < count_; ++t) {
    if (threads_[t].timeline == nullptr) threads_[t].timeline = new_timeline();
  }
}

/// The present block until its end, or a number of passes less.
void Place::run_block() {
  blockIdx = block_;
  if (shared_ == nullptr) {
    acquire(&ended_);
    poison();
    release(&begun_);
    if (kRaceDetector) make_timelines();
  }
  for (; passes_ != 0 && alive_ != 0; --passes_) pass();
  if (alive_ != 0) return;
  acquire(&ended_);
  check_red_zone();
  launch_->meetings = std::max(launch_->meetings, block_barrier_.passed + warps_[0].barrier.passed);
}

void block_barrier() {
  running->barrier();
}
const char* warp_exchange(const char* what, const void* give, size_t bytes) {
  return running->exchange(what, give, bytes, false);
}
void warp_barrier() {
  running->exchange("sync_warp", nullptr, 0, true);
}
void pass_time() {
  running->pass_time();
}
void fail_thread(const std::string& text) {
  running->fail(text);
}
int lane() {
  return static_cast<int>(running->current() % kLanes);
}
char* dynamic_shared_memory() {
  return running->shared();
}
uint64_t block_number() {
  return running->number();
}
unsigned thread_place() {
  return running->thread_place();
}

}  // namespace ventris::emulation
