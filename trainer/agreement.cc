#include "trainer/agreement.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>
#include <set>

#include "comm/communicator.h"
#include "data/corpus.h"
#include "trainer/train_options_json.h"

namespace ventris {
namespace {

std::string hash_of(const void* data, size_t bytes) {
  return fmt::format("{:016x}", XXH3_64bits(data, bytes));
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
    check_equal_on_all_ranks(communicator, "option " + item.key().substr(1), item.value().dump());
  }
  const std::string& tokenizer = corpus.tokenizers().target().model();
  check_equal_on_all_ranks(communicator, "the vocabulary size",
                           std::to_string(corpus.tokenizers().target().vocab_size()));
  check_equal_on_all_ranks(communicator, "the tokenizer", hash_of(tokenizer.data(), tokenizer.size()));
  check_equal_on_all_ranks(communicator, "the digest of the corpus", corpus.digest());
}

}  // namespace ventris
