// SPDX-License-Identifier: Apache-2.0
#include "trainer/step_agreement.h"

#include <cstdint>
#include <iterator>

#include "comm/communicator.h"
#include "trainer/signals.h"

namespace ventris {

bool RankAgreement::stop_requested_anywhere() {
  if (stop_requested() && !stop_propagated_) {
    stop_propagated_ = true;
    communicator_.pass_stop_on();
  }
  return stop_propagated_ || communicator_.stop_was_passed_on();
}

StepAgreement RankAgreement::agree(const StepAgreement& own) {
  const auto one_if = [](bool holds) { return holds ? 1.0 : 0.0; };
  double sums[] = {one_if(stop_requested()), one_if(own.out_of_time), own.flops, one_if(own.abandoned),
                   one_if(stop_propagated_)};
  constexpr int64_t kCount = std::size(sums);
  communicator_.all_reduce_sum({sums, 1, kCount, kCount, DType::kF64});
  communicator_.receive_stops(static_cast<int>(sums[4]));
  return {.stop_requested = sums[0] > 0.0,
          .out_of_time = sums[1] > 0.0,
          .abandoned = sums[3] > 0.0,
          .flops = sums[2]};
}

bool RankAgreement::any(bool holds) {
  double ranks = holds ? 1.0 : 0.0;
  communicator_.all_reduce_sum({&ranks, 1, 1, 1, DType::kF64});
  return ranks > 0.0;
}

}  // namespace ventris
