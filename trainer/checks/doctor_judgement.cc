// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor_judgement.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "trainer/text.h"

namespace ventris {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMinSharedMemory = 8 * kMiB;  // of a rank: Open MPI's queues of messages
constexpr int64_t kFewFiles = 1024;
constexpr int64_t kLittleDisk = 1024 * kMiB;  // about a checkpoint of the base model
constexpr int kCoresOfGpuRank = 4;            // its main thread, the one that packs batches, NCCL's and MPI's
constexpr int kCheckpointsNeeded = 3;         // two good ones and the one being written
constexpr double kClockDifference = 1.0;      // seconds
// Expected rates of sums over the ranks, as fractions of the rate of the link between hosts, or on one host
// of that of a copy in memory, of which each byte takes several.
constexpr double kPartOfLink = 0.3;
constexpr double kPartOfCopy = 0.05;

std::string place(const DoctorFacts& facts, size_t rank) {
  return fmt::format("rank {} on {}", rank, facts.ranks[rank].host);
}

size_t hosts_of(const DoctorFacts& facts) {
  std::set<std::string> names;
  for (const RankFacts& rank : facts.ranks) names.insert(rank.host);
  return names.size();
}

/// The first rank for which a value differs from rank 0's, or 0.
template <typename Value>
size_t first_different(const DoctorFacts& facts, Value RankFacts::*value) {
  for (size_t rank = 1; rank < facts.ranks.size(); ++rank) {
    if (facts.ranks[rank].*value != facts.ranks[0].*value) return rank;
  }
  return 0;
}

/// A finding if a text differs between the ranks.
void compare(std::vector<Finding>& findings, const DoctorFacts& facts, std::string RankFacts::*value,
             Severity severity, const char* check, const char* what, const char* advice) {
  const size_t other = first_different(facts, value);
  if (other == 0) return;
  findings.push_back({severity, check,
                      fmt::format("{} differ: {} has \"{}\", rank 0 has \"{}\"", what, place(facts, other),
                                  facts.ranks[other].*value, facts.ranks[0].*value),
                      advice});
}

std::string disk_rate_text(double bytes_per_second) {
  return bytes_text(static_cast<int64_t>(bytes_per_second)) + "/s";
}

}  // namespace

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kProblem:
      return "problem";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
    case Severity::kFine:
      return "fine";
  }
  return "";
}

std::vector<Finding> judge_programs(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  const RankFacts& first = facts.ranks[0];
  compare(findings, facts, &RankFacts::program, Severity::kProblem, "program", "the programs",
          "install the same build of ventris on every host, at the same path");
  compare(findings, facts, &RankFacts::mpi, Severity::kProblem, "MPI", "the MPI libraries",
          "install the same MPI on every host");
  if (!findings.empty()) return findings;
  findings.push_back({Severity::kFine, "program", first.program, ""});
  findings.push_back({Severity::kFine, "MPI",
                      first.thread_level.empty()
                          ? fmt::format("{}, not active: one process without a launcher", first.mpi)
                          : fmt::format("{}, thread level {}", first.mpi, first.thread_level),
                      ""});
  if (first.root && first.thread_level.empty() && first.mpi.find("Open MPI") != std::string::npos) {
    findings.push_back(
        {Severity::kNote, "root", "Open MPI starts no ranks as root by default",
         "mpirun --allow-run-as-root, "
         "or OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 in the environment"});
  }
  return findings;
}

std::vector<Finding> judge_hosts(const DoctorFacts& facts) {
  std::map<std::string, std::set<int>> local_ranks;
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    const RankFacts& own = facts.ranks[rank];
    if (local_ranks[own.host].insert(own.local_rank).second) continue;
    return {{Severity::kProblem, "hosts",
             fmt::format("two hosts have the name {}: {} is not on the host of the rank before it", own.host,
                         place(facts, rank)),
             "give each host its own name (hostnamectl set-hostname); messages name hosts"}};
  }
  std::vector<Finding> findings;
  const auto [min, max] =
      std::minmax_element(local_ranks.begin(), local_ranks.end(),
                          [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (min->second.size() != max->second.size()) {
    findings.push_back({Severity::kWarning, "hosts",
                        fmt::format("{} has {} and {} has {}: every step waits for the slowest", max->first,
                                    counted(std::ssize(max->second), "rank"), min->first, min->second.size()),
                        "start the same number of ranks on each host: mpirun --map-by ppr:N:node"});
  } else {
    findings.push_back(
        {Severity::kFine, "hosts",
         counted(std::ssize(facts.ranks), "rank") + " on " + counted(std::ssize(local_ranks), "host"), ""});
  }
  return findings;
}

std::vector<Finding> judge_cores(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  std::vector<Finding> few;  // of ranks with GPUs, of which the first is told
  std::set<std::string> seen;
  int min = facts.ranks[0].core_share;
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    const RankFacts& own = facts.ranks[rank];
    min = std::min(min, own.core_share);
    if (!own.device.empty() && own.core_share < kCoresOfGpuRank) {
      few.push_back(
          {Severity::kWarning, "cores",
           fmt::format("{} has {}; a rank with a GPU needs {} or more", place(facts, rank),
                       counted(own.core_share, "core"), kCoresOfGpuRank),
           "batches are packed and kernels launched by these cores, and the GPU waits if they are late: "
           "mpirun --bind-to none, or --map-by ppr:N:node:PE=4; under Slurm --cpus-per-task"});
    }
    if (!seen.insert(own.host).second) continue;
    if (own.local_size > own.host_cores) {
      findings.push_back({Severity::kWarning, "cores",
                          fmt::format("{} has {} and {}", own.host, counted(own.local_size, "rank"),
                                      counted(own.host_cores, "core")),
                          "start at most as many ranks on a host as it has cores; "
                          "mpirun starts more only with --oversubscribe, and they are slow"});
    } else if (2 * own.core_share * own.local_size <= own.host_cores) {
      findings.push_back({Severity::kWarning, "cores",
                          fmt::format("the {} of {} may use {} each of its {}: most of the host is idle",
                                      counted(own.local_size, "rank"), own.host,
                                      counted(own.core_share, "core"), own.host_cores),
                          "mpirun --bind-to none, or --map-by slot:PE=N; under Slurm --cpus-per-task"});
    }
  }
  if (!few.empty()) {
    if (few.size() > 1) few.front().text += fmt::format(" ({} ranks have fewer)", few.size());
    findings.push_back(few.front());
  }
  const size_t other = first_different(facts, &RankFacts::core_share);
  if (other != 0 && !facts.ranks[0].device.empty()) {
    findings.push_back(
        {Severity::kWarning, "cores",
         fmt::format("the cores differ: {} has {}, {} has {}", place(facts, other),
                     facts.ranks[other].core_share, place(facts, 0), facts.ranks[0].core_share),
         "every step waits for the slowest rank; give each the same number of cores"});
  }
  if (findings.empty()) {
    const bool alone = facts.ranks[0].thread_level.empty();
    findings.push_back(
        {Severity::kFine, "cores",
         alone ? fmt::format("{}; mpirun starts more ranks than there are cores only with --oversubscribe",
                             counted(min, "core"))
               : fmt::format("{} or more for each rank", min),
         ""});
  }
  return findings;
}

std::vector<Finding> judge_devices(const DoctorFacts& facts) {
  const RankFacts& first = facts.ranks[0];
  if (facts.device == "cpu") return {{Severity::kFine, "device", "the CPU, as --device asks", ""}};
  std::vector<Finding> findings;
  compare(findings, facts, &RankFacts::nccl, Severity::kProblem, "NCCL", "the versions of NCCL",
          "install the same NCCL on every host");
  compare(findings, facts, &RankFacts::driver, Severity::kWarning, "driver", "the CUDA drivers",
          "install the same driver on every host");
  if (!first.device_reason.empty()) {
    const bool wanted = facts.device == "cuda";
    const bool built = first.cuda != "no";
    if (!wanted && !first.gpu_evidence.empty()) {
      return {{Severity::kProblem, "device",
               fmt::format("the job has GPUs ({}) and cannot use them: {}", first.gpu_evidence,
                           first.device_reason),
               "remove the named cause, or train with --device cpu"}};
    }
    findings.push_back({wanted  ? Severity::kProblem
                        : built ? Severity::kWarning
                                : Severity::kFine,
                        "device", wanted ? first.device_reason : "the CPU computes: " + first.device_reason,
                        wanted || built ? "remove the named cause, or train with --device cpu" : ""});
    return findings;
  }
  compare(findings, facts, &RankFacts::device, Severity::kWarning, "device", "the devices",
          "every step waits for the slowest device; use hosts of one kind");
  if (first_different(facts, &RankFacts::device) == 0)
    findings.push_back({Severity::kFine, "device",
                        fmt::format("{}, driver {}, NCCL {}", first.device, first.driver, first.nccl), ""});
  return findings;
}

std::vector<Finding> judge_links(const DoctorFacts& facts) {
  const auto has = [](const std::vector<std::string>& devices, const std::string& device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  };
  std::string apart;   // the first ranks of one host whose devices do not reach each other
  std::string unseen;  // likewise, of which neither sees the device of the other
  int64_t apart_pairs = 0;
  int64_t pairs = 0;
  for (size_t b = 1; b < facts.ranks.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      const RankFacts& one = facts.ranks[a];
      const RankFacts& two = facts.ranks[b];
      if (one.host != two.host || one.identity.empty() || one.identity == two.identity) continue;
      ++pairs;
      const std::string ranks = fmt::format("ranks {} and {} on {}", a, b, one.host);
      const bool sees = has(one.seen_devices, two.identity);
      const bool is_seen = has(two.seen_devices, one.identity);
      if (!sees && !is_seen && unseen.empty()) unseen = ranks;
      if ((!sees || has(one.reached_devices, two.identity)) &&
          (!is_seen || has(two.reached_devices, one.identity)))
        continue;
      if (apart_pairs++ == 0) apart = ranks;
    }
  }
  if (pairs == 0) return {};
  if (apart_pairs > 0) {
    return {
        {Severity::kWarning, "links",
         fmt::format("the GPUs of {} do not reach each other directly{}", apart,
                     apart_pairs == 1 ? "" : fmt::format(" ({} pairs in all)", apart_pairs)),
         "their sums pass the memory of the host; 'nvidia-smi topo -p2p r' shows the pairs, and virtual machines, "
         "an IOMMU or PCIe ACS may forbid them"}};
  }
  if (!unseen.empty()) {
    return {
        {Severity::kNote, "links",
         unseen + " see only their own GPUs: the links between them cannot be checked",
         "let every rank see the GPUs of its host (srun --gpu-bind=none): ventris gives each its own, and NCCL "
         "needs it for direct links where Slurm limits devices by cgroups; 'nvidia-smi topo -m' shows the links"}};
  }
  return {{Severity::kFine, "links",
           fmt::format("{}, all pairs on one host reach each other directly",
                       counted(std::ssize(facts.ranks), "GPU")),
           ""}};
}

std::vector<Finding> judge_steps(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  bool tried = false;
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    const RankFacts& own = facts.ranks[rank];
    tried = tried || !own.device.empty();
    if (!own.step_error.empty()) {
      findings.push_back({Severity::kProblem, "steps",
                          fmt::format("{} takes no training step: {}", place(facts, rank), own.step_error),
                          "remove the named cause, or train without this host"});
    }
    if (own.wrong_steps.empty()) continue;
    findings.push_back({Severity::kProblem, "steps",
                        fmt::format("{} computes wrongly: {}", place(facts, rank), own.wrong_steps[0]),
                        "do not train there: another device, driver or library shows which one is at fault"});
  }
  if (findings.empty() && tried) {
    findings.push_back({Severity::kFine, "steps",
                        "losses and gradients of two training steps in f32 and bf16 agree with the CPU's",
                        ""});
  }
  return findings;
}

std::vector<Finding> judge_sums(const DoctorFacts& facts) {
  const SumFacts& sums = facts.sums;
  if (facts.ranks.size() == 1) return {};
  if (!sums.error.empty()) {
    return {{Severity::kProblem, "sums", sums.error,
             "do not train here: the library or the network between the ranks is broken. "
             "Try another network (--mca btl_tcp_if_include DEVICE; NCCL_SOCKET_IFNAME) or another version"}};
  }
  const bool many_hosts = hosts_of(facts) > 1;
  double rate = many_hosts ? facts.ranks[0].link_rate : facts.ranks[0].copy_rate;
  for (const RankFacts& rank : facts.ranks)
    rate = std::min(rate, many_hosts ? rank.link_rate : rank.copy_rate);
  const double expected = rate * (many_hosts ? kPartOfLink : kPartOfCopy);
  const std::string measured = fmt::format("right; {} in and out of a rank, {:.0f} us for one number",
                                           disk_rate_text(sums.bandwidth), 1e6 * sums.latency);
  if (rate <= 0.0) {
    return {{Severity::kNote, "sums", measured + "; the rate of the link is unknown",
             "compare with the expected rate of the network"}};
  }
  const std::string expectation =
      fmt::format("at least {}, {:.0f}% of {} {}, is expected", disk_rate_text(expected),
                  100.0 * (many_hosts ? kPartOfLink : kPartOfCopy), disk_rate_text(rate),
                  many_hosts ? "of the slowest host's fastest link" : "of a copy in memory");
  if (sums.bandwidth < expected) {
    return {{Severity::kWarning, "sums", measured + "; " + expectation,
             many_hosts ? "MPI may use a slow network: "
                          "--mca btl_tcp_if_include DEVICE names the one to use (NCCL_SOCKET_IFNAME for GPUs)"
                        : "other programs may be using this machine, or ranks share cores"}};
  }
  return {{Severity::kFine, "sums", measured + "; " + expectation, ""}};
}

std::vector<Finding> judge_folder(const DoctorFacts& facts) {
  if (facts.folder.empty()) {
    return {{Severity::kNote, "folder", "not checked", "give --model-dir to check the run folder"}};
  }
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    if (facts.ranks[rank].folder_error.empty()) continue;
    return {
        {Severity::kProblem, "folder",
         fmt::format("{}: {}", place(facts, rank), facts.ranks[rank].folder_error),
         "checkpoints cannot be written; choose a writable folder, on a file system with fsync and rename"}};
  }
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    if (facts.ranks[rank].sees_folder) continue;
    return {{Severity::kProblem, "folder",
             fmt::format("{} does not see in {} what rank 0 on {} wrote there", place(facts, rank),
                         facts.folder, facts.ranks[0].host),
             "put --model-dir and the corpus on a file system that all hosts share, at one path"}};
  }
  const int64_t free = facts.ranks[0].folder_free;
  const int64_t wanted =
      facts.checkpoint_bytes > 0 ? kCheckpointsNeeded * facts.checkpoint_bytes : kLittleDisk;
  const std::string text =
      fmt::format("{} is one folder for all ranks; {} are free", facts.folder, bytes_text(free));
  if (free >= 0 && free < wanted) {
    return {facts.checkpoint_bytes > 0
                ? Finding{Severity::kProblem, "disk",
                          fmt::format("{}, and three checkpoints of {} need {}", text,
                                      bytes_text(facts.checkpoint_bytes), bytes_text(wanted)),
                          "free space, or use another --model-dir"}
                : Finding{Severity::kWarning, "disk", text,
                          "'ventris plan --model-dir' shows how much a run needs"}};
  }
  if (!facts.ranks[0].folder_lock_error.empty()) {
    return {{Severity::kWarning, "folder",
             fmt::format("{}; rename and fsync work, locks do not (flock: {})", text,
                         facts.ranks[0].folder_lock_error),
             "only a file that the run renews keeps out a second run, and after a kill the next start waits "
             "for 30 s; enable locks on the server of the file system (NFS: rpc.statd, no nolock)"}};
  }
  return {{Severity::kFine, "folder", text + "; rename, fsync and locks work", ""}};
}

std::vector<Finding> judge_limits(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::string> told;  // one finding of a kind
  const auto tell = [&](Severity severity, const char* check, const std::string& text, const char* advice) {
    if (told.insert(check).second) findings.push_back({severity, check, text, advice});
  };
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    const RankFacts& own = facts.ranks[rank];
    const std::string who = place(facts, rank);
    if (own.file_size >= 0) {
      const bool too_small = own.file_size < std::max<int64_t>(facts.checkpoint_bytes, kMiB);
      tell(too_small ? Severity::kProblem : Severity::kWarning, "file size",
           fmt::format("{} may write files of at most {}", who, bytes_text(own.file_size)),
           "ulimit -f unlimited: a checkpoint is one file");
    }
    if (own.open_files >= 0 && own.open_files < kFewFiles) {
      tell(Severity::kWarning, "open files", fmt::format("{} may open {} files", who, own.open_files),
           "ulimit -n 4096: MPI opens several for each rank");
    }
    if (own.shared_memory_free >= 0 && own.shared_memory_free < kMinSharedMemory * own.local_size) {
      const bool none = own.shared_memory_free < kMiB;
      tell(none && own.local_size > 1 ? Severity::kProblem : Severity::kWarning, "shared memory",
           fmt::format("/dev/shm of {} has {} left for {}", own.host, bytes_text(own.shared_memory_free),
                       counted(own.local_size, "rank")),
           "remove files left by killed jobs (ls /dev/shm), or make it larger (docker --shm-size)");
    }
    if (!own.device.empty() && own.locked_memory >= 0 && hosts_of(facts) > 1) {
      tell(Severity::kWarning, "locked memory",
           fmt::format("{} may lock {} of memory", who, bytes_text(own.locked_memory)),
           "ulimit -l unlimited: NCCL over InfiniBand fails without it");
    }
    if (own.core_files != 0) {
      tell(Severity::kNote, "core files", fmt::format("{} may write core files", who),
           "a rank that crashes writes its whole memory; ulimit -c 0 prevents it");
    }
  }
  if (findings.empty() || findings.back().severity == Severity::kNote)
    findings.push_back({Severity::kFine, "limits", "files, memory and /dev/shm are sufficient", ""});
  return findings;
}

std::vector<Finding> judge_clocks(const DoctorFacts& facts) {
  if (facts.ranks.size() == 1) return {};
  size_t worst = 0;
  const auto difference = [&](size_t rank) {
    return std::max(0.0, std::abs(facts.ranks[rank].clock_ahead) - facts.ranks[rank].clock_error);
  };
  for (size_t rank = 1; rank < facts.ranks.size(); ++rank) {
    if (difference(rank) > difference(worst)) worst = rank;
  }
  if (difference(worst) > kClockDifference) {
    const RankFacts& own = facts.ranks[worst];
    return {{Severity::kWarning, "clocks",
             fmt::format("the clock of {} is {:.1f} s {} that of rank 0", own.host, std::abs(own.clock_ahead),
                         own.clock_ahead > 0.0 ? "ahead of" : "behind"),
             "times in logs and of files are misleading; "
             "synchronise the hosts with one time server (chrony, NTP)"}};
  }
  return {{Severity::kFine, "clocks", fmt::format("agree within {:g} s", kClockDifference), ""}};
}

std::vector<Finding> judge(const DoctorFacts& facts) {
  std::vector<Finding> all;
  for (const auto& check : {judge_programs, judge_hosts, judge_cores, judge_devices, judge_links, judge_steps,
                            judge_sums, judge_folder, judge_limits, judge_clocks}) {
    const std::vector<Finding> found = check(facts);
    all.insert(all.end(), found.begin(), found.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return all;
}

}  // namespace ventris
