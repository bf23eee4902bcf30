// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/stacks.h"

#include <sys/mman.h>

#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace ventris::emulation {
namespace {

// An odd number of pages and a line of the caches more: their tops lie in different sets of the caches and of
// the buffers of addresses.
constexpr size_t kStackBytes = (33 << 12) + 64;

// A library's switch also saves the control words of the floating-point units, and takes twice the time.
asm(R"(
  .text
  .p2align 4
  .globl ventris_switch_stacks
  .type ventris_switch_stacks, @function
ventris_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size ventris_switch_stacks, . - ventris_switch_stacks
)");

constexpr size_t kSaved = 6;

/// As if it had called the switch: the return takes it to `body`.
StackPosition prepared(char* stack, size_t bytes, void (*body)()) {
  void** top = reinterpret_cast<void**>(stack + bytes);
  *--top = nullptr;  // where `body` would return to
  *--top = reinterpret_cast<void*>(body);
  return top - kSaved;
}

}  // namespace

Stacks::Stacks(size_t count) : count_(count) {
  memory_ = static_cast<char*>(mmap(nullptr, count_ * kStackBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  madvise(memory_, count_ * kStackBytes, MADV_NOHUGEPAGE);
}
Stacks::~Stacks() {
  munmap(memory_, count_ * kStackBytes);
}

StackPosition Stacks::start(size_t stack, void (*body)()) const {
  char* bottom = memory_ + stack * kStackBytes;
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(bottom, kStackBytes);  // nothing unwound what stood there
#endif
  return prepared(bottom, kStackBytes, body);
}

}  // namespace ventris::emulation
