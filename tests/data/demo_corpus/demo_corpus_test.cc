// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/demo_corpus.h"

#include <gtest/gtest.h>

#include <string>

#include "data/demo_corpus/sentences.h"
#include "data/io/digest.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

struct Words {
  int64_t n;
  const char* english;
  const char* german;
};

class DemoCorpusFiles : public FolderTest {
 protected:
  DemoCorpusOptions options(const std::string& name) const {
    return {.output_dir = in_folder(name), .train_pairs = 3000, .valid_pairs = 200, .test_pairs = 100};
  }
  std::string content(const std::string& name) const { return bytes_of(in_folder(name)); }
};

const char* const kNames[] = {"train.en", "train.de", "valid.en", "valid.de", "test.en", "test.de"};

TEST(DemoNumbers, CardinalsAreThoseOfASpeaker) {
  const Words cases[] = {
      {0, "zero", "null"},
      {7, "seven", "sieben"},
      {16, "sixteen", "sechzehn"},
      {17, "seventeen", "siebzehn"},
      {21, "twenty-one", "einundzwanzig"},
      {30, "thirty", "dreißig"},
      {66, "sixty-six", "sechsundsechzig"},
      {77, "seventy-seven", "siebenundsiebzig"},
      {100, "one hundred", "einhundert"},
      {101, "one hundred and one", "einhunderteins"},
      {999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"},
      {1000, "one thousand", "eintausend"},
      {1001, "one thousand and one", "eintausendeins"},
      {2016, "two thousand and sixteen", "zweitausendsechzehn"},
      {21305, "twenty-one thousand three hundred and five", "einundzwanzigtausenddreihundertfünf"},
      {1000000, "one million", "eine Million"},
      {1000001, "one million and one", "eine Million eins"},
      {21000017, "twenty-one million and seventeen", "einundzwanzig Millionen siebzehn"},
      {101000000, "one hundred and one million", "einhunderteine Millionen"},
      {300040000, "three hundred million forty thousand", "dreihundert Millionen vierzigtausend"},
      {999999999,
       "nine hundred and ninety-nine million nine hundred and ninety-nine thousand "
       "nine hundred and ninety-nine",
       "neunhundertneunundneunzig Millionen neunhundertneunundneunzigtausendneunhundertneunundneunzig"},
  };
  for (const Words& c : cases) {
    EXPECT_EQ(demo::english_cardinal(c.n), c.english);
    EXPECT_EQ(demo::german_cardinal(c.n), c.german);
  }
}

TEST(DemoNumbers, OrdinalsAreThoseOfASpeaker) {
  const Words cases[] = {
      {1, "first", "erst"},
      {3, "third", "dritt"},
      {5, "fifth", "fünft"},
      {7, "seventh", "siebt"},
      {8, "eighth", "acht"},
      {12, "twelfth", "zwölft"},
      {20, "twentieth", "zwanzigst"},
      {21, "twenty-first", "einundzwanzigst"},
      {100, "one hundredth", "einhundertst"},
      {101, "one hundred and first", "einhunderterst"},
      {120, "one hundred and twentieth", "einhundertzwanzigst"},
      {1000, "one thousandth", "eintausendst"},
      {1000000, "one millionth", "einmillionst"},
      {2000003, "two million and third", "zweimilliondritt"},
  };
  for (const Words& c : cases) {
    EXPECT_EQ(demo::english_ordinal(c.n), c.english);
    EXPECT_EQ(demo::german_ordinal(c.n), c.german);
  }
}

TEST(DemoPhrases, YearsTimesAndPricesAreIdiomatic) {
  const auto expect = [](const DemoPair& pair, const char* english, const char* german) {
    EXPECT_EQ(pair.english, english);
    EXPECT_EQ(pair.german, german);
  };
  expect(demo::year(1987), "nineteen eighty-seven", "neunzehnhundertsiebenundachtzig");
  expect(demo::year(1900), "nineteen hundred", "neunzehnhundert");
  expect(demo::year(1805), "eighteen oh five", "achtzehnhundertfünf");
  expect(demo::year(1100), "eleven hundred", "elfhundert");
  expect(demo::year(2000), "two thousand", "zweitausend");
  expect(demo::year(2001), "two thousand and one", "zweitausendeins");
  expect(demo::year(2024), "twenty twenty-four", "zweitausendvierundzwanzig");
  expect(demo::clock_time(7, 30), "half past seven", "halb acht");
  expect(demo::clock_time(12, 30), "half past twelve", "halb eins");
  expect(demo::clock_time(12, 45), "quarter to one", "Viertel vor eins");
  expect(demo::clock_time(8, 40), "twenty to nine", "zwanzig vor neun");
  expect(demo::clock_time(1, 15), "quarter past one", "Viertel nach eins");
  expect(demo::clock_time(1, 0), "one o'clock", "ein Uhr");
  expect(demo::clock_time(10, 5), "five past ten", "fünf nach zehn");
  expect(demo::clock_time(1, 42), "one forty-two", "ein Uhr zweiundvierzig");
  expect(demo::clock_time(3, 1), "three oh one", "drei Uhr eins");
  expect(demo::price(12, 50, false), "twelve euros and fifty cents", "zwölf Euro und fünfzig Cent");
  expect(demo::price(1, 0, true), "one dollar", "einen Dollar");
  expect(demo::price(0, 1, false), "one cent", "einen Cent");
}

TEST(DemoPhrases, AreTheSameWhateverCompilesThem) {
  Digest digest;
  demo::Random random(1);
  for (int i = 0; i < 20000; ++i) {
    const DemoPair pair = demo::sentence(random);
    const std::string line = pair.english + "\t" + pair.german + "\n";
    digest.add(line.data(), line.size());
  }
  EXPECT_EQ(digest.hexadecimal(), "a9adcaf8b6b5d580c7c3a9569c1d4cea");
}

TEST_F(DemoCorpusFiles, AreAPureFunctionOfTheOptions) {
  write_demo_corpus(options("a"));
  write_demo_corpus(options("b"));
  DemoCorpusOptions more = options("more");
  more.train_pairs = 4000;
  write_demo_corpus(more);
  DemoCorpusOptions other = options("other");
  other.seed = 2;
  write_demo_corpus(other);
  for (const char* name : kNames) {
    EXPECT_EQ(content(std::string("a/") + name), content(std::string("b/") + name)) << name;
    EXPECT_NE(content(std::string("a/") + name), content(std::string("other/") + name)) << name;
  }
  EXPECT_EQ(content("a/test.en"), content("more/test.en"));
  EXPECT_EQ(content("a/valid.de"), content("more/valid.de"));
}

TEST_F(DemoCorpusFiles, RefusesWhatCannotBeWritten) {
  put("file", "text");
  const std::string message =
      message_of(ErrorKind::kCannotCreate, [&] { write_demo_corpus(options("file/folder")); });
  EXPECT_TRUE(contains(message, "file/folder")) << message;
}

}  // namespace
}  // namespace ventris::data
