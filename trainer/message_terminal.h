// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

#include "trainer/terminal_text.h"

namespace ventris {

/// The terminal that shows what this process writes to its standard error: that stream itself or, if a
/// launcher on this host forwards the stream, the launcher's.
class MessageTerminal {
 public:
  MessageTerminal();
  ~MessageTerminal();
  MessageTerminal(const MessageTerminal&) = delete;
  MessageTerminal& operator=(const MessageTerminal&) = delete;

  bool exists() const { return descriptor_ >= 0; }
  /// Whether it exists and has a cursor that moves: TERM is given, and is not "dumb".
  bool has_cursor() const;
  /// Whether it is that of a launcher, which forwards the stream.
  bool is_forwarded() const { return owns_; }
  TerminalSize size() const;
  /// Whether another job of a shell has the terminal now, because this one is in the background or stopped:
  /// what is written there is between the lines of others. False if it cannot be found out.
  bool is_of_another_job() const;
  /// Whether it rewraps lines when it becomes narrower.
  bool reflows() const;

 private:
  int descriptor_ = -1;
  bool owns_ = false;
  std::vector<pid_t> job_ = {};  // process groups of this process and of the launchers that started it
};

}  // namespace ventris
