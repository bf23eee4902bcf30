#pragma once

#include <string>

namespace ventris {

class Communicator;
class MpiEnvironment;

/// The CUDA device of a rank.
struct RankDevice {
  int index = 0;
  /// Why the job cannot compute on CUDA, the same text on every rank, or "" where every rank has a device of
  /// its own that works. Names the first rank and host that cannot, or the ranks that would share a device.
  std::string reason;
};

/// The ranks of a host take its devices in turn, the first rank the first device; so it does not matter
/// whether all ranks see all devices or CUDA_VISIBLE_DEVICES leaves each its own. All ranks call it.
RankDevice find_rank_device(Communicator& control, const MpiEnvironment& environment);

/// "" where the CUDA devices with which the ranks call this are different ones, else a text that names the
/// first two ranks that share one, and the device. Ranks with different values of the environment variable
/// NCCL_HOSTID are meant to look like several hosts, also to NCCL, and may share. All ranks call it.
std::string shared_device(Communicator& control, int index);

}  // namespace ventris
