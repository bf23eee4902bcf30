// SPDX-License-Identifier: Apache-2.0
#include "data/valid_text.h"

#include <algorithm>

#include "data/error.h"
#include "data/files/digest.h"
#include "data/pair_block.h"
#include "data/pair_reader.h"

namespace ventris::data {

ValidLines read_valid_lines(const PairFiles& files) {
  for (const std::string& path : {files.source, files.target}) {
    if (path == "-")
      fail(ErrorKind::kUsage, "text to validate on cannot be the standard input; write it to a file");
  }
  PairReader reader({files}, "", "");
  ValidLines lines;
  RawPair pair;
  std::string scratch;
  reader.next_files();
  while (reader.next(pair)) {
    const auto clean = [&](const std::string& line, const std::string& path) {
      return std::string(clean_line(line, scratch, path, reader.line_number()).text);
    };
    lines.source.push_back(clean(pair.source, files.source));
    lines.target.push_back(clean(pair.target, files.target));
  }
  return lines;
}

ValidText::ValidText(const ValidLines& lines, const TokenizerPair& tokenizers, int64_t longest) {
  Digest digest;
  for (size_t i = 0; i < lines.source.size(); ++i) {
    for (const std::string& line : {lines.source[i], lines.target[i]})
      digest.add(line.c_str(), line.size() + 1);
    const std::vector<int32_t> source = tokenizers.source().encode(lines.source[i]);
    const std::vector<int32_t> target = tokenizers.target().encode(lines.target[i]);
    if (source.empty() || target.empty()) continue;
    source_.add(source, longest);
    target_.add(target, longest);
    kept_.source.push_back(lines.source[i]);
    kept_.target.push_back(lines.target[i]);
  }
  digest_ = digest.hexadecimal();
}

void ValidText::Side::add(const std::vector<int32_t>& ids, int64_t longest) {
  tokens.insert(tokens.end(), ids.begin(), ids.begin() + std::min(std::ssize(ids), longest));
  offsets.push_back(std::ssize(tokens));
}

SentencePairs ValidText::pairs() const {
  const auto count = std::ssize(kept_.source);
  return {SentenceArray(source_.tokens.data(), source_.offsets.data(), count),
          SentenceArray(target_.tokens.data(), target_.offsets.data(), count)};
}

}  // namespace ventris::data
