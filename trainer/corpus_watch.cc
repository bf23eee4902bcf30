#include "trainer/corpus_watch.h"

#include <sys/stat.h>

#include <utility>

#include "backend/error.h"

namespace ventris {

CorpusWatch::CorpusWatch(std::string path) : path_(std::move(path)), begin_(look()) {}

CorpusWatch::Facts CorpusWatch::look() const {
  constexpr int64_t kNanoseconds = 1000000000;
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size,
          int64_t{status.st_mtim.tv_sec} * kNanoseconds + status.st_mtim.tv_nsec};
}

void CorpusWatch::check() const {
  const Facts now = look();
  std::string change;
  if (now.bytes < 0) {
    change = "it is not there any more";
  } else if (now.device != begin_.device || now.number != begin_.number) {
    change = "another file has its name";
  } else if (now.bytes != begin_.bytes) {
    change = fmt::format("it had {} bytes and has {}", begin_.bytes, now.bytes);
  } else if (now.modified != begin_.modified) {
    change = "it was written to, as its time of modification tells";
  } else {
    return;
  }
  fail(ExitCode::kBadData,
       "the corpus {} changed while this run read it: {}. What was trained on since the last checkpoint is "
       "not "
       "known, and is not saved; that checkpoint stays. Put the file back as it was ('ventris inspect "
       "--verify' "
       "tells whether it is sound): then the same command goes on",
       path_, change);
}

}  // namespace ventris
