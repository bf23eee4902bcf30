// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor_facts.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/context.h"
#include "backend/device.h"
#include "backend/error.h"
#include "comm/affinity.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "comm/nccl_library.h"
#include "comm/rank_device.h"
#include "data/files/json_text.h"
#include "trainer/checks/doctor_trials.h"
#include "trainer/files/json_text.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

int64_t limit_of(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
}

/// Mbit/s of an Ethernet device, or 0. Queried from the kernel, as /sys shows the devices of the network
/// namespace in which it was mounted.
double ethernet_speed(int socket, const char* name) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return 0.0;
  const uint32_t speed = ethtool_cmd_speed(&command);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0.0 : speed;
}

/// Bytes a second of the fastest network device that is up; 0 if unknown.
double link_rate() {
  double fastest = 0.0;  // Mbit/s
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifaddrs* devices = nullptr;
  if (socket >= 0 && getifaddrs(&devices) == 0) {
    for (const ifaddrs* device = devices; device != nullptr; device = device->ifa_next) {
      const bool up = (device->ifa_flags & IFF_RUNNING) != 0 && (device->ifa_flags & IFF_LOOPBACK) == 0;
      if (up) fastest = std::max(fastest, ethernet_speed(socket, device->ifa_name));
    }
    freeifaddrs(devices);
  }
  if (socket >= 0) ::close(socket);
  std::error_code error;
  for (const fs::directory_entry& device : fs::directory_iterator("/sys/class/infiniband", error)) {
    std::error_code none;
    for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", none)) {
      double gigabits = 0.0;  // "100 Gb/sec (4X EDR)"
      if (std::ifstream(port.path() / "rate") >> gigabits) fastest = std::max(fastest, 1e3 * gigabits);
    }
  }
  return fastest * 1e6 / 8.0;
}

/// The driver's version and that of CUDA, or "" without a driver.
std::string driver_text() {
  const std::string cuda = cuda_driver();
  if (cuda.empty()) return "";
  std::string version;  // missing where /sys is that of another machine
  if (std::ifstream("/sys/module/nvidia/version") >> version) version += " ";
  return fmt::format("{}for CUDA {}", version, cuda);
}

void look_at_links(int device, RankFacts& facts) {
  facts.identity = cuda_device_identity(device);
  for (int other = 0; other < cuda_device_count(); ++other) {
    facts.seen_devices.push_back(cuda_device_identity(other));
    if (other != device && cuda_reaches(device, other))
      facts.reached_devices.push_back(facts.seen_devices.back());
  }
}

/// The device on which this rank would compute; the CPU if CUDA does not work.
ContextOptions look_at_device(Communicator& communicator, const MpiEnvironment& environment,
                              const std::string& device, RankFacts& facts) {
  facts.cuda = cuda_build();
  facts.nccl = nccl_library();
  facts.driver = driver_text();
  ContextOptions options = {.threads = 1};
  if (device == "cpu") return options;
  const RankDevice found = find_rank_device(communicator, environment);
  facts.device_reason = found.reason;
  facts.gpu_evidence = found.evidence;
  if (!found.reason.empty()) return options;
  if (communicator.size() > 1) facts.nccl = loaded_nccl();
  facts.device = cuda_device_name(found.index);
  look_at_links(found.index, facts);
  options.device = Device::kCuda;
  options.device_index = found.index;
  return options;
}

/// The facts that a rank can find without the others.
void look_at_host(RankFacts& facts) {
  const std::vector<uint8_t> mask = affinity_mask();
  facts.cores = static_cast<int>(std::count(mask.begin(), mask.end(), 1));
  facts.host_cores = static_cast<int>(std::thread::hardware_concurrency());
  facts.root = geteuid() == 0;
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.locked_memory = limit_of(RLIMIT_MEMLOCK);
  facts.core_files = limit_of(RLIMIT_CORE);
  facts.file_size = limit_of(RLIMIT_FSIZE);
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0)
    facts.shared_memory_free = static_cast<int64_t>(shared.f_bavail) * static_cast<int64_t>(shared.f_frsize);
  facts.link_rate = link_rate();
}

/// Bytes a second of a copy in memory.
double copy_rate() {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  double best = 0.0;
  for (int round = 0; round < 3; ++round) {
    from[static_cast<size_t>(round)] = 3;
    const Clock::time_point begin = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (to[0] != from[0]) return 0.0;  // a use of the copy, so that it is not optimised away
    if (seconds > 0.0) best = std::max(best, static_cast<double>(kBytes) / seconds);
  }
  return best;
}

/// Offset of this rank's clock to that of rank 0. All ranks must call it.
void compare_clocks(Communicator& communicator, RankFacts& facts) {
  constexpr int kRounds = 3;
  const auto clock = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  // A message of one rank, and the time of rank 0 as the answer, taken about halfway.
  for (int rank = 1; rank < communicator.size(); ++rank) {
    for (int round = 0; round < kRounds; ++round) {
      communicator.barrier();
      const double asked = clock();
      static_cast<void>(communicator.broadcast("?", rank));
      const std::string answer = communicator.broadcast(fmt::format("{:.9f}", clock()), 0);
      const double answered = clock();
      const double error = (answered - asked) / 2.0;
      if (rank != communicator.rank() || (round > 0 && error >= facts.clock_error)) continue;
      facts.clock_error = error;
      facts.clock_ahead = (asked + answered) / 2.0 - std::stod(answer);
    }
  }
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, local_rank, local_size, cores, core_share, host_cores,
                                   program, mpi, thread_level, root, nccl, cuda, driver, device,
                                   device_reason, gpu_evidence, identity, seen_devices, reached_devices,
                                   open_files, locked_memory, core_files, file_size, shared_memory_free,
                                   clock_ahead, clock_error, copy_rate, link_rate, wrong_steps, step_error,
                                   sees_folder, folder_error, folder_lock_error, folder_free)

std::string to_json(const RankFacts& facts) {
  return json_text(nlohmann::json(facts));
}

RankFacts rank_facts_from_json(const std::string& json) {
  return data::read_json(json).get<RankFacts>();
}

DoctorFacts gather_doctor_facts(Communicator& communicator, const MpiEnvironment& environment,
                                const DoctorOptions& options, const std::string& program) {
  RankFacts own;
  own.host = environment.host();
  own.local_rank = environment.local_rank();
  own.local_size = environment.local_size();
  own.core_share = environment.core_share();
  own.program = program;
  own.mpi = mpi_library();
  own.thread_level = environment.thread_level();
  look_at_host(own);
  DoctorFacts facts{.device = options.device, .folder = options.folder};
  const ContextOptions device = look_at_device(communicator, environment, options.device, own);
  compare_clocks(communicator, own);
  communicator.barrier();
  own.copy_rate = copy_rate();
  if (device.device == Device::kCuda) try_steps(device, options.preset, own);
  if (!options.folder.empty()) facts.checkpoint_bytes = try_folder(communicator, options.folder, own);
  if (communicator.size() > 1) {
    Context context(device);
    facts.sums = try_sums(communicator, context);
  }
  for (const std::string& rank : communicator.all_gather(to_json(own)))
    facts.ranks.push_back(rank_facts_from_json(rank));
  facts.checkpoint_bytes = std::stoll(communicator.broadcast(std::to_string(facts.checkpoint_bytes), 0));
  return facts;
}

}  // namespace ventris
