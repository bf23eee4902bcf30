// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "comm/affinity.h"
#include "comm/communicator.h"
#include "comm/guard.h"
#include "comm/mpi_environment.h"

namespace ventris {

MpiEnvironment::MpiEnvironment(int*, char***, const MpiLimits&)
    : core_share_(ventris::core_share({affinity_mask()}, 0)), host_(host_name()) {}

MpiEnvironment::~MpiEnvironment() = default;

std::string mpi_library() {
  return "no (built with VENTRIS_MPI=OFF; one process only)";
}

std::unique_ptr<Guard> MpiEnvironment::guard(const char*) const {
  return nullptr;
}

void MpiEnvironment::abort(int code) const {
  std::_Exit(code);
}

std::unique_ptr<Communicator> make_communicator(const MpiEnvironment&) {
  return make_self_communicator();
}

}  // namespace ventris
