// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ventris::emulation {

inline constexpr int kMaxNcclRanks = 16;

/// The way from one rank to another in shared memory, zero at first: messages pass in pieces.
struct NcclChannel {
  std::atomic<uint64_t> sent;   // pieces
  std::atomic<uint64_t> taken;  // pieces
  size_t bytes;                 // of the piece
  bool captured;                // whether it is sent by part of a graph
  alignas(64) char data[size_t{16} << 10];
};
using NcclChannels = NcclChannel[kMaxNcclRanks][kMaxNcclRanks];  // from, to

struct NcclMessage {
  int peer;
  char* data;
  size_t bytes;
};

enum class NcclExchangeEnd { kDone, kGivenUp, kMixedCapture };

/// Sends and receives at the same time, the messages between two ranks in their order. `keep_waiting` is
/// asked while nothing can be moved.
NcclExchangeEnd exchange(NcclChannels& channels, int rank, std::vector<NcclMessage> sends,
                         std::vector<NcclMessage> receives, bool captured,
                         const std::function<bool()>& keep_waiting);

}  // namespace ventris::emulation
