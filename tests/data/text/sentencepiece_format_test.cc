// SPDX-License-Identifier: Apache-2.0
#include "data/text/sentencepiece_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/data/test_files.h"
#include "tests/data/text/sentencepiece_model.h"

namespace ventris::data {
namespace {

using namespace std::string_literals;

std::string format_refusal(const std::string& model) {
  return message_of(ErrorKind::kBadData, [&] { check_sentencepiece_model(model, "hostile.model"); });
}

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

/// A field of four bytes.
std::string fixed(int number, float value) {
  return std::string(1, static_cast<char>(number << 3 | 5)) + raw(value);
}

std::string scored(float score) {
  return field(1, field(1, "a") + fixed(2, score));
}

TEST(ProtoFieldsTest, EveryKindOfFieldIsRead) {
  const std::string message =
      "\x08\x96\x01"s + "\x11"s + raw(2.5) + field(3, "text") + "\x25"s + raw(1.5F) + "\x2a\x00"s;
  ProtoFields fields(message);
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.number(), 1U);
  EXPECT_EQ(fields.value(), 150U);
  EXPECT_EQ(fields.bytes(), "");
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.number(), 2U);
  EXPECT_EQ(fields.bytes(), raw(2.5));
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.number(), 3U);
  EXPECT_EQ(fields.bytes(), "text");
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.number(), 4U);
  EXPECT_EQ(fields.bytes(), raw(1.5F));
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.bytes(), "");
  EXPECT_FALSE(fields.next());
  EXPECT_TRUE(fields.ok());
}

TEST(ProtoFieldsTest, BrokenBytesAreNoMessage) {
  const std::string largest = "\x08"s + std::string(9, '\xff') + "\x01"s;
  ProtoFields sound(largest);
  EXPECT_TRUE(sound.next());
  EXPECT_EQ(sound.value(), std::numeric_limits<uint64_t>::max());
  for (const std::string& message : {"\x08"s, "\x08\x80"s, "\x12\x02x"s, "\x11seven__"s, "\x25six"s, "\x0b"s,
                                     "\x08"s + std::string(10, '\xff') + "\x01"s}) {
    ProtoFields fields(message);
    EXPECT_FALSE(fields.next());
    EXPECT_FALSE(fields.ok());
    EXPECT_FALSE(fields.next());
  }
}

TEST(SentencePieceModelTest, BrokenPiecesAreRefused) {
  check_sentencepiece_model(marks() + piece("a"), "sound.model");
  EXPECT_TRUE(contains(format_refusal(marks() + piece("a\0b"s)), "hostile.model: "));
  EXPECT_TRUE(contains(format_refusal(marks() + piece("a\0b"s)), "not UTF-8"));
  EXPECT_TRUE(contains(format_refusal(marks() + piece("\xff")), "not UTF-8"));
  EXPECT_TRUE(contains(format_refusal(marks() + field(1, field(1, "a") + "\x11"s)), "is not a message"));
  EXPECT_TRUE(contains(format_refusal(marks() + field(3, "\x11"s)), "normaliser is not a message"));
  EXPECT_TRUE(contains(format_refusal(marks() + "\x11"s), "not a protocol buffer"));
}

TEST(SentencePieceModelTest, ScoresAreNumbers) {
  check_sentencepiece_model(marks() + scored(-1.5F), "sound.model");
  EXPECT_TRUE(contains(format_refusal(marks() + scored(std::numeric_limits<float>::quiet_NaN())), "score"));
  EXPECT_TRUE(contains(format_refusal(marks() + scored(-std::numeric_limits<float>::infinity())), "score"));
  // Four bytes of another field, and another size of this one, are no scores.
  const std::string no_number = raw(std::numeric_limits<float>::quiet_NaN());
  check_sentencepiece_model(marks() + field(1, field(1, "a") + field(4, no_number)), "sound.model");
  check_sentencepiece_model(marks() + field(1, field(1, "a") + field(2, no_number + no_number)),
                            "sound.model");
}

/// A trie of one block of 256 units, the root alone having children, which are in the same block: unit 0 has
/// its children at 0 ^ byte. Its labels fit nowhere until they are set.
class TableTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kValue = 1u << 31;
  static constexpr uint32_t kLeaf = 1u << 8;
  static uint32_t offset(uint32_t units) { return units << 10; }

  std::string bytes(const std::string& replacements) const {
    std::string text = raw(static_cast<uint32_t>(units_.size() * sizeof(uint32_t)));
    for (const uint32_t unit : units_) text += raw(unit);
    return text + replacements;
  }
  std::string model(const std::string& replacements) const {
    return marks() + piece("a") + field(3, field(2, bytes(replacements)));
  }
  /// A key of one byte, with its children and its value in the second block.
  void add_key(unsigned char key, uint32_t value) {
    units_.resize(512, kValue);
    units_[key] = offset(256) | kLeaf | key;
    units_[key ^ 256U] = kValue | value;
  }

  std::vector<uint32_t> units_ = std::vector<uint32_t>(256, kValue);
};

TEST_F(TableTest, TheLengthOfTheTrieIsChecked) {
  EXPECT_TRUE(ReplacementTable::parse(bytes("")));
  EXPECT_FALSE(ReplacementTable::parse(""));
  EXPECT_FALSE(ReplacementTable::parse("abc"));
  EXPECT_FALSE(ReplacementTable::parse(raw(0u)));
  EXPECT_FALSE(ReplacementTable::parse(raw(0u) + "text"));
  EXPECT_FALSE(ReplacementTable::parse(raw(3u) + "text"));
  EXPECT_FALSE(ReplacementTable::parse(raw(8u) + "text"));
  EXPECT_TRUE(ReplacementTable::parse(raw(4u) + "text"));
}

TEST_F(TableTest, ASearchStaysInside) {
  units_[0] = 0;
  add_key('a', 2);
  check_sentencepiece_model(model("x\0y\0"s), "sound.model");
  units_[0] = kValue;  // with an offset like that of any other
  EXPECT_TRUE(contains(format_refusal(model("x\0y\0"s)), "outside"));
  units_[0] = 0;
  EXPECT_TRUE(contains(format_refusal(model("")), "outside"));
  EXPECT_TRUE(contains(format_refusal(model("x\0y"s)), "outside"));
  EXPECT_TRUE(contains(format_refusal(model("x\0"s)), "outside"));  // the value is the place after the last
  units_['a'] = offset(512) | 'a';
  EXPECT_TRUE(contains(format_refusal(model("x\0y\0"s)), "outside"));
}

TEST_F(TableTest, KeysWithSpacesAreFound) {
  const std::string replacements = "x\0 \0"s;
  units_[0] = 0;
  add_key('a', 0);
  EXPECT_TRUE(ReplacementTable::parse(bytes(replacements))->keeps_spaces_apart());
  add_key(' ', 2);
  EXPECT_TRUE(ReplacementTable::parse(bytes(replacements))->keeps_spaces_apart());
  add_key(' ', 0);
  EXPECT_FALSE(ReplacementTable::parse(bytes(replacements))->keeps_spaces_apart());
  add_key(' ', 2);
  units_[' '] &= ~kLeaf;
  EXPECT_FALSE(ReplacementTable::parse(bytes(replacements))->keeps_spaces_apart());
  add_key(' ', 2);
  units_[256U ^ ' ' ^ 'b'] = 'b';  // the key " b"
  EXPECT_FALSE(ReplacementTable::parse(bytes(replacements))->keeps_spaces_apart());
  units_[256U ^ ' ' ^ 'b'] = kValue;
  units_[256U ^ 'a' ^ ' '] = ' ';  // the key "a "
  EXPECT_FALSE(ReplacementTable::parse(bytes(replacements))->keeps_spaces_apart());
}

}  // namespace
}  // namespace ventris::data
