// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/device/error.h"
#include "comm/affinity.h"
#include "comm/communicator.h"

namespace ventris {
namespace {

constexpr double kNotable = 1.2;  // times the median

}  // namespace

std::string describe_straggler(const std::vector<RankTime>& ranks, double least_median) {
  if (ranks.size() < 2) return "";
  const auto less = [](const RankTime& a, const RankTime& b) { return a.seconds < b.seconds; };
  std::vector<RankTime> sorted = ranks;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((ranks.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end(), less);
  const double median = middle->seconds;
  const auto slowest = std::max_element(ranks.begin(), ranks.end(), less);
  if (median <= 0.0 || median < least_median || slowest->seconds <= kNotable * median) return "";
  return fmt::format("straggler: rank {} on {} computes {:.1f} times as long as the median rank",
                     slowest - ranks.begin(), slowest->host, slowest->seconds / median);
}

std::vector<RankTime> gather_rank_times(Communicator& communicator, double seconds) {
  std::string mine(sizeof(seconds), '\0');
  std::memcpy(mine.data(), &seconds, sizeof(seconds));
  std::vector<RankTime> times;
  for (const std::string& text : communicator.all_gather(mine + host_name())) {
    VENTRIS_CHECK(text.size() >= sizeof(seconds), "a time of {} bytes came", text.size());
    RankTime& time = times.emplace_back(RankTime{.host = text.substr(sizeof(seconds))});
    std::memcpy(&time.seconds, text.data(), sizeof(seconds));
  }
  return times;
}

}  // namespace ventris
