// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "backend/device/error.h"
#include "data/corpus.h"
#include "data/error.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/harness.h"

namespace ventris::fuzz {
namespace {

void read_corpus(std::string_view bytes) {
  const InputFile file(bytes);
  const data::Corpus corpus(file.path());
  // Everything that the offsets promise can be read.
  int64_t sum = 0;
  for (const data::SentencePairs* pairs : {&corpus.train(), &corpus.valid()}) {
    for (const data::SentenceArray* side : {&pairs->source, &pairs->target}) {
      for (int64_t i = 0; i < side->size(); ++i) {
        for (const int32_t id : (*side)[i]) sum += id;
      }
    }
  }
  for (int64_t i = 0; i < corpus.valid().size(); ++i) sum += std::ssize(corpus.valid_reference(i));
  for (int64_t i = 0; i < corpus.train().size(); ++i) {
    if (corpus.train().weight(i) < 0.0F) throw std::logic_error("a weight is negative");
    if (corpus.has_text())
      sum += std::ssize(corpus.train_source_text(i)) + std::ssize(corpus.train_target_text(i));
  }
  if (sum < 0) throw std::logic_error("a token or a length is negative");
}

}  // namespace

void run_corpus(std::string_view bytes) {
  try {
    read_corpus(bytes);
  } catch (const data::DataError&) {
  }
  read_corpus(with_right_digests(bytes));
}

}  // namespace ventris::fuzz
