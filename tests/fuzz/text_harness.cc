// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu.h"
#include "data/scores/chrf.h"
#include "data/text/text_reader.h"
#include "tests/fuzz/harness.h"

namespace ventris::fuzz {

void run_text(std::string_view bytes) {
  const InputFile file(bytes);
  data::TextReader reader(file.path());
  std::string line;
  constexpr size_t kLongestScored = 2000;
  constexpr int64_t kLinesScored = 8;
  while (reader.next(line)) {
    data::find_invalid_utf8(line);
    if (line.size() > kLongestScored || reader.line_number() > kLinesScored) continue;
    for (const auto tokenizer : {data::BleuTokenizer::k13a, data::BleuTokenizer::kInternational,
                                 data::BleuTokenizer::kChar, data::BleuTokenizer::kChinese}) {
      data::bleu_tokenize(line, {.tokenizer = tokenizer, .lowercase = true});
    }
    const std::string_view views[] = {line};
    data::ChrfCounter(data::ChrfOptions{.word_order = 2}).count("a b", views);
  }
}

}  // namespace ventris::fuzz
