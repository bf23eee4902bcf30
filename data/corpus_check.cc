// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_check.h"

#include <algorithm>
#include <mutex>

#include "data/error.h"
#include "data/files/parallel_pieces.h"

namespace ventris::data {
namespace {

constexpr int64_t kPiece = int64_t{1} << 16;  // pairs

struct SideCount {
  int64_t tokens = 0;
  int longest = 0;

  void add(const TokenView& sentence) {
    for ([[maybe_unused]] const int32_t id : sentence) ++tokens;  // reading an id checks it
    longest = std::max(longest, static_cast<int>(sentence.size()));
  }
  void add(const SideCount& other) {
    tokens += other.tokens;
    longest = std::max(longest, other.longest);
  }
};

}  // namespace

void check_part(const SentencePairs& pairs, const CorpusPart& part, const std::string& path, int threads) {
  SideCount source;
  SideCount target;
  std::mutex mutex;
  for_pieces((part.pairs + kPiece - 1) / kPiece, threads, [&](int64_t piece) {
    SideCount of_source;
    SideCount of_target;
    const int64_t end = std::min(part.first + part.pairs, part.first + (piece + 1) * kPiece);
    for (int64_t pair = part.first + piece * kPiece; pair < end; ++pair) {
      of_source.add(pairs.source[pair]);
      of_target.add(pairs.target[pair]);
      static_cast<void>(pairs.weight(pair));
    }
    const std::lock_guard lock(mutex);
    source.add(of_source);
    target.add(of_target);
  });
  const auto check = [&](const char* side, const SideCount& found, int64_t tokens, int longest) {
    if (found.tokens == tokens && found.longest == longest) return;
    fail(ErrorKind::kBadData,
         "{}: the {} of {} has {} tokens and at most {} a sentence, but {} and {} are recorded. "
         "Prepare the corpus again.",
         path, side, part.name, found.tokens, found.longest, tokens, longest);
  };
  check("source", source, part.source_tokens, part.longest_source);
  check("target", target, part.target_tokens, part.longest_target);
}

}  // namespace ventris::data
