// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_version_1.h"

#include <algorithm>
#include <limits>

#include "data/error.h"

namespace ventris::data {
namespace {

/// Checks that offsets increase from 0 to `end`; returns the longest piece.
int64_t check_offsets(std::span<const int64_t> offsets, size_t end, const std::string& path,
                      const std::string& name) {
  int64_t longest = 0;
  bool rising = !offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<int64_t>(end);
  for (size_t i = 1; rising && i < offsets.size(); ++i) {
    const int64_t length = offsets[i] - offsets[i - 1];
    rising = length >= 0 && length <= std::numeric_limits<int>::max();
    longest = std::max(longest, length);
  }
  if (!rising) {
    fail(ErrorKind::kBadData,
         "{}: {} does not rise from 0 to the {} elements that it divides. Prepare the corpus again.", path,
         name, end);
  }
  return longest;
}

SentenceArray side_of(const CorpusFile& file, const std::string& group, const TokenFormat& format) {
  const auto tokens = file.array<int32_t>(group + "/tokens");
  const auto offsets = file.array<int64_t>(group + "/offsets");
  const int64_t longest = check_offsets(offsets, tokens.size(), file.path(), group + "/offsets");
  const uint32_t vocab_size = format.vocab_size;
  const auto bad = std::find_if(tokens.begin(), tokens.end(),
                                [&](int32_t id) { return static_cast<uint32_t>(id) >= vocab_size; });
  if (bad != tokens.end()) {
    fail(ErrorKind::kBadData,
         "{}: token {} of {}/tokens is {}, but the vocabulary has {} tokens. Prepare the corpus again.",
         file.path(), bad - tokens.begin(), group, *bad, vocab_size);
  }
  return SentenceArray({.tokens = reinterpret_cast<const std::byte*>(tokens.data()),
                        .token_count = std::ssize(tokens),
                        .offsets = offsets.data(),
                        .count = std::ssize(offsets) - 1,
                        .total = std::ssize(tokens),
                        .longest = longest,
                        .format = &format});
}

SentencePairs pairs_at(const CorpusFile& file, const std::string& prefix) {
  SentencePairs pairs{side_of(file, prefix + "/source", file.source),
                      side_of(file, prefix + "/target", file.target)};
  if (pairs.source.size() != pairs.target.size()) {
    fail(ErrorKind::kBadData, "{}: {}/source has {} sentences, {}/target has {}. Prepare the corpus again.",
         file.path(), prefix, pairs.source.size(), prefix, pairs.target.size());
  }
  return pairs;
}

int longest_sentence(const SentencePairs& pairs) {
  return static_cast<int>(std::max(pairs.source.stored().longest, pairs.target.stored().longest));
}

}  // namespace

CorpusArrays corpus_arrays_1(const CorpusFile& file) {
  CorpusArrays arrays;
  arrays.train = pairs_at(file, "");
  arrays.parts = {part_of(arrays.train, "train")};
  const SentencePairs valid = pairs_at(file, "/valid");
  const StoredText references = file.text("/valid/reference_text", "/valid/reference_offsets");
  arrays.max_length = std::max(longest_sentence(arrays.train), longest_sentence(valid));
  check_offsets(references.offsets, references.bytes.size(), file.path(), "/valid/reference_offsets");
  if (references.size() != valid.size()) {
    fail(ErrorKind::kBadData, "{}: {} validation pairs, but {} references. Prepare the corpus again.",
         file.path(), valid.size(), references.size());
  }
  arrays.valid_sets = {{.part = part_of(valid, kUnnamedValidSet), .pairs = valid, .references = references}};
  return arrays;
}

}  // namespace ventris::data
