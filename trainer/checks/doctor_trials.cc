// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor_trials.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include "backend/error.h"
#include "backend/transfer.h"
#include "comm/communicator.h"
#include "trainer/checks/doctor_steps.h"
#include "trainer/files/run_folder.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// --- the folder

/// The folder, created if missing, and a small file in it; both are removed with the object.
class FolderTrial {
 public:
  /// Does not throw: error() is the reason of a failure.
  FolderTrial(const std::string& folder, const std::string& token) : token_(folder + "/" + token) {
    make(folder);
    if (error_.empty()) write(folder, token);
  }
  ~FolderTrial() {
    std::error_code ignored;
    fs::remove(token_, ignored);
    fs::remove(token_ + kUnfinished, ignored);
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, ignored);
  }
  FolderTrial(const FolderTrial&) = delete;
  FolderTrial& operator=(const FolderTrial&) = delete;

  const std::string& error() const { return error_; }
  /// The reason why the file cannot be locked, or "".
  std::string lock_error() const {
    const int file = ::open(token_.c_str(), O_RDWR | O_CLOEXEC);
    const bool locked = file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (file >= 0) ::close(file);
    return locked ? "" : std::strerror(error);
  }

 private:
  static constexpr const char* kUnfinished = ".unfinished";

  void make(const std::string& folder) {
    fs::path path;
    for (const fs::path& part : fs::path(folder)) {
      path /= part;
      std::error_code error;
      if (path.empty() || fs::exists(path, error)) continue;
      if (fs::create_directory(path, error)) {
        made_.push_back(path);
      } else if (error) {
        error_ = fmt::format("cannot create the folder {}: {}", path.string(), error.message());
        return;
      }
    }
  }

  /// As a checkpoint is written: a temporary name, fsync, rename, fsync of the folder.
  void write(const std::string& folder, const std::string& token) {
    const std::string temporary = token_ + kUnfinished;
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!holds(file >= 0, "cannot create a file in", folder)) return;
    const bool written = ::write(file, token.data(), token.size()) == static_cast<ssize_t>(token.size());
    holds(written, "cannot write a file in", folder);
    if (error_.empty()) holds(::fsync(file) == 0, "fsync of a file fails in", folder);
    ::close(file);
    if (!error_.empty()) return;
    if (!holds(::rename(temporary.c_str(), token_.c_str()) == 0, "cannot rename a file in", folder)) return;
    const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!holds(directory >= 0, "cannot open the folder:", folder)) return;
    holds(::fsync(directory) == 0, "fsync of the folder fails:", folder);
    ::close(directory);
  }

  bool holds(bool condition, const char* what, const std::string& folder) {
    if (!condition) error_ = fmt::format("{} {}: {}", what, folder, std::strerror(errno));
    return condition;
  }

  const std::string token_;
  std::vector<fs::path> made_;  // outer ones first
  std::string error_;
};

int64_t largest_checkpoint(const std::string& folder) {
  int64_t largest = 0;
  std::error_code error;
  for (const std::string& path : list_checkpoints(folder)) {
    const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
    if (!error) largest = std::max(largest, bytes);
  }
  return largest;
}

// --- sums

/// The whole numbers r + 1 + i mod 7 for element i of rank r, whose sums over ranks are exact in f32.
float part_of(int rank, int64_t element) {
  return static_cast<float>(rank + 1 + element % 7);
}

/// Sums in memory of a device.
class SumTrial {
 public:
  SumTrial(Communicator& sums, Context& context, int64_t max)
      : sums_(sums),
        context_(context),
        host_(static_cast<size_t>(max)),
        memory_(context.device(), host_.size() * sizeof(float), "a trial of sums"),
        device_(memory_.allocate(1, max, DType::kF32)) {}

  /// "" or the error in the sum of this many numbers.
  std::string check(int64_t count) {
    for (int64_t i = 0; i < count; ++i) host_[static_cast<size_t>(i)] = part_of(sums_.rank(), i);
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    copy_to_device(context_, device_.data, host_.data(), bytes);
    sums_.all_reduce_sum(device_.col_range(0, count));
    copy_to_host(context_, host_.data(), device_.data, bytes);
    for (int64_t i = 0; i < count; ++i) {
      float expected = 0.0F;
      for (int rank = 0; rank < sums_.size(); ++rank) expected += part_of(rank, i);
      const float found = host_[static_cast<size_t>(i)];
      if (found == expected) continue;
      return fmt::format("a sum of {} numbers over the ranks is wrong: element {} is {} on rank {}, not {}",
                         count, i, found, sums_.rank(), expected);
    }
    return "";
  }

  /// Seconds of a sum of this many numbers, the mean over `rounds`.
  double seconds(int64_t count, int rounds) {
    synchronize(context_);
    sums_.barrier();
    const Clock::time_point begin = Clock::now();
    for (int round = 0; round < rounds; ++round) sums_.all_reduce_sum(device_.col_range(0, count));
    synchronize(context_);
    return std::chrono::duration<double>(Clock::now() - begin).count() / rounds;
  }

 private:
  Communicator& sums_;
  Context& context_;
  std::vector<float> host_;
  Arena memory_;
  Tensor device_;
};

}  // namespace

int64_t try_folder(Communicator& communicator, const std::string& folder, RankFacts& facts) {
  std::random_device random;
  const std::string token =
      communicator.broadcast(fmt::format(".ventris-doctor-{:08x}{:08x}", random(), random()), 0);
  std::optional<FolderTrial> trial;
  int64_t largest = 0;
  if (communicator.rank() == 0) {
    trial.emplace(folder, token);
    facts.folder_error = trial->error();
    if (facts.folder_error.empty()) {
      facts.folder_lock_error = trial->lock_error();
      largest = largest_checkpoint(folder);
    }
    struct statvfs space {};
    if (statvfs(folder.c_str(), &space) == 0)
      facts.folder_free = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  }
  communicator.barrier();
  std::string read;
  facts.sees_folder = static_cast<bool>(std::ifstream(folder + "/" + token) >> read) && read == token;
  communicator.barrier();
  return largest;
}

void try_steps(const ContextOptions& device, const std::string& preset, RankFacts& facts) {
  try {
    facts.wrong_steps = compare_steps(device, facts.core_share, model_of_steps(preset));
  } catch (const Error& error) {
    facts.step_error = error.what();
  }
}

SumFacts try_sums(Communicator& communicator, Context& context) {
  constexpr int64_t kMax = int64_t{4} << 20;
  constexpr int kRounds = 20;
  SumFacts facts;
  std::unique_ptr<Communicator> device;
  try {
    device = make_device_communicator(communicator, context);
  } catch (const LateRanks&) {
    throw;
  } catch (const Error& error) {  // on all ranks
    facts.error = error.what();
    return facts;
  }
  Communicator& sums = device ? *device : communicator;
  SumTrial trial(sums, context, kMax);
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{65537}, kMax}) {
    const std::string wrong = trial.check(count);
    for (const std::string& found : communicator.all_gather(wrong)) {
      if (facts.error.empty()) facts.error = found;
    }
    if (!facts.error.empty()) return facts;
  }
  facts.latency = trial.seconds(1, kRounds);
  const double seconds = std::min(trial.seconds(kMax, 1), trial.seconds(kMax, 1));
  const auto ranks = static_cast<double>(sums.size());
  facts.bandwidth = 2.0 * (ranks - 1.0) / ranks * static_cast<double>(kMax) * sizeof(float) / seconds;
  return facts;
}

}  // namespace ventris
