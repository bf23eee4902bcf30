// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris::data {

struct DemoCorpusOptions {
  std::string output_dir;
  int64_t train_pairs = 50000;
  int64_t valid_pairs = 1000;
  int64_t test_pairs = 1000;
  uint64_t seed = 1;
};

struct DemoPair {
  std::string english;
  std::string german;
};

/// Writes train.en, train.de, valid.en, valid.de, test.en and test.de: numbers, dates, times, prices and
/// short sentences in words, with their German translations; a pure function of the options. No English line
/// is in two sets.
void write_demo_corpus(const DemoCorpusOptions& options);

}  // namespace ventris::data
