// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/nccl_channels.h"

/// The work of the ranks of an emulated communicator, through shared memory.
namespace ventris::emulation {

inline constexpr size_t kNcclSlotBytes = size_t{64} << 10;

enum class NcclCollective { kAllReduce, kReduceScatter, kAllGather };

/// What a rank asks of a collective, all ranks the same.
struct NcclAsked {
  NcclCollective collective;
  size_t count;
  ncclDataType_t type;
  bool captured;  // as part of a graph
};

/// What the ranks of a communicator share: a file in shared memory, zero at first.
struct NcclShared {
  std::atomic<int> joined;                      // ranks that came
  std::atomic<int> aborted;                     // 1 + a rank that left
  std::atomic<uint64_t> arrivals;               // of all ranks at all meetings
  std::atomic<uint64_t> begun[kMaxNcclRanks];   // sums that a rank has begun
  NcclAsked asked[kMaxNcclRanks];               // of the sum that a rank has begun
  std::atomic<bool> exchanging[kMaxNcclRanks];  // a rank waits for messages, or for room for its own
  char devices[kMaxNcclRanks][256];
  NcclChannels channels;
  alignas(64) char slots[kMaxNcclRanks][kNcclSlotBytes];
};

/// A communicator as one rank has it.
struct NcclRank {
  NcclShared* shared = nullptr;
  std::string name;  // of the file
  int rank = 0;
  int ranks = 0;
  uint64_t failing_sum = 0;
  uint64_t hanging_sum = 0;
  std::atomic<uint64_t> begun = 0;
  uint64_t meetings = 0;
  std::atomic<bool> aborted = false;
  std::atomic<bool> stopping = false;
  std::atomic<bool> launching = false;  // work that was asked for is not in its stream yet
  uint64_t launches = 0;
  std::thread launcher;
  std::atomic<ncclResult_t> error = ncclInProgress;
  std::thread server;  // does sums that other ranks have begun

  ~NcclRank() {
    if (shared != nullptr) munmap(shared, sizeof(NcclShared));
  }
};

/// Null if it cannot be opened.
NcclShared* open_nccl_shared(const std::string& name, int flags);
/// Begins the next collective; false if this rank gave up.
bool begin_collective(NcclRank& c, const NcclAsked& asked);
/// Sums `count` numbers of all ranks.
bool sum(NcclRank& c, const void* from, void* to, size_t count, ncclDataType_t type);
/// Of `count` numbers for each rank, in `bytes` bytes.
void reduce_scatter(NcclRank& c, const char* from, void* to, size_t count, ncclDataType_t type, size_t bytes);
void all_gather(NcclRank& c, const char* from, char* to, size_t bytes);
void exchange(NcclRank& c, const std::vector<NcclMessage>& sends, const std::vector<NcclMessage>& receives,
              bool captured);
/// Does what other ranks have begun, until the communicator stops.
void serve(NcclRank& c);

}  // namespace ventris::emulation
