// SPDX-License-Identifier: Apache-2.0
#include "trainer/agreement.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>
#include <set>

#include "comm/communicator.h"
#include "data/corpus.h"
#include "data/io/json_text.h"
#include "trainer/train_options_json.h"

namespace ventris {
namespace {

std::string hash_of(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace

void check_same_run_on_all_ranks(Communicator& communicator, const TrainOptions& options,
                                 const data::Corpus& corpus) {
  static const std::set<std::string> kMayDiffer = {"/corpus", "/model_dir", "/threads"};
  const nlohmann::json flat = flat_options(options);
  std::string keys;
  for (const auto& item : flat.items()) keys += item.key() + " ";
  check_equal_on_all_ranks(communicator, "the names of the options (is it the same program?)", keys);
  for (const auto& item : flat.items()) {
    if (kMayDiffer.contains(item.key())) continue;
    check_equal_on_all_ranks(communicator, "option " + item.key().substr(1),
                             data::utf8_json_text(item.value()));
  }
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
