// SPDX-License-Identifier: Apache-2.0
#include "trainer/rank_consistency.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <string>

#include "comm/communicator.h"
#include "data/corpus.h"
#include "trainer/options/train_rows.h"

namespace ventris {
namespace {

bool is_path(const Option& option) {
  return option.placeholder.starts_with("FILE") || option.placeholder.starts_with("DIR") ||
         option.placeholder.starts_with("PATH");
}

std::string hash_of(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace

void check_same_options_on_all_ranks(Communicator& communicator, const OptionTable& options) {
  std::string names;
  for (const Option& option : options.options()) names += option.name + " ";
  check_equal_on_all_ranks(communicator, "the names of the options (is it the same program?)", names);
  for (const Option& option : options.options()) {
    if (option.has(kOfRank)) continue;
    const std::string value = option.show();
    check_equal_on_all_ranks(communicator, "option " + option.name,
                             !is_path(option) ? value
                             : value.empty()  ? "none"
                                              : "a path");
  }
}

void check_same_run_on_all_ranks(Communicator& communicator, const TrainOptions& options,
                                 const data::Corpus& corpus) {
  check_same_options_on_all_ranks(communicator, TrainRows(options).table);
  check_equal_on_all_ranks(communicator, "option mix", options.mix);
  const data::TokenizerPair& tokenizers = corpus.tokenizers();
  check_equal_on_all_ranks(communicator, "whether sources and targets share their vocabulary",
                           tokenizers.shared() ? "yes" : "no");
  const auto check_side = [&](const std::string& of, const data::Tokenizer& tokenizer) {
    check_equal_on_all_ranks(communicator, fmt::format("the vocabulary size{}", of),
                             std::to_string(tokenizer.vocab_size()));
    check_equal_on_all_ranks(communicator, fmt::format("the tokenizer{}", of), hash_of(tokenizer.model()));
  };
  check_side(tokenizers.shared() ? "" : " of targets", tokenizers.target());
  if (!tokenizers.shared()) check_side(" of sources", tokenizers.source());
  check_equal_on_all_ranks(communicator, "the digest of the corpus", corpus.digest());
}

}  // namespace ventris
