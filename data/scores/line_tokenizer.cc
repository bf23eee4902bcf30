// SPDX-License-Identifier: Apache-2.0
#include "data/scores/line_tokenizer.h"

#include <xxhash.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/scores/bleu.h"
#include "data/scores/mecab.h"
#include "data/scores/score_text.h"
#include "data/text/tokenizer.h"

namespace ventris::data {
namespace {

constexpr const char* kDebianIpadic = "/var/lib/mecab/dic/ipadic-utf8";
// The sizes of the dictionaries that sacreBLEU requires.
constexpr unsigned kWordsOfIpadic = 392126;
constexpr unsigned kWordsOfKoreanDictionary = 811795;

/// Splits lines into the pieces of a SentencePiece model, as sacreBLEU does.
LineTokenizer sentencepiece_tokenizer(const BleuOptions& options) {
  const auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::from_file(options.tokenizer_path));
  std::string label = name_of(options.tokenizer);
  if (options.tokenizer == BleuTokenizer::kSentencePiece) {
    const std::string& model = tokenizer->model();
    label += fmt::format("-{:016x}", XXH3_64bits(model.data(), model.size()));
  }
  return {label, [tokenizer](std::string_view line) {
            std::string words;
            for (const std::string& piece : tokenizer->pieces(line))
              words += (words.empty() ? "" : " ") + piece;
            return words;
          }};
}

LineTokenizer mecab_tokenizer(const BleuOptions& options) {
  const bool japanese = options.tokenizer == BleuTokenizer::kJapaneseMecab;
  const auto mecab = std::make_shared<const Mecab>(options.tokenizer_path);
  const bool usual = mecab->words() == (japanese ? kWordsOfIpadic : kWordsOfKoreanDictionary);
  std::string dictionary = japanese ? "IPA" : "KO";
  if (!usual) dictionary = fmt::format("{}words", mecab->words());
  return {fmt::format("{}-{}-{}", name_of(options.tokenizer), mecab->version(), dictionary),
          [mecab](std::string_view line) { return mecab->cut(strip(line)); }};
}

}  // namespace

bool needs_line_tokenizer(const BleuOptions& options) {
  switch (options.tokenizer) {
    case BleuTokenizer::k13a:
    case BleuTokenizer::kNone:
    case BleuTokenizer::kChar:
    case BleuTokenizer::kInternational:
    case BleuTokenizer::kChinese:
      return false;
    case BleuTokenizer::kJapaneseMecab:
    case BleuTokenizer::kKoreanMecab:
    case BleuTokenizer::kSentencePiece:
    case BleuTokenizer::kFlores101:
    case BleuTokenizer::kFlores200:
      return true;
  }
  return false;
}

void load_line_tokenizer(BleuOptions& options, const std::string& option) {
  const char* const name = name_of(options.tokenizer);
  if (!needs_line_tokenizer(options)) {
    if (!options.tokenizer_path.empty()) {
      fail(ErrorKind::kUsage, "the tokenizer {} takes no file, but {} names {}", name, option,
           options.tokenizer_path);
    }
    return;
  }
  const bool japanese = options.tokenizer == BleuTokenizer::kJapaneseMecab;
  if (std::error_code error;
      japanese && options.tokenizer_path.empty() && std::filesystem::exists(kDebianIpadic, error)) {
    options.tokenizer_path = kDebianIpadic;
  }
  const bool mecab = japanese || options.tokenizer == BleuTokenizer::kKoreanMecab;
  if (options.tokenizer_path.empty()) {
    fail(ErrorKind::kUsage, "the tokenizer {0} needs {2}; give it with {1}", name, option,
         japanese ? "a MeCab dictionary (Debian has one in the package mecab-ipadic-utf8)"
         : mecab  ? "the folder of a MeCab dictionary such as mecab-ko-dic"
                  : "a SentencePiece model");
  }
  options.line_tokenizer = std::make_shared<const LineTokenizer>(mecab ? mecab_tokenizer(options)
                                                                       : sentencepiece_tokenizer(options));
}

}  // namespace ventris::data
