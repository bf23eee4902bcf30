// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/demo_corpus.h"

#include <deque>
#include <unordered_set>

#include "data/demo_corpus/sentences.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"

namespace ventris::data {
namespace {

/// The next pair whose English line has not been drawn before.
DemoPair fresh_pair(demo::Random& random, std::unordered_set<std::string>& seen) {
  while (true) {
    DemoPair pair = demo::sentence(random);
    if (seen.insert(pair.english).second) return pair;
  }
}

}  // namespace

void write_demo_corpus(const DemoCorpusOptions& options) {
  make_folders(options.output_dir);
  demo::Random random(options.seed);
  std::unordered_set<std::string> seen;
  std::deque<AtomicFile> files;
  const auto write = [&](const std::string& name, int64_t pairs) {
    AtomicFile& english = files.emplace_back(options.output_dir + "/" + name + ".en");
    AtomicFile& german = files.emplace_back(options.output_dir + "/" + name + ".de");
    for (int64_t i = 0; i < pairs; ++i) {
      const DemoPair pair = fresh_pair(random, seen);
      english.write(pair.english + '\n');
      german.write(pair.german + '\n');
    }
  };
  // The held-out sets come first: they do not change with the number of training pairs.
  write("test", options.test_pairs);
  write("valid", options.valid_pairs);
  write("train", options.train_pairs);
  // Sets of other options may exist, with lines that are in these: all get their names at the same time.
  for (AtomicFile& file : files) file.sync();
  for (AtomicFile& file : files) file.commit();
}

}  // namespace ventris::data
