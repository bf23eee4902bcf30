#include "data/demo_corpus.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unordered_set>

#include "data/demo_corpus_phrases.h"
#include "data/error.h"
#include "data/file_io.h"

namespace ventris::data {
namespace {

/// The next pair whose English line has not been drawn before.
DemoPair fresh_pair(demo::Random& random, std::unordered_set<std::string>& seen) {
  while (true) {
    DemoPair pair = demo::sentence(random);
    if (seen.insert(pair.english).second) return pair;
  }
}

/// A text file; takes its name with close(), and leaves nothing behind if that is not reached.
class LineFile {
 public:
  explicit LineFile(const std::string& path)
      : path_(path),
        temporary_(fmt::format("{}.tmp.{}", path, ::getpid())),
        file_(temporary_, std::ios::binary | std::ios::trunc) {
    if (!file_) {
      fail(ErrorKind::kCannotCreate,
           "cannot create {}: check that the folder may be written to and is no file", path);
    }
  }
  ~LineFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void write(const std::string& line) { file_ << line << '\n'; }
  void close() {
    file_.close();
    if (!file_) fail(ErrorKind::kIo, "cannot write {}: is the disk full?", path_);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail(ErrorKind::kCannotCreate, "cannot create {}: {}", path_, system_reason(errno));
    }
    temporary_.clear();
  }

 private:
  std::string path_;
  std::string temporary_;
  std::ofstream file_;
};

void write_set(const std::string& stem, int64_t pairs, demo::Random& random,
               std::unordered_set<std::string>& seen) {
  LineFile english(stem + ".en");
  LineFile german(stem + ".de");
  for (int64_t i = 0; i < pairs; ++i) {
    const DemoPair pair = fresh_pair(random, seen);
    english.write(pair.english);
    german.write(pair.german);
  }
  english.close();
  german.close();
}

}  // namespace

void write_demo_corpus(const DemoCorpusOptions& options) {
  constexpr int64_t kMostPairs = 100000000;  // far fewer than there are different lines
  for (const int64_t pairs : {options.train_pairs, options.valid_pairs, options.test_pairs}) {
    if (pairs < 1 || pairs > kMostPairs) {
      fail(ErrorKind::kUsage, "a set of the demo corpus needs 1 to {} pairs, not {}", kMostPairs, pairs);
    }
  }
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error) {
    fail(ErrorKind::kCannotCreate, "cannot create the folder {}: {}", options.output_dir, error.message());
  }
  demo::Random random(options.seed);
  std::unordered_set<std::string> seen;
  // The held-out sets come first: they do not change with the number of training pairs.
  write_set(options.output_dir + "/test", options.test_pairs, random, seen);
  write_set(options.output_dir + "/valid", options.valid_pairs, random, seen);
  write_set(options.output_dir + "/train", options.train_pairs, random, seen);
}

}  // namespace ventris::data
