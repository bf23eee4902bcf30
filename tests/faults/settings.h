// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>

// What the library does at which call; tests/faults/README.md has the variables.

namespace faults {

enum class Fault { kNone, kError, kShort, kKill, kWait };

struct Settings {
  std::string prefix;   // of paths whose calls count; empty: the library does nothing
  std::string call;     // "any", or the one kind that counts
  long at = 0;          // the number of the call at which it happens, from 1; 0: never
  bool sticky = false;  // and at every later call of the kind
  Fault fault = Fault::kNone;
  int error = 0;               // errno
  long seconds = 0;            // that a call takes longer; 0: it never ends
  std::string log;             // file to which every call that counts is appended
  std::string victim;          // file with the process id to kill; empty: this process
  std::string record;          // folder for what the calls did
  bool named_only = false;     // there are no files without names
  bool known_numbers = false;  // instead of random ones
};

const Settings& settings();
std::string variable(const char* name);

/// Appends to a file, or begins it anew, past all that is watched.
void write_raw(const char* path, int flags, const std::string& text);

/// Held from the count of a call to its end: when a call is counted, those before it are done.
extern std::mutex turn;

/// Whether calls on a path or descriptor count. Children that the process makes are left alone.
bool matches(const std::string& path);
bool matches(int fd);
/// Makes them count or not; returns the descriptor.
int watch(int fd, bool on);

/// Counts a call, by the holder of `turn`. What is to become of it.
Fault fault_at(const char* call, const std::string& path);

/// The path under which the file is found now.
std::string name_of(int fd);
/// A path from the root, of one that may be relative to a folder.
std::string resolved(int folder, const char* path);

}  // namespace faults
