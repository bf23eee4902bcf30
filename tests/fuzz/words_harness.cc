// SPDX-License-Identifier: Apache-2.0
#include "data/text/tokenizer.h"
#include "data/text/word_vocabulary.h"
#include "tests/fuzz/harness.h"

namespace ventris::fuzz {

void run_words(std::string_view bytes) {
  const data::Tokenizer tokenizer(data::model_of_words(bytes, "input"), "input");
  for (const char* text : {"", "the dog", "the  xyz xyz dog \xe2\x96\x81 x"}) {
    const std::vector<int32_t> ids = tokenizer.encode(text);
    tokenizer.decode(ids);
  }
  for (int32_t id = 0; id < tokenizer.vocab_size() && id < 64; ++id) tokenizer.decode({id, id});
}

}  // namespace ventris::fuzz
