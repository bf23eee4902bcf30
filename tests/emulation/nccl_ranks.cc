// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/nccl_ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

#include "backend/device/dtype.h"
#include "tests/emulation/controls.h"

namespace ventris::emulation {
namespace {

void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void fail_with(NcclRank& c, ncclResult_t error) {
  c.error = error;
  while (!c.aborted) nap();
}

/// Ends when all ranks came to the same meeting; false if this rank gave up instead.
bool meet(NcclRank& c) {
  const uint64_t all = ++c.meetings * static_cast<uint64_t>(c.ranks);
  c.shared->arrivals.fetch_add(1);
  while (c.shared->arrivals.load() < all) {
    if (c.aborted) return false;
    if (c.shared->aborted != 0) c.error = ncclRemoteError;
    nap();
  }
  return !c.aborted;
}

template <typename T>
T plus(T a, T b) {
  return a + b;
}
template <>
BF16 plus(BF16 a, BF16 b) {
  return BF16(static_cast<float>(a) + static_cast<float>(b));
}

/// Shows all ranks this rank's next numbers; false if it gave up. They lie there until finish_piece().
bool show_piece(NcclRank& c, const void* data, size_t bytes) {
  std::memcpy(c.shared->slots[c.rank], data, bytes);
  if (!meet(c)) return false;
  const NcclAsked& own = c.shared->asked[c.rank];
  for (int r = 0; r < c.ranks; ++r) {
    const NcclAsked& other = c.shared->asked[r];
    const bool same =
        other.collective == own.collective && other.count == own.count && other.type == own.type;
    if (same && other.captured == own.captured) continue;
    fail_with(c, same ? ncclInternalError : ncclInvalidArgument);
    return false;
  }
  return true;
}

bool finish_piece(NcclRank& c) {
  return meet(c);
}

/// Sums `count` numbers of all ranks, the result for this rank if `to` is not null; false if it gave up.
template <typename T>
bool sum(NcclRank& c, const void* from, void* to, size_t count) {
  constexpr size_t kSlot = kNcclSlotBytes / sizeof(T);
  for (size_t first = 0; first < count; first += kSlot) {
    const size_t size = std::min(kSlot, count - first);
    if (!show_piece(c, static_cast<const T*>(from) + first, size * sizeof(T))) return false;
    for (size_t i = 0; i < size && to != nullptr; ++i) {
      T total = reinterpret_cast<const T*>(c.shared->slots[0])[i];
      for (int r = 1; r < c.ranks; ++r)
        total = plus(total, reinterpret_cast<const T*>(c.shared->slots[r])[i]);
      static_cast<T*>(to)[first + i] = total;
    }
    if (!finish_piece(c)) return false;
  }
  return true;
}

}  // namespace

NcclShared* open_nccl_shared(const std::string& name, int flags) {
  const int fd = shm_open(name.c_str(), O_RDWR | flags, 0600);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  if ((flags & O_CREAT) == 0 || ftruncate(fd, sizeof(NcclShared)) == 0)
    memory = mmap(nullptr, sizeof(NcclShared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<NcclShared*>(memory);
}

bool begin_collective(NcclRank& c, const NcclAsked& asked) {
  if (c.aborted) return false;
  if (c.begun + 1 == c.hanging_sum) raise(SIGSTOP);
  c.shared->asked[c.rank] = asked;
  c.shared->begun[c.rank] = ++c.begun;
  if (c.begun == c.failing_sum) {
    fail_with(c, ncclSystemError);
    return false;
  }
  return true;
}

bool sum(NcclRank& c, const void* from, void* to, size_t count, ncclDataType_t type) {
  return type == ncclFloat32    ? sum<float>(c, from, to, count)
         : type == ncclBfloat16 ? sum<BF16>(c, from, to, count)
                                : sum<double>(c, from, to, count);
}

void reduce_scatter(NcclRank& c, const char* from, void* to, size_t count, ncclDataType_t type,
                    size_t bytes) {
  for (int r = 0; r < c.ranks; ++r) {
    if (!sum(c, from + static_cast<size_t>(r) * bytes, r == c.rank ? to : nullptr, count, type)) return;
  }
}

void all_gather(NcclRank& c, const char* from, char* to, size_t bytes) {
  for (size_t first = 0; first < bytes; first += kNcclSlotBytes) {
    const size_t size = std::min(kNcclSlotBytes, bytes - first);
    if (!show_piece(c, from + first, size)) return;
    for (int r = 0; r < c.ranks; ++r)
      std::memcpy(to + static_cast<size_t>(r) * bytes + first, c.shared->slots[r], size);
    if (!finish_piece(c)) return;
  }
}

void exchange(NcclRank& c, const std::vector<NcclMessage>& sends, const std::vector<NcclMessage>& receives,
              bool captured) {
  if (c.aborted) return;
  c.shared->exchanging[c.rank] = true;
  const NcclExchangeEnd end = exchange(c.shared->channels, c.rank, sends, receives, captured, [&c] {
    if (c.shared->aborted != 0) c.error = ncclRemoteError;
    nap();
    return !c.aborted;
  });
  c.shared->exchanging[c.rank] = false;
  if (end == NcclExchangeEnd::kMixedCapture) fail_with(c, ncclInternalError);
}

void serve(NcclRank& c) {
  const auto wanted = [&c] {
    if (c.stopping || c.aborted) return false;
    for (int r = 0; r < c.ranks; ++r) {
      if (c.shared->begun[r] > c.begun || (r != c.rank && c.shared->exchanging[r])) return true;
    }
    return false;
  };
  while (!c.stopping) {
    if (wanted()) run_while(wanted);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace ventris::emulation
