// SPDX-License-Identifier: Apache-2.0
#include "data/scores/moses_tokenize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "data/scores/bleu.h"
#include "data/scores/score_text.h"
#include "data/text/unicode.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

constexpr auto kEnglish = MosesLanguage::kEnglish;
constexpr auto kGerman = MosesLanguage::kGerman;
constexpr auto kFrench = MosesLanguage::kFrench;
constexpr auto kCzech = MosesLanguage::kCzech;

std::string words(std::string_view line, MosesLanguage language) {
  return moses_tokenize(line, language);
}

TEST(MosesTokenize, PunctuationStandsAlone) {
  EXPECT_EQ(words("  \"Hello\", (he) said:\tyes/no!\u00a0", kEnglish),
            "\" Hello \" , ( he ) said : yes / no !");
  EXPECT_EQ(words("", kEnglish), "");
  EXPECT_EQ(words(" \t", kEnglish), "");
  EXPECT_EQ(words("a\x01\x1f b", kEnglish), "a b");
}

TEST(MosesTokenize, CommasStayInsideNumbersAndHyphensInsideWords) {
  EXPECT_EQ(words("5,300 a,b,c 3, and 7,x", kEnglish), "5,300 a , b , c 3 , and 7 , x");
  EXPECT_EQ(words("in 1999,", kEnglish), "in 1999 ,");
  EXPECT_EQ(words("rich-text -5", kEnglish), "rich-text -5");
}

TEST(MosesTokenize, RunsOfPeriodsStayTogether) {
  EXPECT_EQ(words("wait...what", kEnglish), "wait ... what");
  EXPECT_EQ(words("so....", kEnglish), "so ....");
  EXPECT_EQ(words(".. a", kEnglish), ".. a");
}

TEST(MosesTokenize, ApostrophesFollowTheLanguage) {
  EXPECT_EQ(words("it's John' s 'tis 1990's", kEnglish), "it 's John ' s ' tis 1990 's");
  EXPECT_EQ(words("l'air d'été qu' il", kFrench), "l' air d' été qu ' il");
  EXPECT_EQ(words("geht's", kGerman), "geht ' s");
  EXPECT_EQ(words("d'Artagnan", kCzech), "d ' Artagnan");
  EXPECT_EQ(words("'a", kEnglish), "'a");  // no character before it
}

TEST(MosesTokenize, PeriodsOfAbbreviationsStay) {
  EXPECT_EQ(words("Dr. No met Mr. X. Then he left.", kEnglish), "Dr. No met Mr. X. Then he left .");
  EXPECT_EQ(words("the U.S. Army etc. and so on. Next.", kEnglish), "the U.S. Army etc. and so on . Next .");
  EXPECT_EQ(words("No. 5 No. It", kEnglish), "No. 5 No . It");
  EXPECT_EQ(words("Am 3. Mai kam er bzw. Sie. Um 200. Uhr", kGerman),
            "Am 3. Mai kam er bzw. Sie . Um 200 . Uhr");
  EXPECT_EQ(words("die Nummer 28.", kGerman), "die Nummer 28.");
  EXPECT_EQ(words("He said 'so.'", kEnglish), "He said ' so . ' ");
}

TEST(MosesTokenize, BytesThatAreNoTextStay) {
  EXPECT_EQ(words("a\xff"
                  "b.",
                  kEnglish),
            "a \xff b .");
}

TEST(MosesPunctuation, WideMarksBecomeAscii) {
  EXPECT_EQ(moses_replace_unicode_punctuation("你好，世界。  “x”’…！"), "你好,世界. \"x\"'...!");
  EXPECT_EQ(moses_replace_unicode_punctuation("plain"), "plain");
}

TEST(PaperBleu, CompoundsAreSplitFromLeftToRight) {
  EXPECT_EQ(split_compounds("rich-text a-b-c -x y- a--b"),
            "rich ##AT##-##AT## text a ##AT##-##AT## b-c -x y- a ##AT##-##AT## -b");
  EXPECT_EQ(split_compounds("über-ärgerlich"), "über ##AT##-##AT## ärgerlich");
  EXPECT_EQ(split_compounds("a-b"), "a ##AT##-##AT## b");
  EXPECT_EQ(split_compounds(""), "");
}

TEST(PaperBleu, TypographicMarksAreThoseOfAscii) {
  EXPECT_EQ(paper_words("Der „Mann“ sagt’s: E-Mail & mehr.", kGerman),
            "Der „ Mann \" sagt ' s : E ##AT##-##AT## Mail & mehr .");
  EXPECT_EQ(paper_signature(kGerman, 2),
            "nrefs:2|case:mixed|punct:ascii|tok:moses-de|compounds:split|smooth:none");
}

std::string lower(const std::string& line) {
  return unicode::encode(unicode::lower(unicode::decode(line)));
}

/// Without the escapes that the tokenizer of Moses writes.
std::string unescaped(std::string text) {
  const std::pair<const char*, const char*> kEntities[] = {{"&#124;", "|"}, {"&lt;", "<"},    {"&gt;", ">"},
                                                           {"&apos;", "'"}, {"&quot;", "\""}, {"&#91;", "["},
                                                           {"&#93;", "]"},  {"&amp;", "&"}};
  for (const auto& [name, character] : kEntities) replace_all<std::string>(text, name, character);
  return text;
}

/// True of a line that normalize-punctuation.perl of Moses changes, or may.
bool is_normalized_by_moses(std::string_view line) {
  constexpr const char* kMarks[] = {"(",  ")",  "`",  "''", "\",", "\".", ",\"",    ".\"",
                                    " %", " :", " ;", "„",  "“",   "”",   "–",      "—",
                                    "´",  "‘",  "’",  "‚",  "…",   "«",   "\u00a0", "»"};
  return std::any_of(std::begin(kMarks), std::end(kMarks),
                     [line](const char* mark) { return line.find(mark) != std::string_view::npos; });
}

/// The text that the authors of Multi30k publish beside the raw text: lowercased, normalised, tokenised.
TEST(MosesTokenize, Multi30kIsThatOfItsAuthors) {
  VENTRIS_NEEDS_SHARED_DATA("multi30k/tok");
  const std::pair<const char*, MosesLanguage> kLanguages[] = {
      {"en", kEnglish}, {"de", kGerman}, {"fr", kFrench}, {"cs", kCzech}};
  int files = 0;
  int lines = 0;
  for (const std::string set : {"val", "test_2016_flickr", "train"}) {
    for (const auto& [code, language] : kLanguages) {
      const std::string tokenized = shared_data("multi30k/tok/" + set + ".lc.norm.tok." + code + ".gz");
      if (!std::filesystem::exists(tokenized)) continue;  // French and Czech training text is not there
      ++files;
      // Enough of the training text to meet its rare cases, and little enough for a slow build.
      const size_t max = set == "train" ? 6000 : SIZE_MAX;
      const auto raw = lines_of(shared_data("multi30k/raw/" + set + "." + code + ".gz"), max);
      const auto expected = lines_of(tokenized, max);
      ASSERT_EQ(raw.size(), expected.size());
      for (size_t i = 0; i < raw.size(); ++i) {
        if (is_normalized_by_moses(raw[i])) continue;
        EXPECT_EQ(moses_tokenize(lower(raw[i]), language), unescaped(expected[i]))
            << set << "." << code << " line " << i + 1;
        ++lines;
      }
    }
  }
  EXPECT_EQ(files, 10);
  EXPECT_GT(lines, 19900);
}

}  // namespace
}  // namespace ventris::data
