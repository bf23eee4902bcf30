// SPDX-License-Identifier: Apache-2.0
#include "data/text/cached_encoder.h"
#include "data/text/subword_sampler.h"
#include "data/text/tokenizer.h"
#include "data/text/word_independence.h"
#include "tests/fuzz/harness.h"

namespace ventris::fuzz {

namespace {

constexpr const char* kTexts[] = {"", "one two", "\xc3\xa9t\xc3\xa9 \xef\xbd\xb6\xef\xbe\x9e \xe2\x96\x81 x",
                                  "a\xff\xfe b"};

constexpr size_t kWords = 64;

}  // namespace

void run_tokenizer(std::string_view bytes) {
  const data::Tokenizer tokenizer(std::string(bytes), "input");
  data::CachedEncoder encoder(tokenizer, data::words_are_independent(bytes), kWords);
  for (const char* text : kTexts) {
    std::vector<int32_t> ids = tokenizer.encode(text);
    tokenizer.decode(ids);
    encoder.encode(text, ids);
    tokenizer.decode(ids);
  }
  for (int32_t id = 0; id < tokenizer.vocab_size() && id < 64; ++id) {
    tokenizer.piece(id);
    tokenizer.decode({id, id});
  }
  data::SubwordSampler sampler(tokenizer, 0.1);
  std::vector<int32_t> ids;
  for (const char* text : kTexts) {
    sampler.sample(text, 1, ids);
    tokenizer.decode(ids);
  }
}

}  // namespace ventris::fuzz
