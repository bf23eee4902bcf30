// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.h"

#include <cmath>

#include "comm/tree_sum.h"

namespace ventris {
namespace {

/// One rank: sums are the identity.
class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce_sum(Tensor) override {}
  void start_all_reduce_sum(Tensor) override {}
  void start_tree_sum(const TreeSum&) override {}  // the only partial sum is the result
  void start_exchange(const TreeMessages&) override {}
  void progress() override {}
  void finish_reductions() override {}
  void barrier() override {}
  std::string broadcast(const std::string& bytes, int) override { return bytes; }
  std::vector<std::string> all_gather(const std::string& bytes) override { return {bytes}; }
};

}  // namespace

void Communicator::start_all_gather(const std::vector<Tensor>& ranges) {
  TreeMessages messages;
  for (const Tensor& range : ranges) {
    VENTRIS_CHECK(range.rows == 1 && range.cols % size() == 0,
                  "{} x {} elements are not equal segments of {} ranks", range.rows, range.cols, size());
    const int64_t count = range.cols / size();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      messages.sends.push_back({peer, range.col_range(rank() * count, count)});
      messages.receives.push_back({peer, range.col_range(peer * count, count)});
    }
  }
  start_exchange(messages);
}

std::vector<std::string> Communicator::gather(const std::string& bytes, int root) {
  std::vector<std::string> all = all_gather(bytes);
  if (rank() != root) all.clear();
  return all;
}

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

std::string late_message(int rank, int ranks, double seconds, const std::string& collective, int64_t step,
                         const std::string& whom) {
  return fmt::format(
      "rank {} of {} has waited {:g} s in {}{} for {}. "
      "A process may be stopped, hang, or be much slower than this one. Saved checkpoints are intact, "
      "and the same command resumes from the newest; --comm-timeout sets how long ranks wait (0: no limit)",
      rank, ranks, std::round(seconds * 10.0) / 10.0, collective,
      step > 0 ? fmt::format(" at step {}", step) : "", whom);
}

void check_equal_on_all_ranks(Communicator& communicator, const std::string& key, const std::string& value) {
  const std::vector<std::string> values = communicator.all_gather(value);
  for (size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] != values[0]) {
      fail(ExitCode::kRanksDisagree,
           "the ranks disagree on {}: rank {} has \"{}\", rank 0 has \"{}\". "
           "Start all ranks with the same program, options and files",
           key, rank, values[rank], values[0]);
    }
  }
}

}  // namespace ventris
