// SPDX-License-Identifier: Apache-2.0
#include "data/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/text/tokenizer_training.h"
#include "tests/data/test_files.h"
#include "tests/data/text/sentencepiece_model.h"

namespace ventris::data {
namespace {

using Strings = std::vector<std::string>;

/// Sentences of a small grammar: enough different words for a vocabulary of some hundred.
Strings small_text(int sentences = 400) {
  const Strings who = {"the small boy", "a tall woman", "an old man",
                       "the quick fox", "my neighbour", "größere Hunde"};
  const Strings does = {"jumps over", "looks at", "walks towards", "paints", "remembers", "überholt"};
  const Strings what = {"the lazy dog", "seven wooden chairs", "a house by the river", "tomorrow's newspaper",
                        "zwölf Äpfel"};
  Strings text;
  for (int i = 0; i < sentences; ++i) {
    const auto n = static_cast<size_t>(i);
    text.push_back(who[n % who.size()] + " " + does[n / 6 % does.size()] + " " + what[n / 36 % what.size()] +
                   " " + std::to_string(i));
  }
  return text;
}

TokenizerTraining options_of(TokenizerKind kind, int vocab_size) {
  TokenizerTraining options;
  options.kind = kind;
  options.vocab_size = vocab_size;
  return options;
}

class TokenizerKindTest : public ::testing::TestWithParam<TokenizerKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerKindTest,
                         ::testing::Values(TokenizerKind::kBpe, TokenizerKind::kUnigram),
                         [](const auto& info) {
                           return info.param == TokenizerKind::kBpe ? "Bpe" : "Unigram";
                         });

TEST_P(TokenizerKindTest, ATrainedModelHasTheVocabularyAndTheMarks) {
  const Tokenizer tokenizer(train_tokenizer(small_text(), options_of(GetParam(), 90)), "test");
  EXPECT_EQ(tokenizer.vocab_size(), 90);
  EXPECT_EQ(tokenizer.unknown_id(), 0);
  EXPECT_EQ(tokenizer.begin_id(), 1);
  EXPECT_EQ(tokenizer.end_id(), 2);
  EXPECT_EQ(tokenizer.piece(1), "<s>");
}

TEST_P(TokenizerKindTest, DecodingUndoesEncoding) {
  const Strings text = small_text();
  const Tokenizer tokenizer(train_tokenizer(text, options_of(GetParam(), 90)), "test");
  for (const std::string& sentence : text) {
    const std::vector<int32_t> ids = tokenizer.encode(sentence);
    EXPECT_GT(ids.size(), 1u);
    EXPECT_EQ(tokenizer.decode(ids), sentence);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.unknown_id()), 0);
  }
}

TEST_P(TokenizerKindTest, ATooLargeVocabularyNamesTheLargestThatWorks) {
  const Strings text = small_text(40);
  const std::string message =
      message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(text, options_of(GetParam(), 32000)); });
  const std::string mark = "the maximum is ";
  const size_t at = message.find(mark);
  ASSERT_NE(at, std::string::npos) << message;
  const int largest = std::stoi(message.substr(at + mark.size()));
  const Tokenizer tokenizer(train_tokenizer(text, options_of(GetParam(), largest)), "test");
  EXPECT_EQ(tokenizer.vocab_size(), largest);
  message_of(ErrorKind::kBadConfiguration,
             [&] { train_tokenizer(text, options_of(GetParam(), largest + 1)); });
}

TEST_P(TokenizerKindTest, ATooSmallVocabularyIsTold) {
  const std::string message = message_of(ErrorKind::kBadConfiguration,
                                         [&] { train_tokenizer(small_text(), options_of(GetParam(), 10)); });
  EXPECT_TRUE(contains(message, "too small")) << message;
}

TEST(TokenizerTest, BadTrainingOptionsAreRefused) {
  TokenizerTraining options = options_of(TokenizerKind::kBpe, 90);
  message_of(ErrorKind::kBadData, [&] { train_tokenizer({}, options); });
  message_of(ErrorKind::kBadData, [&] { train_tokenizer({"", ""}, options); });
  options.lowercase = true;
  options.identity = true;
  message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(small_text(), options); });
}

TEST(TokenizerTest, NormalisationFollowsTheOptions) {
  Strings text = small_text();
  text.push_back("ﬁne Ｗｉｄｅ THE UPPER Case");
  TokenizerTraining options = options_of(TokenizerKind::kBpe, 90);
  const auto round_trip = [&](const std::string& sentence) {
    const Tokenizer tokenizer(train_tokenizer(text, options), "test");
    return tokenizer.decode(tokenizer.encode(sentence));
  };
  EXPECT_EQ(round_trip("ﬁne Ｗｉｄｅ Case"), "fine Wide Case");
  options.lowercase = true;
  EXPECT_EQ(round_trip("ﬁne Ｗｉｄｅ Case"), "fine wide case");
  options.lowercase = false;
  options.identity = true;
  EXPECT_EQ(round_trip("ﬁne Ｗｉｄｅ Case"), "ﬁne Ｗｉｄｅ Case");
}

TEST(TokenizerTest, AnUnknownCharacterGetsTheUnknownMark) {
  const Tokenizer tokenizer(train_tokenizer(small_text(), options_of(TokenizerKind::kBpe, 90)), "test");
  const std::vector<int32_t> ids = tokenizer.encode("the 日 dog");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 1);
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_TRUE(tokenizer.encode("  \t ").empty());
  std::vector<int32_t> overwritten = {5, 6, 7};
  tokenizer.encode("", overwritten);
  EXPECT_TRUE(overwritten.empty());
}

const std::string kBpe = {3 << 3, 2};  // of the options of the training

TEST(TokenizerTest, PiecesAreFoundAndDecodedTextIsOneLine) {
  std::string model = marks();
  for (int byte = 0; byte < 256; ++byte) model += piece(fmt::format("<0x{:02X}>", byte), 6);
  model += piece("a") + piece("\u2581");
  constexpr char kByteFallback[] = {'\x98', '\x02', 1};  // field 35
  model += field(2, kBpe + std::string(kByteFallback, sizeof(kByteFallback)));
  const Tokenizer tokenizer(model, "bytes.model");
  EXPECT_EQ(tokenizer.find("a"), 259);
  EXPECT_EQ(tokenizer.find("<0x0A>"), 13);
  EXPECT_EQ(tokenizer.find("<unk>"), 0);
  EXPECT_EQ(tokenizer.find("b"), -1);
  EXPECT_EQ(tokenizer.find(""), -1);
  EXPECT_EQ(tokenizer.decode({259, 13, 259, 13}), "a a ");
}

TEST(TokenizerTest, ModelsThatWouldTakeManyTimesTheirSizeAreRefused) {
  const auto refusal = [](const std::string& pieces, const std::string& options) {
    return message_of(ErrorKind::kBadData,
                      [&] { Tokenizer(marks() + pieces + field(2, kBpe + options), "hostile.model"); });
  };
  EXPECT_EQ(Tokenizer(marks() + piece("a") + field(2, kBpe), "small.model").vocab_size(), 4);
  EXPECT_TRUE(contains(refusal(piece("a") + piece("a"), ""), "hostile.model: "));
  EXPECT_TRUE(contains(refusal(piece("a") + piece("a"), ""), "twice"));
  EXPECT_TRUE(contains(refusal(piece(""), ""), "empty"));
  EXPECT_TRUE(contains(refusal(field(1, ""), ""), "empty"));
  std::string many;
  for (int i = 0; i < 1'000'000; ++i) many += piece("a");
  EXPECT_TRUE(contains(refusal(many, ""), "more than 1,000,000 pieces"));
  std::string symbols;
  for (int i = 0; i < 140'000; ++i) symbols += field(7, "");
  EXPECT_TRUE(contains(refusal("", symbols), "256 KiB"));
}

TEST(TokenizerTest, TokensOutsideTheVocabularyAreRefused) {
  const Tokenizer tokenizer(train_tokenizer(small_text(), options_of(TokenizerKind::kBpe, 90)), "test");
  message_of(ErrorKind::kBadData, [&] { tokenizer.decode({90}); });
  message_of(ErrorKind::kBadData, [&] { tokenizer.decode({-1}); });
  message_of(ErrorKind::kBadData, [&] { tokenizer.piece(90); });
  EXPECT_EQ(tokenizer.decode({1, 2}), "");
}

TEST(TokenizerTest, SymbolsAreTokensAndControlSymbolsAreInNoText) {
  TokenizerTraining options = options_of(TokenizerKind::kBpe, 110);
  options.user_symbols = {"<bt>", "boy ju"};
  message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(small_text(), options); });
  options.user_symbols = {"<bt>", "mall", "q\"uo,te"};
  options.control_symbols = {"<domain>"};
  const Tokenizer tokenizer(train_tokenizer(small_text(), options), "test");
  const int32_t tag = tokenizer.find("<bt>");
  ASSERT_GT(tag, 2);
  EXPECT_GT(tokenizer.find("q\"uo,te"), 2);
  EXPECT_EQ(tokenizer.encode("<bt> the small boy")[1], tag);
  const std::vector<int32_t> ids = tokenizer.encode("<bt> the small boy<bt>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tag), 2);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.find("mall")), 1);
  EXPECT_EQ(tokenizer.decode(ids), "<bt> the small boy<bt>");
  const int32_t control = tokenizer.find("<domain>");
  ASSERT_GT(control, 2);
  const std::vector<int32_t> text = tokenizer.encode("the <domain> dog");
  EXPECT_EQ(std::count(text.begin(), text.end(), control), 0);
  EXPECT_EQ(tokenizer.decode({control}), "");
}

TEST(TokenizerTest, SymbolsThatCannotBeTokensAreRefused) {
  EXPECT_EQ(symbols_of("a,<b>"), (Strings{"a", "<b>"}));
  EXPECT_EQ(symbols_of("a,"), (Strings{"a", ""}));
  EXPECT_TRUE(symbols_of("").empty());
  const auto refusal = [](const Strings& user, const Strings& control, bool bytes = false) {
    TokenizerTraining options = options_of(TokenizerKind::kBpe, 90);
    options.user_symbols = user;
    options.control_symbols = control;
    options.byte_fallback = bytes;
    return message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(small_text(), options); });
  };
  EXPECT_TRUE(contains(refusal({"a", ""}, {}), "--user-symbols: '' cannot be a symbol: it is empty"));
  EXPECT_TRUE(contains(refusal({}, {"two words"}), "--control-symbols: 'two words' cannot be a symbol"));
  EXPECT_TRUE(contains(refusal({"<s>"}, {}), "mark"));
  EXPECT_TRUE(contains(refusal({"<a>"}, {"<a>"}), "twice"));
  EXPECT_TRUE(contains(refusal({"\xff"}, {}), "UTF-8"));
  EXPECT_TRUE(contains(refusal({"<0x41>"}, {}, true), "byte"));
}

TEST(TokenizerTest, ByteFallbackLeavesNothingUnknown) {
  TokenizerTraining options = options_of(TokenizerKind::kBpe, 400);
  options.byte_fallback = true;
  for (const TokenizerKind kind : {TokenizerKind::kBpe, TokenizerKind::kUnigram, TokenizerKind::kChar}) {
    SCOPED_TRACE(name_of(kind));
    options.kind = kind;
    const Tokenizer tokenizer(train_tokenizer(small_text(), options), "test");
    const std::vector<int32_t> ids = tokenizer.encode("the 日本 dog");
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.unknown_id()), 0);
    EXPECT_EQ(tokenizer.decode(ids), "the 日本 dog");
  }
}

TEST(TokenizerTest, WordsAreWholeAndEachUnknownOneIsATokenOfItsOwn) {
  TokenizerTraining options = options_of(TokenizerKind::kWord, 30);
  const std::string model = train_tokenizer(small_text(), options);
  const Tokenizer tokenizer(model, "test");
  EXPECT_EQ(tokenizer.vocab_size(), 30);
  const int32_t the = tokenizer.find("\u2581the");
  ASSERT_GT(the, 2);
  EXPECT_EQ(tokenizer.encode("the blue zebra  the"), (std::vector<int32_t>{the, 0, 0, the}));
  EXPECT_EQ(tokenizer.decode({the, 0, 0, the}), "the <unk> <unk> the");
  EXPECT_EQ(tokenizer.decode({0}), "<unk>");
  EXPECT_EQ(tokenizer.decode({}), "");
  options.vocab_size = 30000;  // fewer words than that
  const Tokenizer all(train_tokenizer(small_text(), options), "test");
  EXPECT_LT(all.vocab_size(), 500);
  for (const std::string& line : small_text()) EXPECT_EQ(all.decode(all.encode(line)), line);
  options.no_dummy_prefix = true;
  message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(small_text(), options); });
  options.no_dummy_prefix = false;
  options.split_digits = true;
  message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(small_text(), options); });
  options.split_digits = false;
  options.byte_fallback = true;
  message_of(ErrorKind::kBadConfiguration, [&] { train_tokenizer(small_text(), options); });
}

TEST(TokenizerTest, TheCoverageFollowsTheScript) {
  TokenizerTraining options = options_of(TokenizerKind::kChar, 5000);
  options.character_coverage = 0.0;
  Strings japanese;
  for (int i = 0; i < 400; ++i) {
    japanese.emplace_back("the small boy reads a book");
    japanese.emplace_back("少年は本を読みます。毎日学校へ行きます。");
  }
  japanese.emplace_back("薔薇");  // two of 27,602 characters
  const auto unknown_of = [&](const Strings& text, const std::string& line) {
    const std::string model = train_tokenizer(text, options);
    const std::vector<int32_t> ids = Tokenizer(model, "test").encode(line);
    const auto unknown = std::ranges::count(ids, 0);
    const std::string record = training_record(options, model);
    EXPECT_TRUE(
        contains(record, unknown == 0 ? "\"character_coverage\":1.0" : "\"character_coverage\":0.9995"))
        << record;
    return unknown;
  };
  EXPECT_EQ(unknown_of(japanese, "薔薇"), 1) << "neighbours are one token";
  Strings latin(800, "the small boy reads a book");
  latin.emplace_back("ßæ");
  EXPECT_EQ(unknown_of(latin, "ßæ"), 0);
  options.character_coverage = 1.0;
  EXPECT_EQ(unknown_of(japanese, "薔薇"), 0);
}

TEST(TokenizerTest, TheRecordHasWhatIsUsed) {
  TokenizerTraining options = options_of(TokenizerKind::kUnigram, 90);
  EXPECT_EQ(training_record(options, ""),
            R"({"kind":"unigram","vocab_size":90,"character_coverage":1.0,"max_sentences":2000000,)"
            R"("lowercase":false,"identity":false})");
  options.kind = TokenizerKind::kChar;
  options.user_symbols = {"<a>"};
  options.control_symbols = {"b"};
  options.byte_fallback = options.split_digits = options.no_dummy_prefix = true;
  EXPECT_EQ(training_record(options, ""),
            R"({"kind":"char","vocab_size":90,"character_coverage":1.0,"max_sentences":2000000,)"
            R"("lowercase":false,"identity":false,"user_symbols":["<a>"],"control_symbols":["b"],)"
            R"("byte_fallback":true,"split_digits":true,"no_dummy_prefix":true})");
}

class TokenizerFileTest : public FolderTest {};

TEST_F(TokenizerFileTest, AModelIsReadFromItsFile) {
  const std::string model = train_tokenizer(small_text(), options_of(TokenizerKind::kUnigram, 90));
  const Tokenizer tokenizer = Tokenizer::from_file(put("t.model", model));
  EXPECT_EQ(tokenizer.model(), model);
}

TEST_F(TokenizerFileTest, BadModelFilesAreTold) {
  message_of(ErrorKind::kMissingInput, [&] { Tokenizer::from_file(in_folder("absent")); });
  const std::string path = put("t.model", "this is no model at all");
  EXPECT_TRUE(contains(message_of(ErrorKind::kBadData, [&] { Tokenizer::from_file(path); }), path));
  put("t.model", "");
  message_of(ErrorKind::kBadData, [&] { Tokenizer::from_file(path); });
  const std::string model = train_tokenizer(small_text(), options_of(TokenizerKind::kBpe, 90));
  for (const size_t length : {model.size() / 3, model.size() / 2, model.size() - 1}) {
    put("t.model", model.substr(0, length));
    message_of(ErrorKind::kBadData, [&] { Tokenizer::from_file(path); });
  }
  message_of(ErrorKind::kMissingInput, [&] { Tokenizer::from_file(folder_.string()); });
}

TEST(TokenizerSharedTest, SentencePieceTestModelsLoad) {
  VENTRIS_NEEDS_SHARED_DATA("sentencepiece/test_model.model");
  const Tokenizer english = Tokenizer::from_file(shared_data("sentencepiece/test_model.model"));
  EXPECT_EQ(english.vocab_size(), 1000);
  EXPECT_EQ(english.decode(english.encode("this is a test")), "this is a test");
  const Tokenizer japanese = Tokenizer::from_file(shared_data("sentencepiece/test_ja_model.model"));
  EXPECT_GT(japanese.vocab_size(), 1000);
  EXPECT_FALSE(japanese.encode("吾輩は猫である").empty());
}

}  // namespace
}  // namespace ventris::data
