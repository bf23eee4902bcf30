// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <set>

#include "data/corpus.h"
#include "data/io/hdf5_reader.h"
#include "data/ordered_pipeline.h"
#include "data/text/sentencepiece_format.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/prepare_fixture.h"

namespace ventris::data {
namespace {

TEST_F(PrepareTest, ACorpusHoldsTheTextAsTokens) {
  const int before = files();
  const PrepareReport report = prepare(options_);
  EXPECT_EQ(files(), before + 1) << "the corpus and nothing else";
  EXPECT_EQ(report.train.read, 500);
  EXPECT_EQ(report.train.kept, 500);
  EXPECT_EQ(report.valid.kept, 20);
  EXPECT_EQ(report.vocab_size, 100);
  EXPECT_EQ(report.train.unknown_tokens, 0);
  const Corpus corpus(options_.output);
  EXPECT_EQ(corpus.digest(), report.digest);
  EXPECT_EQ(corpus.path(), options_.output);
  ASSERT_EQ(corpus.train().size(), 500);
  ASSERT_EQ(corpus.valid().size(), 20);
  EXPECT_EQ(corpus.train().source.total_tokens(), report.train.source_tokens);
  EXPECT_EQ(corpus.train().target.total_tokens(), report.train.target_tokens);
  int longest = 0;
  const auto check = [&](const SentenceArray& side, int64_t i, const std::string& line) {
    const std::vector<int32_t> ids(side[i].begin(), side[i].end());
    EXPECT_EQ(corpus.tokenizers().target().decode(ids), line);
    EXPECT_EQ(ids, corpus.tokenizers().target().encode(line));
    longest = std::max(longest, side.length(i));
  };
  for (int i = 0; i < 500; ++i) {
    check(corpus.train().source, i, english(i));
    check(corpus.train().target, i, german(i));
  }
  for (int i = 0; i < 20; ++i) {
    check(corpus.valid().source, i, english(500 + i));
    check(corpus.valid().target, i, german(500 + i));
    EXPECT_EQ(corpus.valid_reference(i), german(500 + i));
  }
  EXPECT_EQ(corpus.max_length(), longest);
  EXPECT_THROW(corpus.valid_reference(20), DataError);
}

TEST_F(PrepareTest, ThreadsCompressionAndFoldersDoNotChangeTheBytes) {
  train().source = put("train.en", text_of(english, 0, 20000));
  train().target = put("train.de", text_of(german, 0, 20000));
  options_.tokenizer.max_sentences = 3000;
  options_.threads = 1;
  const std::string digest = prepare(options_).digest;
  const std::string bytes = bytes_of(options_.output);
  options_.threads = 5;
  EXPECT_EQ(prepare(options_).digest, digest);
  EXPECT_EQ(bytes_of(options_.output), bytes);
  std::filesystem::create_directory(folder_ / "elsewhere");
  train().source = put_gzip("elsewhere/train.en", text_of(english, 0, 20000));
  EXPECT_EQ(prepare(options_).digest, digest);
}

TEST(RunInOrder, EveryWorkerHasOneBlockAtATimeAndTheirOrderStays) {
  constexpr int kBlocks = 3000;
  int produced = 0;
  int consumed = 0;
  std::array<std::atomic<int>, 3> blocks{};
  run_in_order<int>(
      static_cast<int>(blocks.size()),
      [&](int& block) {
        block = produced++;
        return block < kBlocks;
      },
      [&](int& block, size_t worker) {
        EXPECT_EQ(blocks[worker]++, 0);
        block = -block;
        --blocks[worker];
      },
      [&](const int& block) { EXPECT_EQ(block, -consumed++); });
  EXPECT_EQ(consumed, kBlocks);
}

TEST_F(PrepareTest, ThisProcessIsToldOfAllPhases) {
  std::set<std::string> phases;
  options_.progress = [&](const PrepareProgress& progress) { phases.insert(progress.phase); };
  prepare(options_);
  EXPECT_EQ(phases, (std::set<std::string>{"training the tokenizer", "tokenizing", "writing"}));
}

TEST_F(PrepareTest, UnequalValidationFilesWithOverlapAreToldBeforeTheTextIsTokenized) {
  options_.drop_overlap = Likeness::kExact;
  valid().target = put("valid.de", text_of(german, 500, 519));
  std::set<std::string> phases;
  options_.progress = [&](const PrepareProgress& progress) { phases.insert(progress.phase); };
  const std::string message = expect_failure(ErrorKind::kBadData);
  EXPECT_TRUE(contains(message, "valid.en has 20 lines") && contains(message, "valid.de has 19")) << message;
  EXPECT_FALSE(phases.contains("tokenizing"));
}

TEST_F(PrepareTest, SeveralFilesASideAreReadInOrder) {
  const std::string whole = prepare(options_).digest;
  const Corpus one(options_.output);
  options_.corpora[0].files = {
      {put("1.en", text_of(english, 0, 123)), put_gzip("1.de.gz", text_of(german, 0, 123))},
      {put_gzip("2.en.gz", text_of(english, 123, 500)), put("2.de", text_of(german, 123, 500))}};
  options_.output = in_folder("other.h5");
  EXPECT_EQ(prepare(options_).train.kept, 500);
  const Corpus two(options_.output);
  for (int64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(std::ranges::equal(one.train().source[i], two.train().source[i]));
    ASSERT_TRUE(std::ranges::equal(one.train().target[i], two.train().target[i]));
  }
}

TEST_F(PrepareTest, AGivenTokenizerIsUsed) {
  prepare(options_);
  const std::string model = Corpus(options_.output).tokenizers().target().model();
  options_.tokenizer_model = put("t.model", model);
  options_.tokenizer.vocab_size = 7;  // of no account now
  EXPECT_EQ(prepare(options_).vocab_size, 100);
  EXPECT_EQ(Corpus(options_.output).tokenizers().target().model(), model);
  EXPECT_EQ(Hdf5Reader(options_.output).string_attribute("/", "tokenizer_origin"), R"({"given":"t.model"})");
}

TEST_F(PrepareTest, AnEmptyLineStaysEmptyWithATagOfOneTokenOrTwo) {
  const auto texts = [](const std::string& blank) { return blank + "\na\n" + text_of(english, 0, 20); };
  for (const std::vector<std::string>& symbols : {std::vector<std::string>{}, {"<bt>"}}) {
    options_.tokenizer_model.clear();
    options_.tokenizer.user_symbols = symbols;
    options_.corpora[0].source_tag = symbols.empty() ? "<bt>" : "";
    prepare(options_);
    const Corpus trained(options_.output);
    ASSERT_EQ(trained.tokenizers().target().encode("<bt>").size(), 1 + symbols.size());
    PrepareOptions tagged = options_;
    tagged.tokenizer_model = put("t.model", trained.tokenizers().target().model());
    tagged.max_length_ratio = 0;
    tagged.output = in_folder("tagged.h5");
    tagged.corpora = {{.name = "bt",
                       .files = {{put("bt.en", texts(" ")), put("bt.de", texts("ein"))},
                                 {put("bt2.en", texts("a")), put("bt2.de", texts(""))}},
                       .source_tag = "<bt>",
                       .target_tag = "<bt>"}};
    const PrepareReport report = prepare(tagged);
    EXPECT_EQ(report.train.empty, 2) << symbols.size();
    EXPECT_EQ(report.train.kept, 42) << "a line of one token and a tag is not empty";
  }
}

TEST_F(PrepareTest, TheFileTellsWhatItWasMadeOf) {
  options_.corpora[0].source_tag = "<bt>";
  options_.tokenizer.user_symbols = {"<news>"};
  const PrepareReport report = prepare(options_);
  const Hdf5Reader reader(options_.output);
  const std::string origin = reader.string_attribute("/", "tokenizer_origin");
  EXPECT_TRUE(contains(origin, "\"user_symbols\":[\"<news>\",\"\u2581<bt>\"]")) << origin;
  EXPECT_EQ(reader.string_attribute("/", "format"), "ventris-corpus");
  EXPECT_EQ(reader.int_attribute("/", "format_version"), 2);
  EXPECT_EQ(reader.int_attribute("/", "train_pairs"), 500);
  EXPECT_EQ(reader.int_attribute("/", "valid_pairs"), 20);
  EXPECT_EQ(reader.int_attribute("/", "train_source_words"), report.train.source_tokens);
  EXPECT_EQ(reader.double_attribute("/", "max_length_ratio"), 9.0);
  const std::string inputs = reader.string_attribute("/", "train_inputs");
  EXPECT_TRUE(inputs.starts_with(R"([{"name":"train.en","lines":500,"xxh3_128":")")) << inputs;
}

TEST_F(PrepareTest, DroppedPairsAreCounted) {
  std::string source = text_of(english, 0, 400);
  std::string target = text_of(german, 0, 400);
  const auto pair = [&](const std::string& english_line, const std::string& german_line) {
    source += english_line + "\n";
    target += german_line + "\n";
  };
  std::string long_line;
  for (int i = 0; i < 100; ++i) {
    long_line += "garden ";
  }
  pair("", "die große Frau");           // 401
  pair("the tall woman", " \t ");       // 402
  pair(long_line, long_line);           // 403
  pair("a", long_line.substr(0, 300));  // 404
  pair("the old dog", "der alte Hund");
  train().source = put("train.en", source);
  train().target = put("train.de", target);
  options_.max_length = 90;
  options_.max_length_ratio = 3.0;
  const PrepareCounts counts = prepare(options_).train;
  EXPECT_EQ(counts.read, 405);
  EXPECT_EQ(counts.kept, 401);
  EXPECT_EQ(counts.empty, 2);
  EXPECT_EQ(counts.too_long, 1);
  EXPECT_EQ(counts.bad_ratio, 1);
  const Corpus corpus(options_.output);
  const TokenView last = corpus.train().source[400];
  EXPECT_EQ(corpus.tokenizers().target().decode({last.begin(), last.end()}), "the old dog");
}

TEST_F(PrepareTest, ValidationPairsAreCutNotDropped) {
  std::string long_line;
  for (int i = 0; i < 50; ++i) {
    long_line += "garden ";
  }
  valid().source = put("valid.en", long_line + "\na\n");
  valid().target = put("valid.de", "Garten\n" + long_line + "\n");
  options_.max_length = 20;
  const PrepareCounts counts = prepare(options_).valid;
  EXPECT_EQ(counts.kept, 2);
  EXPECT_EQ(counts.too_long, 2);
  const Corpus corpus(options_.output);
  EXPECT_EQ(corpus.valid().source.length(0), 20);
  EXPECT_EQ(corpus.valid().target.length(1), 20);
  EXPECT_EQ(corpus.valid_reference(1), long_line) << "the reference is the whole line";
}

TEST_F(PrepareTest, ValidationIsOptional) {
  options_.valid.clear();
  prepare(options_);
  const Corpus corpus(options_.output);
  EXPECT_EQ(corpus.train().size(), 500);
  EXPECT_EQ(corpus.valid().size(), 0);
  EXPECT_EQ(corpus.valid().source.total_tokens(), 0);
}

TEST_F(PrepareTest, CarriageReturnsAreRepairedAndCounted) {
  const std::string clean = prepare(options_).digest;
  std::string target;
  for (int i = 0; i < 500; ++i) {
    target += german(i) + "\r\n";
  }
  const Corpus without(options_.output);
  options_.output = in_folder("other.h5");
  train().target = put("train.de", target);
  const PrepareReport report = prepare(options_);
  EXPECT_EQ(report.train.repaired_crlf, 500);
  EXPECT_EQ(report.train.kept, 500);
  EXPECT_NE(report.digest, clean) << "the provenance tells the inputs apart";
  const Corpus with(options_.output);
  for (int64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(std::ranges::equal(with.train().target[i], without.train().target[i]));
  }
}

TEST_F(PrepareTest, NulBytesAreRepairedAndCounted) {
  train().source = put("train.en", text_of(english, 0, 500) + std::string("the\0old dog\n", 12));
  train().target = put("train.de", text_of(german, 0, 500) + std::string("ein alter\0Hund\r\n", 16));
  const PrepareCounts counts = prepare(options_).train;
  EXPECT_EQ(counts.repaired_nul, 1);
  EXPECT_EQ(counts.repaired_crlf, 1);
  const Corpus corpus(options_.output);
  const TokenView last = corpus.train().source[500];
  EXPECT_EQ(corpus.tokenizers().target().decode({last.begin(), last.end()}), "the old dog");
}

TEST_F(PrepareTest, InvalidUtf8NamesFileLineAndByte) {
  const std::string bad = text_of(german, 0, 321) +
                          "gr\xf6\xdf"
                          "er\n" +
                          text_of(german, 322, 500);
  const auto check = [&] {
    train().target = put("train.de", bad);
    const std::string message = expect_failure(ErrorKind::kBadData);
    EXPECT_TRUE(contains(message, train().target + ":322: byte 3 ") && contains(message, "f6")) << message;
  };
  check();
  // With a given tokenizer the text is read only once, by the workers.
  train().target = put("train.de", text_of(german, 0, 500));
  prepare(options_);
  options_.tokenizer_model = put("t.model", Corpus(options_.output).tokenizers().target().model());
  check();
}

TEST_F(PrepareTest, AnOldCorpusStaysWhenANewOneFails) {
  const std::string digest = prepare(options_).digest;
  train().target = put("train.de", text_of(german, 0, 499) + "\xff\n");
  expect_failure(ErrorKind::kBadData);
  EXPECT_EQ(Corpus(options_.output).digest(), digest);
}

TEST_F(PrepareTest, ALineJustUnderAMegabyteIsDroppedAsTooLong) {
  std::string line;
  while (line.size() < 500000) {
    line += "the old dog ";
  }
  train().source = put("train.en", text_of(english, 0, 500) + line + "\n");
  train().target = put("train.de", text_of(german, 0, 500) + line + "\n");
  EXPECT_EQ(prepare(options_).train.too_long, 1);
}

TEST_F(PrepareTest, MissingFilesAreToldBeforeAnythingIsDone) {
  valid().target = in_folder("absent.de");
  EXPECT_TRUE(contains(expect_failure(ErrorKind::kMissingInput), "absent.de"));
  valid().target = folder_.string();
  expect_failure(ErrorKind::kMissingInput);
  valid().target = in_folder("valid.de");
  options_.tokenizer_model = in_folder("absent.model");
  EXPECT_TRUE(contains(expect_failure(ErrorKind::kMissingInput), "absent.model"));
}

TEST_F(PrepareTest, NoPairLeftIsAnError) {
  options_.max_length = 1;
  EXPECT_TRUE(contains(expect_failure(ErrorKind::kBadData), "500"));
}

TEST_F(PrepareTest, BadOptionsAreRefused) {
  const auto refused = [&](ErrorKind kind, const std::function<void(PrepareOptions&)>& change) {
    const PrepareOptions good = options_;
    change(options_);
    expect_failure(kind);
    options_ = good;
  };
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.corpora.clear(); });
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.corpora.push_back(o.corpora[0]); });
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.corpora[0].name = "Back Translation"; });
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.corpora[0].name = "valid"; });
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.corpora[0].source_tag = "two words"; });
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.corpora[0].files = {{"-", "-"}}; });
  refused(ErrorKind::kUsage, [](PrepareOptions& o) { o.held_out = {o.valid[0].source}; });
  refused(ErrorKind::kBadConfiguration, [](PrepareOptions& o) { o.max_length_ratio = 0.5; });
}

}  // namespace
}  // namespace ventris::data
