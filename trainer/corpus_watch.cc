// SPDX-License-Identifier: Apache-2.0
#include "trainer/corpus_watch.h"

#include <utility>

#include "backend/device/error.h"

namespace ventris {
namespace {

/// Without links if there is no such file.
struct stat state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) status.st_nlink = 0;
  return status;
}

}  // namespace

CorpusWatch::CorpusWatch(std::string path) : path_(std::move(path)), begin_(state_of(path_)) {}

void CorpusWatch::check() const {
  const struct stat now = state_of(path_);
  std::string change;
  if (now.st_nlink == 0) {
    change = "it no longer exists";
  } else if (now.st_dev != begin_.st_dev || now.st_ino != begin_.st_ino) {
    change = "another file has its name";
  } else if (now.st_size != begin_.st_size) {
    change = fmt::format("it had {} bytes and now has {}", begin_.st_size, now.st_size);
  } else if (now.st_mtim.tv_sec != begin_.st_mtim.tv_sec || now.st_mtim.tv_nsec != begin_.st_mtim.tv_nsec) {
    change = "its modification time changed";
  } else {
    return;
  }
  fail(ExitCode::kBadData,
       "the corpus {} changed while this run read it: {}. The steps since the last "
       "checkpoint may have used other data and are not saved; that checkpoint is intact. "
       "Restore the file ('ventris inspect --verify' checks it), then the same command resumes",
       path_, change);
}

}  // namespace ventris
