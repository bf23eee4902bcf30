// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ventris {

class Communicator;

/// Time of a rank's own work in some steps, without waits for other ranks.
struct RankTime {
  std::string host;
  double seconds = 0.0;
};

/// "straggler: rank 3 on b computes 1.4 times as long as the median rank" for the slowest of `ranks`, if its
/// time exceeds the median by more than a fifth; otherwise "". Of an even number the lower one in the middle
/// is the median. "" if the median is 0, or below `least_median` seconds.
std::string describe_straggler(const std::vector<RankTime>& ranks, double least_median);
/// `least_median` for times by the clock of the host: in less time a pause of the system looks like a slow
/// rank.
inline constexpr double kLeastHostMedian = 5.0;

/// The times of all ranks, on every rank; all must call it.
std::vector<RankTime> gather_rank_times(Communicator& communicator, double seconds);

}  // namespace ventris
