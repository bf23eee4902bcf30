// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/mix_plan.h"

namespace ventris::data {

/// Bytes of a file at most: a tree of YAML values takes up to 240 times the memory of its text.
inline constexpr size_t kMaxMixFileBytes = 32768;

/// A plan that was read, and remarks for the user on what else the file says.
struct ReadMix {
  MixPlan plan;
  std::vector<std::string> remarks;
};

/// Reads a file of `train --mix`: a plan (parse_mix_plan()), or a configuration of OpusTrainer
/// (https://github.com/hplt-project/OpusTrainer): YAML with `datasets`, `stages`, and for each stage a list
/// of "DATASET SHARE" that ends with "until DATASET EPOCHS", directly or below `mix`. A dataset is the corpus
/// of that name; paths, the seed, and what else does not concern the order of pairs is ignored, with a
/// remark. Throws DataError kBadConfiguration naming `origin` for what is neither or longer than
/// kMaxMixFileBytes, and for modifiers of sentences.
ReadMix read_mix(std::string_view text, const std::string& origin);

}  // namespace ventris::data
