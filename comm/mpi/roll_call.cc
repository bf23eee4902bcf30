// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/roll_call.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/guard.h"
#include "comm/mpi/check_mpi.h"

namespace ventris {
namespace {

using namespace std::chrono_literals;

constexpr int kTag = 1;
constexpr auto kListening = 2s;
constexpr size_t kMaxNamedRanks = 8;

}  // namespace

bool RollCall::called() const {
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return found != 0;
}

std::vector<bool> RollCall::call() const {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  std::vector<bool> present(static_cast<size_t>(size), false);
  present[static_cast<size_t>(rank)] = true;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;  // not waited for: a stopped rank never receives the message
    // To a rank that is gone it may fail: that one is absent.
    if (MPI_Isend(nullptr, 0, MPI_CHAR, other, kTag, comm_, &request) != MPI_SUCCESS) continue;
    check_mpi(MPI_Request_free(&request), "MPI_Request_free");
  }
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < kListening) {
    int found = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, &status), "MPI_Iprobe");
    if (found == 0) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    check_mpi(MPI_Recv(nullptr, 0, MPI_CHAR, status.MPI_SOURCE, kTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    present[static_cast<size_t>(status.MPI_SOURCE)] = true;
    if (std::count(present.begin(), present.end(), false) == 0) break;
  }
  return present;
}

std::string describe_missing_ranks(const std::vector<bool>& present, const std::vector<RankPlace>& places,
                                   int mine) {
  const std::string& here = places[static_cast<size_t>(mine)].host;
  std::vector<std::string> names;
  for (size_t rank = 0; rank < present.size(); ++rank) {
    if (present[rank]) continue;
    const RankPlace& place = places[rank];
    const std::string state = place.host == here ? state_of_process(place.pid) : "";
    names.push_back(
        fmt::format("{} on {} (pid {}{})", rank, place.host, place.pid, state.empty() ? "" : ", " + state));
  }
  if (names.empty()) return "";
  std::string text = names.size() == 1 ? "rank " : "ranks ";
  const size_t named = std::min(names.size(), kMaxNamedRanks);
  for (size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  return text + ", which did not arrive";
}

}  // namespace ventris
