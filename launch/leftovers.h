#pragma once

#include <string>
#include <vector>

namespace ventris {

/// Removes what jobs of Open MPI left on this host when they were killed: segments of shared memory
/// (/dev/shm/vader_segment.*) that no process maps, and session folders (ompi.HOST.UID/pid.N in the folder
/// for temporary files) of launchers that are gone. Only what belongs to this user; what another user's
/// processes may map stays. Takes a tenth of a second where there is something, as a segment is looked at
/// twice: a job that starts makes it a moment before it maps it. Returns the paths that were removed.
std::vector<std::string> remove_leftovers_of_jobs();

}  // namespace ventris
