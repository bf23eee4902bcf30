// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>

#include <atomic>
#include <functional>
#include <thread>

#include "launch/job.h"
#include "trainer/corpus_watch.h"

namespace ventris {

/// During its lifetime, a crash caused by a change of the mapped corpus ends the job as an input error, with
/// exit code 65 and the message of CorpusWatch: SIGBUS beyond the end of a truncated file, SIGSEGV from wrong
/// offsets, and errors of the program's own checks. Other crashes are passed to the previous handler. Must be
/// created before the corpus is opened. At most one object.
class CorpusFaults {
 public:
  CorpusFaults(const std::string& corpus, Job& job, std::string command);
  ~CorpusFaults();
  CorpusFaults(const CorpusFaults&) = delete;
  CorpusFaults& operator=(const CorpusFaults&) = delete;

  /// Calls work(); if it throws an internal error, or one of bad data or of reading, and the corpus changed,
  /// throws Error(kBadData) of that instead.
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
