// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_tree_sum.h"

#include <limits>

#include "backend/device/error.h"
#include "comm/mpi/check_mpi.h"

namespace ventris {
namespace {

int bytes_of(const Tensor& data) {
  const int64_t bytes = data.size() * static_cast<int64_t>(size_of(data.dtype));
  VENTRIS_CHECK(bytes <= std::numeric_limits<int>::max(), "a message of {} bytes is too long for MPI", bytes);
  return static_cast<int>(bytes);
}

}  // namespace

void start_messages(const TreeMessages& messages, int tag, MPI_Comm comm,
                    std::vector<MPI_Request>& requests) {
  for (const auto& [peer, data] : messages.receives) {
    requests.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(data.data, bytes_of(data), MPI_BYTE, peer, tag, comm, &requests.back()), "MPI_Irecv");
  }
  for (const auto& [peer, data] : messages.sends) {
    requests.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(data.data, bytes_of(data), MPI_BYTE, peer, tag, comm, &requests.back()), "MPI_Isend");
  }
}

MpiTreeSum::MpiTreeSum(MPI_Comm comm, const TreeSum& sum, int tag) : comm_(comm), sum_(sum), tag_(tag) {
  start_round(0);
}

void MpiTreeSum::start_round(int round) {
  round_ = round;
  requests_.clear();
  if (round < kTreeRounds) start_messages(messages_of_round(sum_, round), tag_, comm_, requests_);
}

bool MpiTreeSum::test() {
  while (round_ < kTreeRounds) {
    int arrived = 0;
    check_mpi(
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &arrived, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    if (arrived == 0) return false;
    const AddArgs args = round_ == 0 ? additions_of_segment(sum_) : AddArgs{};
    if (!args.steps.empty()) add(*sum_.context, args);
    start_round(round_ + 1);
  }
  return true;
}

}  // namespace ventris
