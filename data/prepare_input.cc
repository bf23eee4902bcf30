// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "data/error.h"
#include "data/files/disk_room.h"

namespace ventris::data {

namespace {

constexpr size_t kInputBufferBytes = size_t{1} << 20;

bool has_standard_input(const PrepareOptions& options) {
  const auto is_in = [](const std::vector<PairFiles>& files) {
    return std::ranges::any_of(
        files, [](const PairFiles& pair) { return pair.source == "-" || pair.target == "-"; });
  };
  return is_in(all_valid_files(options)) || std::ranges::count(options.held_out, "-") > 0 ||
         std::ranges::any_of(options.corpora, [&](const TrainingCorpus& corpus) {
           return corpus.weights == "-" || is_in(corpus.files);
         });
}

}  // namespace

StandardInputCopy::StandardInputCopy(const PrepareOptions& options) {
  if (!has_standard_input(options)) return;
  file_ = open_scratch(options.output);
  path_ = fmt::format("/proc/self/fd/{}", file_.fd());
  std::vector<char> buffer(kInputBufferBytes);
  int64_t written = 0;
  for (;;) {
    const ssize_t bytes = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      fail(ErrorKind::kIo, "standard input: cannot read after {} bytes: {}", written, system_reason(errno));
    }
    if (bytes == 0) return;
    const std::string reason = write_all(file_.fd(), buffer.data(), bytes, written);
    if (!reason.empty()) {
      fail(ErrorKind::kIo, "{}: cannot write a copy of the standard input after {} bytes: {}.{} Free space",
           options.output, written, reason, room_at(options.output));
    }
    written += bytes;
  }
}

std::vector<PairFiles> all_valid_files(const PrepareOptions& options) {
  std::vector<PairFiles> files = options.valid;
  for (const NamedValidSet& set : options.valid_sets) files.push_back(set.files);
  return files;
}

}  // namespace ventris::data
