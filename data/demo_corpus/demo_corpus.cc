// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/demo_corpus.h"

#include <unordered_set>

#include "data/demo_corpus/phrases.h"
#include "data/demo_corpus/sentences.h"
#include "data/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"

namespace ventris::data {
namespace {

/// The next pair whose English line has not been drawn before.
DemoPair fresh_pair(demo::Random& random, std::unordered_set<std::string>& seen) {
  while (true) {
    DemoPair pair = demo::sentence(random);
    if (seen.insert(pair.english).second) return pair;
  }
}

/// A set that does not exist yet.
struct WrittenSet {
  WrittenSet(const std::string& stem, int64_t pairs, demo::Random& random,
             std::unordered_set<std::string>& seen)
      : english(stem + ".en"), german(stem + ".de") {
    for (int64_t i = 0; i < pairs; ++i) {
      const DemoPair pair = fresh_pair(random, seen);
      english.write(pair.english + '\n');
      german.write(pair.german + '\n');
    }
  }
  void sync() {
    english.sync();
    german.sync();
  }
  void commit() {
    english.commit();
    german.commit();
  }

  AtomicFile english;
  AtomicFile german;
};

}  // namespace

void write_demo_corpus(const DemoCorpusOptions& options) {
  constexpr int64_t kMaxPairs = 100000000;  // far fewer than there are different lines
  for (const int64_t pairs : {options.train_pairs, options.valid_pairs, options.test_pairs}) {
    if (pairs < 1 || pairs > kMaxPairs) {
      fail(ErrorKind::kUsage, "a set of the demo corpus needs 1 to {} pairs, not {}", kMaxPairs, pairs);
    }
  }
  make_folders(options.output_dir);
  demo::Random random(options.seed);
  std::unordered_set<std::string> seen;
  // The held-out sets come first: they do not change with the number of training pairs.
  WrittenSet test(options.output_dir + "/test", options.test_pairs, random, seen);
  WrittenSet valid(options.output_dir + "/valid", options.valid_pairs, random, seen);
  WrittenSet train(options.output_dir + "/train", options.train_pairs, random, seen);
  // Sets of other options may exist, with lines that are in these: all get their names at the same time.
  for (WrittenSet* set : {&test, &valid, &train}) set->sync();
  test.commit();
  valid.commit();
  train.commit();
}

}  // namespace ventris::data
