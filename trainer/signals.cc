#include <csignal>

#include "backend/error.h"
#include "trainer/trainer.h"

namespace ventris {
namespace {

volatile std::sig_atomic_t stop = 0;

extern "C" void request_stop(int signal) {
  // A second Ctrl-C ends the program at once.
  if (stop != 0 && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  stop = signal;
}

}  // namespace

void install_stop_handlers() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    struct sigaction action = {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    VENTRIS_CHECK(sigaction(signal, &action, nullptr) == 0, "signal {} cannot be handled", signal);
  }
}

bool stop_requested() {
  return stop != 0;
}

int stop_signal() {
  return stop;
}

}  // namespace ventris
