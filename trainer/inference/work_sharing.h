// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backend/device/device.h"
#include "model/search/beam_search.h"

namespace ventris {

class Communicator;

/// Sentences, by index, that are computed together.
struct Chunk {
  std::vector<size_t> sentences = {};
  int64_t rows = 0;
  double cost = 0.0;
};

struct ChunkLimits {
  int64_t rows = 2048;    // unless one sentence has more
  int64_t sentences = 0;  // 0: no such limit
  /// A chunk has at most 1 / `pieces` of the remaining rows: so chunks become smaller towards the end, and
  /// can be distributed evenly.
  int64_t pieces = 1;
};

/// The value of `pieces`. On the CPU results do not depend on the chunks, and several ranks get more and
/// smaller ones. Otherwise they may, and the chunks are the same for any number of ranks.
int64_t pieces_for(Device device, int ranks);

/// Groups sentences of `rows` rows each into chunks of similar length, the longest first. Sentences without
/// rows are omitted.
std::vector<Chunk> cut_into_chunks(const std::vector<int64_t>& rows, const ChunkLimits& limits);

/// The rank of each chunk: the costliest first, each to the rank with the least work so far.
std::vector<int> deal_by_cost(const std::vector<Chunk>& chunks, int ranks);

/// The chunks of cut_into_chunks() that deal_by_cost() gives to this rank.
std::vector<Chunk> chunks_of_this_rank(const Communicator& communicator, const std::vector<int64_t>& rows,
                                       const ChunkLimits& limits);

/// Returns on every rank the numbers of all sentences. At most one rank has numbers for a sentence; `mine` of
/// the others is empty there. All ranks must call it.
std::vector<std::vector<double>> gather_numbers(Communicator& communicator,
                                                const std::vector<std::vector<double>>& mine);

/// Translates sentences on all ranks (sorted by length for speed, distributed to ranks by cost) and returns
/// the hypotheses of every sentence, on every rank, in order; results do not depend on the number of ranks.
/// If `abandon` is given and returns true before a batch of sentences on some rank, there is no result on any
/// rank.
std::optional<std::vector<std::vector<Hypothesis>>> translate_on_all_ranks(
    Communicator& communicator, BeamSearch& search, const std::vector<SourceSentence>& sources,
    const std::function<bool()>& abandon = {});

}  // namespace ventris
