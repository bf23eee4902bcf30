// SPDX-License-Identifier: Apache-2.0
#include "comm/process.h"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>

namespace ventris {

std::optional<Process> process_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');  // empty if the process ends now; iterators of a stream would throw
  // The second field may hold anything in parentheses.
  const size_t name_begin = text.find('(');
  const size_t name_end = text.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) return std::nullopt;
  char state = 0;
  int parent = 0;
  if (std::sscanf(text.c_str() + name_end + 1, " %c %d", &state, &parent) != 2) return std::nullopt;
  return Process{
      .parent = parent, .name = text.substr(name_begin + 1, name_end - name_begin - 1), .state = state};
}

}  // namespace ventris
