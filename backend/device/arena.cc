// SPDX-License-Identifier: Apache-2.0
#include "backend/device/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "backend/device/device_cuda.h"
#include "backend/device/error.h"
#include "backend/device/has_cuda.h"

namespace ventris {
namespace {

constexpr size_t kAlignment = 128;
constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Anonymous pages are zero, page-aligned, and take no memory before their first access.
char* map_cpu_memory(size_t capacity, const char* purpose) {
  void* base = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    fail(ExitCode::kUnavailable,
         "cannot allocate {} bytes ({:.1f} MiB) of memory on device cpu for {}: refused by the system; "
         "use a smaller model or fewer tokens per micro-batch, or free memory",
         capacity, static_cast<double>(capacity) / (1 << 20), purpose);
  }
  // Fewer TLB misses in GEMM; a hint that the system may ignore.
  if (capacity >= kHugePage) static_cast<void>(madvise(base, capacity, MADV_HUGEPAGE));
  return static_cast<char*>(base);
}

}  // namespace

const char* name_of(Device device) {
  return device == Device::kCpu ? "cpu" : "cuda";
}

Arena::Arena(Device device, size_t capacity, const char* purpose)
    : device_(device), capacity_(std::max(capacity, kAlignment)) {
  constexpr size_t kLargest = static_cast<size_t>(PTRDIFF_MAX) - kHugePage;
  if (capacity_ > kLargest) {
    fail(ExitCode::kUnavailable,
         "cannot allocate {} bytes on device {} for {}: more than an address space holds", capacity,
         name_of(device), purpose);
  }
  if (device == Device::kCuda) {
    capacity_ = round_up(capacity_, kAlignment);
    if constexpr (kHasCuda) base_ = allocate_cuda(capacity_, purpose);
    VENTRIS_CHECK(base_ != nullptr, "{} bytes on device cuda requested from a build without CUDA", capacity);
    return;
  }
  capacity_ = round_up(capacity_, capacity_ >= kHugePage ? kHugePage : kAlignment);
  base_ = map_cpu_memory(capacity_, purpose);
}

Arena::~Arena() {
  if (base_ == nullptr) return;
  if constexpr (kHasCuda) {
    if (device_ == Device::kCuda) {
      free_cuda(base_);
      return;
    }
  }
  munmap(base_, capacity_);
}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(high_water_, other.high_water_);
  return *this;
}

void* Arena::allocate(size_t bytes) {
  const size_t rounded = round_up(bytes, kAlignment);
  char* address = nullptr;
  if (!measuring()) {
    VENTRIS_CHECK(rounded >= bytes && rounded <= capacity_ - used_,
                  "{} bytes requested from an arena of {}, of which {} are used", bytes, capacity_, used_);
    address = base_ + used_;
  }
  used_ += rounded;
  high_water_ = std::max(high_water_, used_);
  return address;
}

Tensor Arena::allocate(int64_t rows, int64_t cols, DType dtype) {
  const auto width = static_cast<int64_t>(size_of(dtype));
  VENTRIS_CHECK(rows >= 0 && cols >= 0 && (cols == 0 || rows <= PTRDIFF_MAX / width / cols),
                "a tensor of {} x {} {}", rows, cols, name_of(dtype));
  return {allocate(static_cast<size_t>(rows * cols) * size_of(dtype)), rows, cols, cols, dtype};
}

void Arena::release_to(size_t mark) {
  VENTRIS_CHECK(mark <= used_, "release to {} of an arena that uses {}", mark, used_);
  used_ = mark;
}

void Arena::discard(void* begin, size_t bytes) {
  char* const first = static_cast<char*>(begin);
  VENTRIS_CHECK(device_ == Device::kCpu && first >= base_ && first + bytes <= base_ + capacity_,
                "{} bytes to discard are not of this arena", bytes);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t from = round_up(static_cast<size_t>(first - base_), page);
  const size_t end = static_cast<size_t>(first - base_) + bytes;
  if (from + page <= end) static_cast<void>(madvise(base_ + from, (end - from) / page * page, MADV_DONTNEED));
}

}  // namespace ventris
