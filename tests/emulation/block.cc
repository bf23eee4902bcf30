#include "tests/emulation/block.h"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/race_detector.h"
#include "tests/emulation/symbols.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace ventris::emulation {
namespace {

namespace context = boost::context::detail;

constexpr unsigned kLanes = 32;
constexpr unsigned kMostThreads = 1024;
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kRedZone = 1024;  // behind dynamic shared memory
constexpr char kRedByte = '\xA5';
// Blocks that run in turns. ThreadSanitizer knows at most 8,128 threads, and is slow with many.
constexpr unsigned kFewestBlocks = kRaceDetector ? 3 : 4;
constexpr unsigned kMostBlocks = kRaceDetector ? 3 : 8;
// Over the threads of blocks before another block has its turn: 1, 2, 4, ... 64.
constexpr uint64_t kTurns = 7;
constexpr uint64_t kBlocksOfTurn = 8;  // on average, at most
static_assert(kMostPlaces == 8 * kMostThreads);

// The standard library's waits of atomics yield the processor first, which takes long where it has other
// work.
void wait_while(const std::atomic<int>& word, int value) {
  while (word == value) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(const std::atomic<int>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

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
  alignas(64) char slots[2][kLanes * kSlotBytes];
};

struct Thread {
  context::fcontext_t stopped = nullptr;  // where it goes on; null: at its beginning
  Timeline timeline = nullptr;
  uint3 index{};
  bool done = true;
  const Barrier* waits_for = nullptr;  // runs on when this barrier has passed `waits_until` times
  uint64_t waits_until = 0;
};

/// Stacks for the threads of a block. Their tops lie in different lines of the caches.
class Stacks {
 public:
  Stacks() {
    memory_ = static_cast<char*>(mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    madvise(memory_, kMostThreads * kStackBytes, MADV_NOHUGEPAGE);
  }
  ~Stacks() { munmap(memory_, kMostThreads * kStackBytes); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  context::fcontext_t start(unsigned thread, void (*body)(context::transfer_t)) const {
    char* stack = memory_ + thread * kStackBytes;
#ifdef __SANITIZE_ADDRESS__
    ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);  // nothing unwound what stood there
#endif
    const size_t bytes = kStackBytes - thread % 61 * 64;
    return context::make_fcontext(stack + bytes, bytes, body);
  }

 private:
  char* memory_;
};

/// What the blocks of a launch have in common.
struct Launch {
  const Grid& grid;
  const std::function<void()>& body;
  std::vector<uint64_t> order;  // of the blocks
  size_t begun = 0;
  uint64_t meetings = 0;  // the most of the blocks that have ended

  bool all_begun() const { return begun == order.size(); }
};
uint64_t blocks_begun = 0;  // of all launches

/// A place for one block after another. It has a thread of the system, whose variables with the storage
/// duration of a thread are the static shared memory of the block (types.h); only one place runs at a time.
class Place {
 public:
  explicit Place(unsigned number) : number_(number), server_([this] { serve(); }) { server_.detach(); }

  /// With the next block of the launch.
  void begin(Launch& launch);
  /// Runs the threads of the block at most so many times until each waits or has ended, and perhaps blocks
  /// after it; true if the last one has ended.
  bool run(uint64_t passes, Random& random);
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
    if (!random_->one_in(4)) return;
    progress_ = true;
    leave();
  }
  [[noreturn]] void fail(const std::string& text);
  unsigned current() const { return current_; }
  unsigned thread_place() const { return number_ * kMostThreads + current_; }
  char* shared() { return shared_; }
  uint64_t number() const { return block_number_; }

 private:
  void serve();
  void serve_turn();
  void run_block();
  std::string name_of_block() const;
  void poison();
  void pass();
  bool can_run(const Thread& thread) const {
    return !thread.done && (thread.waits_for == nullptr || thread.waits_for->passed >= thread.waits_until);
  }
  void resume(Thread& thread);
  static void live(context::transfer_t from);
  void end_thread();
  void leave() {
    go_to(timeline_);
    scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
  }
  void meet(Barrier& barrier, unsigned all, bool orders_memory);
  void release_all(Barrier& barrier) {
    barrier.arrived = 0;
    ++barrier.passed;
    progress_ = true;
  }
  void check_red_zone() const;
  [[noreturn]] void fail_waiting() const;

  const unsigned number_;
  Launch* launch_ = nullptr;
  uint3 block_{};
  uint64_t block_number_ = 0;
  Stacks stacks_;
  std::vector<Thread> threads_{kMostThreads};
  unsigned count_ = 0;  // of threads of the block
  std::vector<Warp> warps_{kMostThreads / kLanes};
  std::vector<std::pair<char*, size_t>> static_memory_;
  std::vector<char> shared_memory_;
  char* shared_ = nullptr;
  context::fcontext_t scheduler_ = nullptr;
  Timeline timeline_ = nullptr;  // of the server
  Barrier block_barrier_;
  unsigned alive_ = 0;
  unsigned current_ = 0;
  bool progress_ = false;
  char begun_ = 0;  // for the race detector
  char ended_ = 0;  // likewise
  std::optional<std::string> fault_;

  // Between the caller of run() and the server. The race detector does not see it: it is no order of blocks.
  enum Turn { kCaller, kServer };
  std::atomic<int> turn_ = kCaller;
  uint64_t passes_ = 0;
  Random* random_ = nullptr;
  std::thread server_;  // last: it uses all of the above
};

Place* running = nullptr;  // whose threads run

/// A fiber lives as long as its place: it runs the body for one block after another.
void Place::live(context::transfer_t from) {
  Place& place = *running;
  place.scheduler_ = from.fctx;
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

void Place::resume(Thread& thread) {
  if (thread.stopped == nullptr) {
    thread.stopped = stacks_.start(current_, live);
    if (thread.timeline == nullptr) thread.timeline = new_timeline();
  }
  thread.waits_for = nullptr;
  threadIdx = thread.index;
  go_to(thread.timeline);
  thread.stopped = context::jump_fcontext(thread.stopped, nullptr).fctx;
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
  if (warp.size != kLanes || warp.alive != kLanes) {
    throw KernelFault(fmt::format("{} in a warp of which {} threads run: it takes all 32", what, warp.alive));
  }
  if (warp.barrier.arrived == 0) {
    warp.what = what;
  } else if (std::strcmp(warp.what, what) != 0) {
    throw KernelFault(fmt::format("lanes of one warp are in {} and in {}", warp.what, what));
  }
  char* slots = warp.slots[warp.barrier.passed % 2];
  if (bytes != 0) std::memcpy(slots + current_ % kLanes * kSlotBytes, give, bytes);
  meet(warp.barrier, kLanes, orders_memory);
  return slots;
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
  for (unsigned t = 0; t < count_; ++t) {
    Thread& thread = threads_[t];
    thread.index = {t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
    thread.done = false;
    thread.waits_for = nullptr;
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
  uint64_t step = 1 + random_->below(count);
  while (std::gcd(step, count) != 1) ++step;
  step %= count;
  uint64_t at = random_->below(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (can_run(threads_[at])) {
      current_ = static_cast<unsigned>(at);
      resume(threads_[at]);
      if (fault_) {
        acquire(&ended_);
        throw KernelFault(std::string(*fault_));
      }
    }
    at += step;
    if (at >= count) at -= count;
  }
  if (!progress_) fail_waiting();
}

void Place::check_red_zone() const {
  const size_t bytes = launch_->grid.shared_bytes;
  for (size_t i = 0; i < kRedZone; ++i) {
    if (shared_[bytes + i] != kRedByte) {
      throw KernelFault(fmt::format("a write {} bytes past the {} bytes of dynamic shared memory", i, bytes));
    }
  }
}

/// The present block until its end, or a number of passes less.
void Place::run_block() {
  blockIdx = block_;
  if (shared_ == nullptr) {
    acquire(&ended_);
    poison();
    release(&begun_);
  }
  for (; passes_ != 0 && alive_ != 0; --passes_) pass();
  if (alive_ != 0) return;
  acquire(&ended_);
  check_red_zone();
  launch_->meetings = std::max(launch_->meetings, block_barrier_.passed + warps_[0].barrier.passed);
}

void Place::serve_turn() {
  gridDim = launch_->grid.blocks;
  blockDim = launch_->grid.threads;
  try {
    run_block();
    while (passes_ != 0 && !launch_->all_begun() && !random_->one_in(kBlocksOfTurn)) {
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
    wait_while(turn_, kCaller);
    serve_turn();
    turn_ = kCaller;
    wake(turn_);
  }
}

bool Place::run(uint64_t passes, Random& random) {
  running = this;
  passes_ = passes;
  random_ = &random;
  turn_ = kServer;
  wake(turn_);
  wait_while(turn_, kServer);
  if (!fault_) return alive_ == 0;
  close();
  throw KernelFault(name_of_block() + ": " + *fault_);
}

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
  Launch launch{grid, thread, std::vector<uint64_t>(uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z)};
  std::iota(launch.order.begin(), launch.order.end(), 0);
  for (uint64_t left = launch.order.size(); left > 1; --left)
    std::swap(launch.order[left - 1], launch.order[random.below(left)]);
  std::vector<Place*> busy(
      std::min(launch.order.size(), kFewestBlocks + random.below(kMostBlocks - kFewestBlocks + 1)));
  for (size_t i = 0; i < busy.size(); ++i) {
    busy[i] = &place(i);
    busy[i]->begin(launch);
  }
  release(&launch);
  const uint64_t races = races_found();
  while (!busy.empty()) {
    Place*& one = busy[random.below(busy.size())];
    const uint64_t passes = busy.size() == 1 ? UINT64_MAX : uint64_t{1} << random.below(kTurns);
    try {
      if (!one->run(passes, random)) continue;
    } catch (const KernelFault&) {
      for (Place* place : places()) {
        place->close();
        place->forget_threads();
      }
      throw;
    }
    if (!launch.all_begun()) {
      one->begin(launch);
    } else {
      one = busy.back();
      busy.pop_back();
    }
  }
  for (Place* place : places()) place->close();
  if (races_found() != races) throw KernelFault("threads race: the report of ThreadSanitizer stands above");
  return launch.meetings;
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
