#pragma once

#include <semaphore.h>

#include <atomic>
#include <functional>
#include <thread>

#include "launch/job.h"
#include "trainer/corpus_watch.h"

namespace ventris {

/// While it lives, a crash whose cause is that the corpus changed under its mapping ends the job as one of
/// its input, with exit code 65 and the message of CorpusWatch: SIGBUS beyond the end of a file that was
/// cut, SIGSEGV by way of wrong offsets, and errors of the program's own checks. Any other crash is left to
/// whoever would have got it. To be made before the corpus is opened. At most one object.
class CorpusFaults {
 public:
  CorpusFaults(const std::string& corpus, Job& job, std::string command);
  ~CorpusFaults();
  CorpusFaults(const CorpusFaults&) = delete;
  CorpusFaults& operator=(const CorpusFaults&) = delete;

  /// Calls work(); where an exception that tells of a fault of the program leaves it, and the corpus changed,
  /// throws Error(kBadData) in its place.
  void run(const std::function<void()>& work) const;

 private:
  void wait_for_fault();
  [[noreturn]] void end_job(const Error& error);

  const CorpusWatch watch_;
  Job& job_;
  const std::string command_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace ventris
