// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/nccl_channels.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ventris::emulation {
namespace {

/// Drops the first bytes of a message.
void advance(NcclMessage& message, size_t bytes) {
  message.data += bytes;
  message.bytes -= bytes;
}

bool send_piece(NcclChannel& channel, NcclMessage& message, bool captured) {
  if (channel.taken.load() != channel.sent.load()) return false;
  channel.bytes = std::min(message.bytes, sizeof(channel.data));
  channel.captured = captured;
  std::memcpy(channel.data, message.data, channel.bytes);
  advance(message, channel.bytes);
  channel.sent.fetch_add(1);
  return true;
}

bool take_piece(NcclChannel& channel, NcclMessage& message) {
  if (channel.taken.load() == channel.sent.load()) return false;
  const size_t bytes = std::min(message.bytes, channel.bytes);
  std::memcpy(message.data, channel.data, bytes);
  advance(message, bytes);
  channel.taken.fetch_add(1);
  return true;
}

void drop_done(std::vector<NcclMessage>& messages) {
  std::erase_if(messages, [](const NcclMessage& message) { return message.bytes == 0; });
}

/// Calls move(message) for the first message of each peer that is not done; true if any was moved.
template <typename Move>
bool move_firsts(std::vector<NcclMessage>& messages, Move&& move) {
  std::array<bool, kMaxNcclRanks> seen = {};
  bool moved = false;
  for (NcclMessage& message : messages) {
    bool& peer_seen = seen[static_cast<size_t>(message.peer)];
    if (!peer_seen) moved = move(message) || moved;
    peer_seen = true;
  }
  drop_done(messages);
  return moved;
}

}  // namespace

NcclExchangeEnd exchange(NcclChannels& channels, int rank, std::vector<NcclMessage> sends,
                         std::vector<NcclMessage> receives, bool captured,
                         const std::function<bool()>& keep_waiting) {
  drop_done(sends);
  drop_done(receives);
  bool mixed = false;
  while (!sends.empty() || !receives.empty()) {
    const bool sent = move_firsts(sends, [&](NcclMessage& message) {
      return send_piece(channels[rank][message.peer], message, captured);
    });
    const bool taken = move_firsts(receives, [&](NcclMessage& message) {
      NcclChannel& channel = channels[message.peer][rank];
      const bool took = take_piece(channel, message);
      mixed = mixed || (took && channel.captured != captured);
      return took;
    });
    if (mixed) return NcclExchangeEnd::kMixedCapture;
    if (!sent && !taken && !keep_waiting()) return NcclExchangeEnd::kGivenUp;
  }
  return NcclExchangeEnd::kDone;
}

}  // namespace ventris::emulation
