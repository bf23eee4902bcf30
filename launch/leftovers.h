// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ventris {

/// Removes the remains of killed jobs of Open MPI on this host: segments of shared memory
/// (/dev/shm/vader_segment.*) that no process maps, and session folders (ompi.HOST.UID/pid.N in the folder
/// for temporary files) of launchers that are gone. Only those of this user; segments that another user's
/// processes may map are kept. Takes a tenth of a second if there are segments, as each is checked twice: a
/// starting job creates it a moment before mapping it. Returns the removed paths.
std::vector<std::string> remove_leftovers_of_jobs();

}  // namespace ventris
