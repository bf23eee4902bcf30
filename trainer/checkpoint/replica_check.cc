// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/replica_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "backend/ops/bit_digest.h"
#include "comm/affinity.h"
#include "comm/communicator.h"

namespace ventris {
namespace {

size_t bytes_of_range(ConstTensor range) {
  return static_cast<size_t>(range.size()) * size_of(range.dtype);
}

/// The digest of every part, computed by the device; the host receives them in one copy.
std::vector<std::string> digests_of(Context& context, const std::vector<Replica>& parts) {
  std::vector<uint64_t> words(2 * parts.size());
  const size_t bytes = words.size() * sizeof(uint64_t);
  context.reserve_scratch(bytes);
  const ArenaScope scope(context.scratch());
  uint64_t* const on_device = context.scratch().allocate_array<uint64_t>(std::ssize(words));
  for (size_t part = 0; part < parts.size(); ++part)
    bit_digest(context, {.x = parts[part].values, .result = on_device + 2 * part});
  copy_to_host(context, words.data(), on_device, bytes);
  std::vector<std::string> digests;
  for (size_t part = 0; part < parts.size(); ++part)
    digests.push_back(fmt::format("{:016x}{:016x}", words[2 * part], words[2 * part + 1]));
  return digests;
}

/// The digests of every part on all ranks.
struct Holdings {
  std::vector<std::string> hosts;                 // by rank
  std::vector<std::vector<std::string>> digests;  // by part, then by rank
};

Holdings gather(Context& context, Communicator& communicator, const std::vector<Replica>& parts) {
  std::string mine;  // one line a part
  for (const std::string& digest : digests_of(context, parts)) mine += digest + "\n";
  Holdings all;
  all.digests.resize(parts.size());
  for (const std::string& text : communicator.all_gather(mine + host_name())) {
    std::istringstream lines(text);
    for (std::vector<std::string>& of_part : all.digests) std::getline(lines, of_part.emplace_back());
    std::getline(lines, all.hosts.emplace_back());
  }
  return all;
}

using RanksByDigest = std::map<std::string, std::vector<int>>;

RanksByDigest ranks_by_digest(const std::vector<std::string>& digests) {
  RanksByDigest groups;
  for (size_t rank = 0; rank < digests.size(); ++rank)
    groups[digests[rank]].push_back(static_cast<int>(rank));
  return groups;
}

/// "rank 1 on a", "ranks 1 on a and 3 on b"
std::string text_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::vector<std::string> each;
  for (const int rank : ranks)
    each.push_back(fmt::format("{} on {}", rank, hosts[static_cast<size_t>(rank)]));
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(each, " and "));
}

/// How a part differs between ranks.
std::string difference_of(const RanksByDigest& groups, const Holdings& all, const std::string& name) {
  std::vector<int> majority;   // empty if no more than half of the ranks agree
  std::vector<int> differing;  // the others; all if there is no majority
  std::vector<std::string> holders;
  for (const auto& [digest, ranks] : groups) {
    if (2 * ranks.size() > all.hosts.size()) {
      majority = ranks;
    } else {
      differing.insert(differing.end(), ranks.begin(), ranks.end());
    }
    holders.push_back(fmt::format("{} with digest {}", text_of_ranks(ranks, all.hosts), digest));
  }
  std::sort(differing.begin(), differing.end());
  if (majority.empty())
    return fmt::format("no majority of ranks agrees on the {}: {}", name, fmt::join(holders, ", "));
  return fmt::format("{} {} other {} than the majority, {}", text_of_ranks(differing, all.hosts),
                     differing.size() == 1 ? "holds" : "hold", name, text_of_ranks(majority, all.hosts));
}

}  // namespace

void check_replicas(Context& context, Communicator& communicator, int64_t step,
                    const std::vector<Replica>& parts) {
  if (communicator.size() == 1) return;
  const Holdings all = gather(context, communicator, parts);
  std::vector<std::string> texts;
  for (size_t part = 0; part < parts.size(); ++part) {
    const RanksByDigest groups = ranks_by_digest(all.digests[part]);
    if (groups.size() > 1) texts.push_back(difference_of(groups, all, parts[part].name));
  }
  if (texts.empty()) return;
  fail(ExitCode::kRanksDisagree,
       "after step {} the ranks hold different bits: {}. The memory or the arithmetic of a machine "
       "is faulty, or the ranks run on different processors. Saved checkpoints are of steps at which all "
       "ranks agreed; the same command, without the faulty machine, resumes from the newest",
       step, fmt::join(texts, "; "));
}

void copy_from_rank(Context& context, Communicator& communicator, int root, Tensor range) {
  if (communicator.size() == 1) return;
  VENTRIS_CHECK(range.contiguous(), "a range of rows {} apart is copied", range.stride);
  constexpr size_t kPiece = size_t{64} << 20;
  const bool sends = communicator.rank() == root;
  char* data = static_cast<char*>(range.data);
  std::string mine;
  const size_t bytes = bytes_of_range(range);
  for (size_t begin = 0; begin < bytes; begin += kPiece) {
    const size_t count = std::min(kPiece, bytes - begin);
    mine.resize(sends ? count : 0);
    copy_to_host(context, mine.data(), data + begin, mine.size());
    const std::string piece = communicator.broadcast(mine, root);
    VENTRIS_CHECK(piece.size() == count, "rank {} sent {} bytes, not {}", root, piece.size(), count);
    if (!sends) copy_to_device(context, data + begin, piece.data(), count);
  }
}

}  // namespace ventris
