// SPDX-License-Identifier: Apache-2.0
#include "trainer/product_choices.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "backend/device/context.h"
#include "backend/ops/gemm_choices.h"
#include "comm/communicator.h"
#include "trainer/observers/progress.h"

namespace ventris {

std::string settle_product_choices(Context& context, Communicator& communicator, const std::string& recorded,
                                   const std::function<void()>& compute, Progress& progress) {
  if (context.device() == Device::kCpu) return recorded;
  std::string choices;
  if (communicator.rank() == 0) {
    if (!prefer_gemm_choices(context, recorded)) {
      progress.warning(
          "the checkpoint has algorithms of matrix products for another device, driver or version of cuBLASLt; "
          "others are chosen, and the last bits of the next steps differ from those computed there");
    }
    compute();
    choices = gemm_choices(context);
  }
  choices = communicator.broadcast(choices, 0);
  const bool valid = communicator.rank() == 0 || prefer_gemm_choices(context, choices);
  end_gemm_tuning(context);
  const std::vector<std::string> others = communicator.all_gather(valid ? "" : "x");
  const auto differing = others.size() - static_cast<size_t>(std::count(others.begin(), others.end(), ""));
  if (differing > 0) {
    progress.warning(fmt::format(
        "{} of {} ranks have another device, driver or version of cuBLASLt than rank 0, and take the first "
        "algorithm that their library proposes: the result depends on the distribution over the ranks",
        differing, others.size()));
  }
  return choices;
}

}  // namespace ventris
