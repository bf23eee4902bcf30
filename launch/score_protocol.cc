// SPDX-License-Identifier: Apache-2.0
#include "launch/score_protocol.h"

#include <fmt/core.h>

#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace ventris {

void add_protocol_options(data::ProtocolOptions& options, OptionTable& table) {
  const auto named = [](const auto& values) {
    std::vector<std::pair<std::string, std::decay_t<decltype(*std::begin(values))>>> choices;
    for (const auto value : values) choices.emplace_back(name_of(value), value);
    return choices;
  };
  table.choice<data::ScoreProtocol>(
      "protocol", options.protocol, named(data::kScoreProtocols),
      "paper: tokenised BLEU as in the Transformer paper: the tokenizer of Moses, compounds split "
      "at hyphens, no smoothing. It is labelled as such, and is not comparable with scores of sacreBLEU.");
  table.optional_text("language", "en|de|fr|cs", options.language,
                      "Language of the text, for --protocol paper.");
  table.choice<data::TokenizedSides>(
      "tokenized", options.tokenized, named(data::kTokenizedSides),
      "With --protocol paper: text that is already tokenised by Moses; only its compounds are split.");
}

}  // namespace ventris
