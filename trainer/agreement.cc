#include "trainer/agreement.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/transfer.h"
#include "comm/communicator.h"
#include "data/corpus.h"
#include "trainer/config_json.h"

namespace ventris {
namespace {

std::string hash_of(const void* data, size_t bytes) {
  return fmt::format("{:016x}", XXH3_64bits(data, bytes));
}

}  // namespace

void check_same_run_on_all_ranks(Communicator& communicator, const TrainOptions& options,
                                 const data::Corpus& corpus) {
  static const std::set<std::string> kMayDiffer = {"/corpus", "/model_dir", "/threads"};
  const nlohmann::json flat = nlohmann::json::parse(to_json(options)).flatten();
  std::string keys;
  for (const auto& item : flat.items()) keys += item.key() + " ";
  check_equal_on_all_ranks(communicator, "the names of the options (is it the same program?)", keys);
  for (const auto& item : flat.items()) {
    if (kMayDiffer.contains(item.key())) continue;
    check_equal_on_all_ranks(communicator, "option " + item.key().substr(1), item.value().dump());
  }
  const std::string& tokenizer = corpus.tokenizer().model();
  check_equal_on_all_ranks(communicator, "the vocabulary size",
                           std::to_string(corpus.tokenizer().vocab_size()));
  check_equal_on_all_ranks(communicator, "the tokenizer", hash_of(tokenizer.data(), tokenizer.size()));
  check_equal_on_all_ranks(communicator, "the digest of the corpus", corpus.digest());
}

void check_same_bits_on_all_ranks(Context& context, Communicator& communicator, const std::string& what,
                                  ConstTensor range) {
  if (communicator.size() == 1) return;
  const HostCopy host(context, range);
  const size_t bytes = static_cast<size_t>(range.size()) * size_of(range.dtype);
  check_equal_on_all_ranks(communicator, what, hash_of(host.view().data, bytes));
}

void copy_from_first_rank(Context& context, Communicator& communicator, Tensor range) {
  if (communicator.size() == 1) return;
  constexpr size_t kPiece = size_t{64} << 20;
  char* data = static_cast<char*>(range.data);
  std::string mine;
  const size_t bytes = static_cast<size_t>(range.size()) * size_of(range.dtype);
  for (size_t begin = 0; begin < bytes; begin += kPiece) {
    const size_t count = std::min(kPiece, bytes - begin);
    const bool first = communicator.rank() == 0;
    mine.resize(first ? count : 0);
    copy_to_host(context, mine.data(), data + begin, mine.size());
    const std::string piece = communicator.broadcast(mine, 0);
    VENTRIS_CHECK(piece.size() == count, "rank 0 sent {} bytes, not {}", piece.size(), count);
    if (!first) copy_to_device(context, data + begin, piece.data(), count);
  }
}

}  // namespace ventris
