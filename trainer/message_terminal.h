#pragma once

#include <cstddef>

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
  size_t columns() const;  // 0 if unknown
  /// Whether it rewraps lines when it becomes narrower.
  bool reflows() const;

 private:
  int descriptor_ = -1;
  bool owns_ = false;
};

}  // namespace ventris
