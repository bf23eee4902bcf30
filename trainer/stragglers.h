// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ventris {

class Communicator;

/// The time of a rank for its own work in some steps: without waiting for other ranks.
struct RankTime {
  std::string host;
  double seconds = 0.0;
};

/// "rank 3 on b computes 1.4 times as long as the median rank" of the slowest of `ranks`, if its time exceeds
/// the median by more than a fifth; otherwise "". Of an even number the lower one in the middle is the
/// median. "" if the median is 0, or below `least_median` seconds.
std::string describe_straggler(const std::vector<RankTime>& ranks, double least_median);
/// Of times by the clock of the host, in which a pause of the system is not a slow rank.
inline constexpr double kLeastHostMedian = 5.0;

/// Measures the own work of this rank by the clock of the host: what of the steps it did not wait in
/// collectives. The time that a device takes is not part of it.
class StragglerWatch {
 public:
  /// The communicator must outlive the object.
  explicit StragglerWatch(const Communicator& communicator) : communicator_(communicator) {}
  void begin_step();
  /// Of a step that took `seconds`.
  void end_step(double seconds);
  /// Since the previous call.
  double take_seconds();

 private:
  const Communicator& communicator_;
  double waited_before_ = 0.0;
  double seconds_ = 0.0;
};

/// The times of all ranks, on every rank; all must call it.
std::vector<RankTime> gather_rank_times(Communicator& communicator, double seconds);

}  // namespace ventris
