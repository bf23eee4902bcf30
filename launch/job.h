#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/context.h"

namespace ventris {

class Communicator;
class MpiEnvironment;

/// What a command runs in.
struct Job {
  const MpiEnvironment& environment;
  Communicator& communicator;
  std::string command_line;  // as given, for the provenance of files

  bool speaks() const;             // this rank prints for the job
  std::string provenance() const;  // version, commit and command line
};

/// A context on `device` (auto, cpu or cuda) with `threads` CPU threads, or as many as the rank may use if 0.
/// Throws Error(kUnavailable) for a device that this program was not built for.
std::unique_ptr<Context> make_context(const Job& job, const std::string& device, int threads);

/// Text for people, on the standard error; only the rank that speaks prints.
void say(const Job& job, const std::string& message);

}  // namespace ventris
