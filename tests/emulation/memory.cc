// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>

#include "tests/emulation/controls.h"

namespace ventris::emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;
constexpr char kRedMemory = '\xA5';
// What is filled at each end of an allocation: workspaces of 32 and 64 MiB, of which a test uses the
// beginning, took longer than it.
constexpr size_t kFilled = size_t{4} << 20;
constexpr size_t kSparse = size_t{4} << 30;

/// [guard page | red bytes | user bytes | red bytes | guard page]; the user's bytes stand as far back as
/// alignment allows.
struct Allocation {
  char* base;    // first page that can be touched
  size_t size;   // of those pages
  size_t bytes;  // the user's
};

std::map<char*, Allocation> allocations;  // by the user's address
size_t used = 0;
int depth = 0;

void protect(const Allocation& allocation, bool open) {
  mprotect(allocation.base, allocation.size, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/// Says what a signal in device memory means, and lets it end the process.
void explain(int number, siginfo_t* info, void*) {
  const auto* address = static_cast<const char*>(info->si_addr);
  for (const auto& [user, a] : allocations) {
    if (address < a.base - kPage || address >= a.base + a.size + kPage) continue;
    const char* text = depth == 0 ? "emulated device: host code touches device memory\n"
                                  : "emulated device: access far outside of an allocation\n";
    static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
  }
  std::signal(number, SIG_DFL);
}

void install_handler() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = explain;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace

void* allocate_device(size_t bytes) {
  if (used + bytes > machine().memory_bytes) return nullptr;
  install_handler();
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t size = std::max(kPage, (rounded + kPage - 1) / kPage * kPage);
  void* mapped =
      mmap(nullptr, size + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  Allocation a{static_cast<char*>(mapped) + kPage, size, bytes};
  char* user = a.base + size - rounded;
  protect(a, true);
  // A hint: large allocations are then opened and closed much faster. Of the largest few pages are touched.
  madvise(a.base, a.size, bytes < kSparse ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(a.base, kRedMemory, static_cast<size_t>(user - a.base));
  std::memset(user, 0xFF, std::min(bytes, kFilled));
  if (bytes > kFilled)
    std::memset(user + std::max(kFilled, bytes - kFilled), 0xFF, std::min(kFilled, bytes - kFilled));
  std::memset(user + bytes, kRedMemory, rounded - bytes);
  if (depth == 0) protect(a, false);
  allocations[user] = a;
  used += bytes;
  return user;
}

bool free_device(void* address) {
  const auto found = allocations.find(static_cast<char*>(address));
  if (found == allocations.end()) return false;
  munmap(found->second.base - kPage, found->second.size + 2 * kPage);
  used -= found->second.bytes;
  allocations.erase(found);
  return true;
}

bool in_device_memory(const void* address, size_t bytes) {
  auto* begin = static_cast<char*>(const_cast<void*>(address));
  auto found = allocations.upper_bound(begin);
  if (found == allocations.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second.bytes;
}

void fill_device(void* address, int value, size_t bytes) {
  auto* begin = static_cast<char*>(address);
  char* end = begin + bytes;
  char* first = begin + (kPage - reinterpret_cast<uintptr_t>(begin) % kPage) % kPage;
  char* last = end - reinterpret_cast<uintptr_t>(end) % kPage;
  constexpr ptrdiff_t kWorthIt = 64 * kPage;
  if (value != 0 || last - first < kWorthIt ||
      madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) != 0) {
    std::memset(address, value, bytes);
    return;
  }
  std::memset(begin, 0, static_cast<size_t>(first - begin));
  std::memset(last, 0, static_cast<size_t>(end - last));
}

size_t device_bytes_used() {
  return used;
}

std::string overwritten() {
  for (const auto& [user, a] : allocations) {
    const char* end = a.base + a.size;
    const auto red = [](char c) { return c == kRedMemory; };
    const char* before =
        std::find_if_not(static_cast<const char*>(a.base), static_cast<const char*>(user), red);
    if (before != user)
      return fmt::format("a write {} bytes before an allocation of {}", user - before, a.bytes);
    const char* after = std::find_if_not(static_cast<const char*>(user) + a.bytes, end, red);
    if (after != end)
      return fmt::format("a write {} bytes past an allocation of {}", after - (user + a.bytes), a.bytes);
  }
  return {};
}

DeviceAccess::DeviceAccess() {
  if (depth++ == 0) {
    for (const auto& [user, a] : allocations) protect(a, true);
  }
}
DeviceAccess::~DeviceAccess() {
  if (--depth == 0) {
    for (const auto& [user, a] : allocations) protect(a, false);
  }
}

}  // namespace ventris::emulation
