// SPDX-License-Identifier: Apache-2.0
#include "trainer/corpus_watch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "backend/error.h"
#include "data/corpus.h"
#include "data/error.h"
#include "data/files/file_io.h"
#include "data/files/hdf5_reader.h"

namespace ventris {

namespace {

int64_t nanoseconds(const timespec& time) {
  constexpr int64_t kOfASecond = 1000000000;
  return int64_t{time.tv_sec} * kOfASecond + time.tv_nsec;
}

}  // namespace

CorpusWatch::CorpusWatch(std::string path)
    : path_(std::move(path)), begin_(look()), head_(read_head()), changed_(begin_.changed) {}

CorpusWatch::Facts CorpusWatch::look() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

std::string CorpusWatch::read_head() const {
  constexpr size_t kBytes = 512;
  // A file that is not regular is refused when it is opened; a pipe must not block here.
  const data::FileHandle file = data::open_to_read(path_);
  if (!file.valid()) return "";
  std::string head(kBytes, '\0');
  const ssize_t read = ::pread(file.fd(), head.data(), head.size(), 0);
  head.resize(static_cast<size_t>(std::max<ssize_t>(read, 0)));
  return head;
}

std::string CorpusWatch::compare_bytes(const data::Corpus* corpus) const {
  try {
    if (corpus != nullptr) {
      corpus->check_again();
    } else {
      data::verified_digest(path_);
    }
  } catch (const data::DataError& error) {
    if (error.kind() != data::ErrorKind::kBadData) throw;
    return "its bytes are different, although its modification time is the same";
  }
  return read_head() == head_ ? "" : "another corpus of the same size and time was copied over it";
}

void CorpusWatch::check(const data::Corpus* corpus) const {
  const Facts now = look();
  std::string change;
  if (now.bytes < 0) {
    change = "it no longer exists";
  } else if (now.device != begin_.device || now.number != begin_.number) {
    change = "another file has its name";
  } else if (now.bytes != begin_.bytes) {
    change = fmt::format("it had {} bytes and now has {}", begin_.bytes, now.bytes);
  } else if (now.modified != begin_.modified) {
    change = "its modification time changed";
  } else if (now.changed != changed_) {
    change = compare_bytes(corpus);
    if (change.empty()) changed_ = now.changed;
  }
  if (change.empty()) return;
  fail(ExitCode::kBadData,
       "the corpus {} changed while this run read it: {}. The steps since the last "
       "checkpoint may have used other data and are not saved; that checkpoint is intact. "
       "Restore the file ('ventris inspect --verify' checks it), then the same command resumes",
       path_, change);
}

}  // namespace ventris
