// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/corpus_faults.h"

#include <fmt/core.h>
#include <poll.h>

#include <array>
#include <csignal>
#include <exception>
#include <utility>

#include "backend/device/error.h"
#include "comm/mpi_environment.h"
#include "data/error.h"
#include "launch/output.h"
#include "trainer/observers/run_status.h"

namespace ventris {
namespace {

constexpr std::array kFaults = {SIGBUS, SIGSEGV};

// State of the handler, which runs on the faulting thread.
sem_t fault_came;
std::atomic<bool> not_of_the_corpus = false;
std::array<struct sigaction, kFaults.size()> before;

void restore_actions() {
  for (size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &before[i], nullptr);
}

/// The thread that reads the corpus waits while another one checks it; if it may continue, the fault occurs
/// again, with the previous action. A signal sent by a process is not a fault.
void stand_still(int number, siginfo_t* signal, void*) {
  constexpr int kLookEveryMs = 5;
  if (signal->si_code <= 0) {
    restore_actions();
    ::raise(number);  // which waits until this handler returns
    return;
  }
  ::sem_post(&fault_came);
  while (!not_of_the_corpus) ::poll(nullptr, 0, kLookEveryMs);
}

}  // namespace

CorpusFaults::CorpusFaults(const std::string& corpus, Job& job, std::string command)
    : watch_(corpus), job_(job), command_(std::move(command)) {
  ::sem_init(&fault_came, 0, 0);
  not_of_the_corpus = false;
  thread_ = std::thread([this] { wait_for_fault(); });
  struct sigaction action {};
  action.sa_sigaction = stand_still;
  action.sa_flags = SA_SIGINFO;
  for (size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &action, &before[i]);
}

CorpusFaults::~CorpusFaults() {
  restore_actions();
  over_ = true;
  ::sem_post(&fault_came);
  thread_.join();
}

void CorpusFaults::wait_for_fault() {
  while (::sem_wait(&fault_came) != 0) {
  }
  if (over_) return;
  try {
    watch_.check();
  } catch (const Error& error) {
    end_job(error);
  } catch (const std::exception&) {
    // The file cannot be read: a disk error.
  }
  restore_actions();
  not_of_the_corpus = true;
}

void CorpusFaults::end_job(const Error& error) {
  const MpiEnvironment& environment = job_.environment;
  const std::string place = environment.size() > 1
                                ? fmt::format("[rank {} on {}] ", environment.rank(), environment.host())
                                : std::string();
  const int code = static_cast<int>(error.code());
  tell(fmt::format("{}ventris {}: error: {}", place, command_, error.what()));
  job_.status.end(code, error.what());
  environment.abort(code);
}

void CorpusFaults::run(const std::function<void()>& work) const {
  try {
    work();
  } catch (const data::DataError& error) {
    using data::ErrorKind;
    if (error.kind() == ErrorKind::kBadData || error.kind() == ErrorKind::kIo) watch_.check();
    throw;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) watch_.check();
    throw;
  } catch (const std::exception&) {
    watch_.check();
    throw;
  }
}

}  // namespace ventris
