// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/prepare.h"
#include "tests/data/test_files.h"

namespace ventris::data {

inline std::string english(int i) {
  static const std::vector<std::string> kWords = {"a small boy", "the tall woman", "an old dog", "my friend"};
  return kWords[static_cast<size_t>(i) % 4] + " sees " + std::to_string(i % 97) + " birds in the garden";
}

inline std::string german(int i) {
  static const std::vector<std::string> kWords = {"ein kleiner Junge", "die große Frau", "ein alter Hund",
                                                  "mein Freund"};
  return kWords[static_cast<size_t>(i) % 4] + " sieht " + std::to_string(i % 97) + " Vögel im Garten";
}

inline std::string text_of(const std::function<std::string(int)>& line, int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) {
    text += line(i) + "\n";
  }
  return text;
}

class PrepareTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    set_train(text_of(english, 0, 500), text_of(german, 0, 500));
    options_.valid = {
        {put("valid.en", text_of(english, 500, 520)), put("valid.de", text_of(german, 500, 520))}};
    options_.tokenizer.vocab_size = 100;
    options_.threads = 2;
    options_.output = in_folder("corpus.h5");
  }

  std::string expect_failure(ErrorKind kind) {
    const int before = files();
    const std::string message = message_of(kind, [&] { prepare(options_); });
    EXPECT_EQ(files(), before) << "a failure must leave nothing behind";
    return message;
  }

  PairFiles& train() { return options_.corpora[0].files[0]; }
  PairFiles& valid() { return options_.valid[0]; }
  void set_train(const std::string& source, const std::string& target) {
    options_.corpora = {{.name = "train", .files = {{put("train.en", source), put("train.de", target)}}}};
  }

  PrepareOptions options_;
};

}  // namespace ventris::data
