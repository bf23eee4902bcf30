// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// Stacks for the threads of a block, and the switch from one to another.
namespace ventris::emulation {

/// Where a thread that stands goes on.
using StackPosition = void*;

/// Goes on at `to`, and returns when somebody goes on at `stopped`, which it writes. The control words of the
/// floating-point units are not switched: nothing changes them.
extern "C" void ventris_switch_stacks(StackPosition& stopped, StackPosition to);

class Stacks {
 public:
  explicit Stacks(size_t count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  /// The beginning of `body`, which never returns.
  StackPosition start(size_t stack, void (*body)()) const;

 private:
  const size_t count_;
  char* memory_;
};

}  // namespace ventris::emulation
