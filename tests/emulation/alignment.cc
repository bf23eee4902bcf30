// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdint>

#include "tests/emulation/block.h"

// Kernels are compiled with -fsanitize=alignment, whose checks call these functions.

namespace {

/// As compilers lay it out for UndefinedBehaviorSanitizer.
struct Mismatch {
  const char* file;
  uint32_t line;
  uint32_t column;
  const struct {
    uint16_t kind;
    uint16_t info;
    char name[1];
  } * type;
  uint8_t log_alignment;
  uint8_t access;
};

[[noreturn]] void report(const Mismatch* m, uintptr_t address) {
  ventris::emulation::fail_thread(fmt::format(
      "{}:{}: access to a {} at an address that is {} more than a multiple of {}", m->file, m->line,
      m->type->name, address % (uintptr_t{1} << m->log_alignment), 1U << m->log_alignment));
}

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): these names are asked for
void __ubsan_handle_type_mismatch_v1(const Mismatch* mismatch, uintptr_t address) {
  report(mismatch, address);
}
void __ubsan_handle_type_mismatch_v1_abort(const Mismatch* mismatch, uintptr_t address) {
  report(mismatch, address);
}
// NOLINTEND(bugprone-reserved-identifier)
}
