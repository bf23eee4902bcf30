// SPDX-License-Identifier: Apache-2.0
#include "data/io/safetensors.h"

#include <cstring>
#include <ctime>

#include "data/io/atomic_file.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

std::vector<uint8_t> file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += header + data;
  return {bytes.begin(), bytes.end()};
}

std::string safetensors_refusal(const std::vector<uint8_t>& bytes) {
  return message_of(ErrorKind::kBadData, [&] { const SafetensorsFile file(bytes, "x.safetensors"); });
}

class Safetensors : public FolderTest {
 protected:
  const std::vector<float> weight_ = {1.0F, -2.5F, 3.0F, 4.0F, 5.0F, 6.0F};

  std::string write(const std::string& name) {
    write_safetensors(in_folder(name), {{"format", "a \"test\""}, {"note", "ü"}},
                      {{.name = "layer/weight", .type = "F32", .shape = {2, 3}},
                       {.name = "empty", .type = "F32", .shape = {0}},
                       {.name = "bytes", .type = "U8", .shape = {5}}},
                      [&](const SafeTensor& tensor) -> std::string_view {
                        if (tensor.name == "bytes") return "hello";
                        if (tensor.name == "empty") return "";
                        return {reinterpret_cast<const char*>(weight_.data()), 24};
                      });
    return in_folder(name);
  }
};

TEST_F(Safetensors, GivesBackTensorsInOrderAndMetadata) {
  const std::vector<uint8_t> bytes = read_file(write("a.safetensors"), kAnyBytes);
  const SafetensorsFile file(bytes, "a.safetensors");
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "layer/weight");
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.tensors()[0].type, "F32");
  const SafeTensor* last = file.find("bytes");
  ASSERT_NE(last, nullptr);
  const std::span<const uint8_t> data = file.data(*last);
  EXPECT_EQ(std::string(data.begin(), data.end()), "hello");
  EXPECT_EQ(file.data(file.tensors()[0]).size(), 24U);
  EXPECT_EQ(std::memcmp(file.data(file.tensors()[0]).data(), weight_.data(), 24), 0);
  ASSERT_NE(file.find_metadata("format"), nullptr);
  EXPECT_EQ(*file.find_metadata("format"), "a \"test\"");
  EXPECT_EQ(*file.find_metadata("note"), "ü");
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_EQ(file.find_metadata("none"), nullptr);
}

TEST_F(Safetensors, OfTheSameTensorsAreTheSameBytes) {
  EXPECT_EQ(bytes_of(write("a")), bytes_of(write("b")));
}

TEST_F(Safetensors, RefusesEveryChangedByteAndEveryLength) {
  const std::vector<uint8_t> whole = read_file(write("a.safetensors"), kAnyBytes);
  const size_t name = std::string(whole.begin(), whole.end()).find("digest");
  for (size_t i = 0; i < whole.size(); ++i) {
    if (i >= name && i < name + 6) continue;  // then it is a file without a digest
    std::vector<uint8_t> changed = whole;
    changed[i] ^= 1;
    EXPECT_TRUE(contains(safetensors_refusal(changed), "x.safetensors")) << "byte " << i;
  }
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_TRUE(contains(safetensors_refusal(cut), "x.safetensors")) << "length " << length;
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_TRUE(contains(safetensors_refusal(longer), "truncated or longer"));
}

TEST(SafetensorsHeader, OfOtherProgramsIsRead) {
  const std::vector<uint8_t> bytes = file_of(
      R"({"b":{"dtype":"I64","shape":[],"data_offsets":[4,12]},"a":{"data_offsets":[0,4],"shape":[2,1],"dtype":"BF16"}}  )",
      "0123456789ab");
  const SafetensorsFile file(bytes, "x");
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].shape.size(), 0U);
  EXPECT_EQ(file.metadata().size(), 0U);
}

TEST(SafetensorsHeader, OfAnyOtherFormIsRefused) {
  const std::string good = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_NO_THROW(SafetensorsFile(file_of(good, "abcd"), "x"));
  for (
      const char* header : {
          "",
          "[]",
          "7",
          "null",
          "{",
          "{}",
          R"({"a":1})",
          R"({"a":{}})",
          R"({"a":{"dtype":"U8","shape":[4]}})",
          R"({"a":{"dtype":"U9","shape":[4],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})",
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})",
          R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4,-1],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4,1.0],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4,null],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4,true],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4,"1"],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":7}})",
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})",
          R"({"a":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          R"({"__metadata__":{"k":7},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"__metadata__":"k","a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"__metadata__":["k"],"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"__metadata__":null,"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"__metadata__":{"k":"1","k":"1"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\u0061":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}})",
          R"({"__metadata__":{"digest":"00"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}} x)",
      }) {
    const std::string message = safetensors_refusal(file_of(header, "abcd"));
    EXPECT_FALSE(message.empty() || contains(message, "json.exception")) << header << ": " << message;
  }
  std::vector<uint8_t> bytes = file_of(good, "abcd");
  bytes[7] = 0xFF;  // a header of 2^63 bytes
  EXPECT_TRUE(contains(safetensors_refusal(bytes), "its header would have"));
  EXPECT_FALSE(safetensors_refusal({}).empty());
  EXPECT_TRUE(contains(safetensors_refusal(file_of(std::string(100000, '['), "")), "nested too deeply"));
  EXPECT_TRUE(contains(safetensors_refusal(file_of("{", "")), "not valid JSON"));
  EXPECT_TRUE(contains(safetensors_refusal(file_of(R"({"a":{},"b":1})", "")), "tensor a has"));
}

TEST(SafetensorsHeader, OfManyTensorsOrValuesTakesATimeInProportion) {
  const std::clock_t begin = std::clock();
  std::string tensors = "{";
  for (int i = 0; i < 50000; ++i)
    tensors += fmt::format(R"("\"[{}:{{":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  tensors.back() = '}';
  const std::vector<uint8_t> bytes = file_of(tensors, "");
  EXPECT_EQ(SafetensorsFile(bytes, "x").tensors().size(), 50000U);
  std::string values = R"({"a":[)";
  for (int i = 0; i < 1300000; ++i) values += "{},";
  values.back() = ']';
  EXPECT_TRUE(contains(safetensors_refusal(file_of(values + "}", "")), "tensor a has an unknown dtype"));
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

}  // namespace
}  // namespace ventris::data
