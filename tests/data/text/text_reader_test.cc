// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using Strings = std::vector<std::string>;

class TextReaderTest : public FolderTest {};

TEST_F(TextReaderTest, ALastLineWithoutLineFeedCounts) {
  EXPECT_EQ(lines_of(put("a", "one\ntwo")), (Strings{"one", "two"}));
  EXPECT_EQ(lines_of(put("a", "one\ntwo\n")), (Strings{"one", "two"}));
  EXPECT_EQ(lines_of(put("a", "one\n\n\n")), (Strings{"one", "", ""}));
  EXPECT_EQ(lines_of(put("a", "\n")), (Strings{""}));
  EXPECT_EQ(lines_of(put("a", "")), (Strings{}));
  EXPECT_EQ(lines_of(put("a", std::string("a\0b\r\nc\r", 7))), (Strings{std::string("a\0b\r", 4), "c\r"}));
}

TEST_F(TextReaderTest, AByteOrderMarkIsRemovedAtTheBeginningAlone) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(lines_of(put("a", mark + "one\n" + mark + "two\n")), (Strings{"one", mark + "two"}));
  EXPECT_EQ(lines_of(put_gzip("a.gz", mark + "one\n")), (Strings{"one"}));
  EXPECT_EQ(lines_of(put("a", mark + mark + "one\n")), (Strings{mark + "one"}));
  EXPECT_EQ(lines_of(put("a", mark + "\n")), (Strings{""}));
  EXPECT_EQ(lines_of(put("a", mark)), (Strings{}));
  EXPECT_EQ(lines_of(put("a", mark.substr(0, 2))), (Strings{mark.substr(0, 2)}));
  for (const bool marked : {false, true}) {
    TextReader reader(put("a", (marked ? mark : "") + "one\n" + mark + "two\n"));
    std::string line;
    while (reader.next(line)) EXPECT_EQ(reader.had_mark(), marked);
    EXPECT_EQ(reader.line_number(), 2);
  }
}

TEST_F(TextReaderTest, LinesAreCounted) {
  TextReader reader(put("a", "one\ntwo\nthree"));
  std::string line;
  EXPECT_EQ(reader.line_number(), 0);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(reader.next(line));
    EXPECT_EQ(reader.line_number(), i);
  }
  EXPECT_FALSE(reader.next(line));
  EXPECT_FALSE(reader.next(line));
  EXPECT_EQ(reader.line_number(), 3);
}

TEST_F(TextReaderTest, ZerosMayFollowGzipDataAndOtherBytesMayNot) {
  const std::string zipped = bytes_of(put_gzip("a.gz", "one\ntwo\n"));
  for (const size_t zeros : {1, 1000, 300000}) {
    EXPECT_EQ(lines_of(put("b.gz", zipped + std::string(zeros, '\0'))), (Strings{"one", "two"}));
    EXPECT_EQ(lines_of(put("b.gz", zipped + std::string(zeros, '\0') + zipped)),
              (Strings{"one", "two", "one", "two"}));
  }
  for (const std::string rest : {"\x1f", "text\n", "\x1fx"}) {
    for (const size_t zeros : {0, 1, 300000}) {
      EXPECT_THROW(lines_of(put("b.gz", zipped + std::string(zeros, '\0') + rest)), DataError);
    }
  }
  EXPECT_EQ(lines_of(put("c", "\x1f")), (Strings{"\x1f"}));
  EXPECT_EQ(lines_of(put("c", "\x1f\n\x8b\n")), (Strings{"\x1f", "\x8b"}));
}

TEST_F(TextReaderTest, AMissingFileAndAFolderAreTold) {
  EXPECT_TRUE(contains(message_of(ErrorKind::kMissingInput, [&] { TextReader reader(in_folder("absent")); }),
                       in_folder("absent")));
  message_of(ErrorKind::kMissingInput, [&] { TextReader reader(folder_.string()); });
}

TEST_F(TextReaderTest, ALineThatIsTooLongIsNamed) {
  const std::string longest(kMaxLineBytes, 'a');
  EXPECT_EQ(lines_of(put("a", "one\n" + longest + "\n")).size(), 2u);
  const std::string path = put("a", "one\n" + longest + "a\n");
  EXPECT_TRUE(contains(message_of(ErrorKind::kBadData, [&] { lines_of(path); }), path + ":2:"));
}

/// The standard input is a pipe for a while.
class StandardInput {
 public:
  StandardInput() : saved_(::dup(0)) {
    EXPECT_EQ(::pipe(ends_), 0);
    EXPECT_EQ(::dup2(ends_[0], 0), 0);
  }
  ~StandardInput() {
    ::dup2(saved_, 0);
    ::close(saved_);
    ::close(ends_[0]);
  }
  void write(const std::string& bytes) const {
    ASSERT_EQ(::write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void end() const { ::close(ends_[1]); }

 private:
  int saved_;
  int ends_[2] = {-1, -1};
};

TEST_F(TextReaderTest, TheStandardInputCanBeRead) {
  const StandardInput input;
  input.write("one\ntwo\n");
  input.end();
  EXPECT_EQ(lines_of("-"), (Strings{"one", "two"}));
}

TEST_F(TextReaderTest, ALineOfAPipeIsThereBeforeTheNextIsWritten) {
  for (const bool zipped : {false, true}) {
    const std::string bytes = bytes_of(zipped ? put_gzip("a.gz", "one\n") : put("a", "one\n"));
    const StandardInput input;
    TextReader reader("-");
    std::string line;
    for (int i = 1; i <= 3; ++i) {
      input.write(bytes.substr(0, 1));
      input.write(bytes.substr(1));
      ASSERT_TRUE(reader.next(line));
      EXPECT_EQ(line, "one");
      EXPECT_EQ(reader.line_number(), i);
    }
    input.end();
    EXPECT_FALSE(reader.next(line));
  }
}

TEST(Utf8Test, ValidTextIsAccepted) {
  for (const char* text :
       {"", "plain", "größer als", "日本語テキスト", "😀 and more than eight bytes", "\x7f", "\xc2\x80",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(find_invalid_utf8(text), -1) << text;
  }
}

TEST(Utf8Test, TheFirstInvalidByteIsFound) {
  const std::string prefix = "größe 123456789 ";
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x80\x80",
                          "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xfe", "\xff", "\xf0\x9f\x98"}) {
    EXPECT_EQ(find_invalid_utf8(bad), 0);
    EXPECT_EQ(find_invalid_utf8(prefix + bad), static_cast<int64_t>(prefix.size()));
    EXPECT_EQ(find_invalid_utf8(prefix + bad + " after it"), static_cast<int64_t>(prefix.size()));
  }
}

}  // namespace
}  // namespace ventris::data
