// SPDX-License-Identifier: Apache-2.0
// What all compressed forms have in common.

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <vector>

#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using Strings = std::vector<std::string>;

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(
      lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                              text.size(), reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
      LZMA_OK);
  out.resize(size);
  return out;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd_with_window(const std::string& text, int window_bits) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_bits > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_bits);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_inBuffer from{text.data(), text.size(), 0};
  // In two calls: the size of the content, which would bound the window, is not known.
  ZSTD_compressStream2(context, &to, &from, ZSTD_e_continue);
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &from, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

std::string zstd(const std::string& text) {
  return zstd_with_window(text, 0);
}

struct Form {
  const char* name;
  std::string (*compress)(const std::string& text);
};

std::string numbers(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += std::to_string(i * 7919) + "\n";
  return text;
}

class CompressedTextTest : public FolderTest, public ::testing::WithParamInterface<Form> {
 protected:
  static std::string compress(const std::string& text) { return GetParam().compress(text); }
  std::string refusal(const std::string& bytes) const {
    const std::string path = put("bad", bytes);
    const std::string message = message_of(ErrorKind::kBadData, [&] { lines_of(path); });
    EXPECT_TRUE(contains(message, path + ":") && contains(message, GetParam().name)) << message;
    return message;
  }
};

TEST_P(CompressedTextTest, LinesAreThoseOfThePlainFile) {
  const std::string text = numbers(200000);
  ASSERT_GT(text.size(), size_t{1} << 20);  // several buffers
  EXPECT_EQ(lines_of(put("compressed", compress(text))), lines_of(put("plain", text)));
  EXPECT_EQ(lines_of(put("empty", compress(""))), Strings{});
}

TEST_P(CompressedTextTest, SeveralPartsAreOneText) {
  const std::string parts = compress("one\ntw") + compress("o\nthree\n");
  EXPECT_EQ(lines_of(put("a", parts)), (Strings{"one", "two", "three"}));
  const std::string padding(300001, '\0');
  EXPECT_EQ(lines_of(put("a", parts + padding + compress("four") + padding)),
            (Strings{"one", "two", "three", "four"}));
}

TEST_P(CompressedTextTest, OtherBytesMayNotFollow) {
  for (const std::string& rest : {std::string("text\n"), std::string("\xfd"), std::string("\x28\xb5"),
                                  std::string("\x1f"), std::string("\x1f\x8b"), "j" + compress("two\n")}) {
    for (const std::string& padding : {std::string(), std::string(8, '\0')}) {
      const std::string message = refusal(compress(numbers(500)) + padding + rest);
      EXPECT_TRUE(contains(message, "bad:501: ") && contains(message, "followed by other bytes")) << message;
    }
  }
}

TEST_P(CompressedTextTest, TruncatedDataIsAnError) {
  const std::string good = compress(numbers(20000));
  for (const size_t length : {size_t{8}, good.size() / 2, good.size() - 1}) {
    EXPECT_TRUE(contains(refusal(good.substr(0, length)), "truncated")) << length;
  }
}

TEST_P(CompressedTextTest, CorruptDataIsAnError) {
  const std::string good = compress(numbers(20000));
  std::string bad = good;
  bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 0x40);
  EXPECT_TRUE(contains(refusal(bad), "corrupt"));
}

INSTANTIATE_TEST_SUITE_P(Forms, CompressedTextTest,
                         ::testing::Values(Form{"gzip", gzip}, Form{"xz", xz}, Form{"zstd", zstd}),
                         [](const auto& info) { return std::string(info.param.name); });

class ZstdTextTest : public FolderTest {};

TEST_F(ZstdTextTest, FramesWithoutTextAreSkipped) {
  const std::string skippable{"\x5a\x2a\x4d\x18\x03\0\0\0abc", 11};
  EXPECT_EQ(lines_of(put("a", skippable + zstd("one\n") + skippable + zstd("two\n"))),
            (Strings{"one", "two"}));
}

TEST_F(ZstdTextTest, AWindowThatWouldTakeTooMuchMemoryIsRefused) {
  const std::string path = put("a", zstd_with_window(numbers(1000), 28));
  const std::string message = message_of(ErrorKind::kBadData, [&] { lines_of(path); });
  EXPECT_TRUE(contains(message, "memory")) << message;
}

TEST_F(ZstdTextTest, TextThatBeginsLikeAMarkIsText) {
  for (const std::string text : {"P", "(", "P*", "Z*M", "\xfd",
                                 "\xfd"
                                 "7zX"}) {
    EXPECT_EQ(lines_of(put("a", text + "\n")), Strings{text});
    EXPECT_EQ(lines_of(put("a", text)), Strings{text});
  }
}

}  // namespace
}  // namespace ventris::data
