// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/memory_limit.h"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VENTRIS_FUZZ_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VENTRIS_FUZZ_SANITIZED 1
#endif
#endif

namespace ventris::fuzz {
namespace {

std::atomic<int64_t> in_use{0};
std::atomic<int64_t> limit{0};  // of in_use; 0 for none

void count(size_t bytes) {
  const int64_t now = in_use.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
  const int64_t max = limit.load();
  if (max == 0 || now <= max) return;
  limit = 0;
  std::fprintf(stderr, "an allocation of %zu bytes: %lld bytes more than allowed are in use\n", bytes,
               static_cast<long long>(now - max));
  std::abort();
}

void uncount(size_t bytes) {
  in_use.fetch_sub(static_cast<int64_t>(bytes));
}

}  // namespace

MemoryLimit::MemoryLimit(size_t bytes) {
  limit = in_use.load() + static_cast<int64_t>(bytes);
}
MemoryLimit::~MemoryLimit() {
  limit = 0;
}

}  // namespace ventris::fuzz

#ifdef VENTRIS_FUZZ_SANITIZED

// As in sanitizer/allocator_interface.h, which not every compiler that has the functions brings.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                              void (*free_hook)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* block);
}

namespace {
// The sanitizer's allocator tells of everything it does.
const int kInstalled = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t bytes) { ventris::fuzz::count(bytes); },
    [](const volatile void* block) {
      if (block != nullptr) ventris::fuzz::uncount(__sanitizer_get_allocated_size(block));
    });
}  // namespace

#else

// The program's own malloc and its relatives stand before those of the C library.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void __libc_free(void* block);

void* malloc(size_t bytes) noexcept {
  ventris::fuzz::count(bytes);
  void* const block = __libc_malloc(bytes);
  ventris::fuzz::count(malloc_usable_size(block));
  ventris::fuzz::uncount(bytes);
  return block;
}

void* calloc(size_t count, size_t bytes) noexcept {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return nullptr;
  ventris::fuzz::count(all);
  void* const block = __libc_calloc(count, bytes);
  ventris::fuzz::count(malloc_usable_size(block));
  ventris::fuzz::uncount(all);
  return block;
}

void* realloc(void* block, size_t bytes) noexcept {
  const size_t before = malloc_usable_size(block);
  ventris::fuzz::count(bytes);
  void* const moved = __libc_realloc(block, bytes);
  ventris::fuzz::uncount(bytes);
  if (moved != nullptr || bytes == 0) ventris::fuzz::uncount(before);
  ventris::fuzz::count(malloc_usable_size(moved));
  return moved;
}

void free(void* block) noexcept {
  ventris::fuzz::uncount(malloc_usable_size(block));
  __libc_free(block);
}
}

#endif
