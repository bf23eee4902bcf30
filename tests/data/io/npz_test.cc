// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstring>

#include "data/io/atomic_file.h"
#include "data/io/npz.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string text("\x93NUMPY", 6);
  text += version;
  text += '\0';
  if (version == 1) {
    put(text, static_cast<uint16_t>(dictionary.size()));
  } else {
    put(text, static_cast<uint32_t>(dictionary.size()));
  }
  return text + dictionary + data;
}

std::string deflated(const std::string& text) {
  std::string packed(text.size() + 1000, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// An archive of one entry, whose fields a test may falsify.
struct Archive {
  std::string name = "x.npy";
  std::string content;  // unpacked
  uint16_t method = 0;
  uint16_t flags = 0;
  uint32_t more_bytes = 0;  // added to the length that the directory tells
  uint16_t count = 1;

  std::vector<uint8_t> bytes() const {
    const std::string packed = method == 8 ? deflated(content) : content;
    std::string fields;
    put(fields, uint16_t{20});
    put(fields, flags);
    put(fields, method);
    put(fields, uint32_t{0});
    put(fields, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                            static_cast<uInt>(content.size()))));
    put(fields, static_cast<uint32_t>(packed.size()));
    put(fields, static_cast<uint32_t>(content.size()) + more_bytes);
    put(fields, static_cast<uint16_t>(name.size()));
    put(fields, uint16_t{0});
    std::string file = "PK\x03\x04" + fields + name + packed;
    const auto directory = static_cast<uint32_t>(file.size());
    file += std::string("PK\x01\x02") + std::string("\x14\0", 2) + fields + std::string(14, '\0') + name;
    const auto directory_bytes = static_cast<uint32_t>(file.size()) - directory;
    file += "PK\x05\x06" + std::string(4, '\0');
    put(file, count);
    put(file, count);
    put(file, directory_bytes);
    put(file, directory);
    put(file, uint16_t{0});
    return {file.begin(), file.end()};
  }
};

NpzArray read_one(const std::vector<uint8_t>& bytes) {
  return NpzFile(bytes, "x.npz").read("x");
}

std::string refusal(const std::vector<uint8_t>& bytes) {
  return message_of(ErrorKind::kBadData, [&] { read_one(bytes); });
}

const std::string kTwoFloats = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";

class Npz : public FolderTest {};

TEST_F(Npz, GivesBackWhatWasWritten) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto write = [&](const std::string& name) {
    NpzWriter writer(in_folder(name));
    writer.add("matrix", "<f4", std::vector<int64_t>{2, 3}, values.data(), 24);
    writer.add("special:model.yml", "|i1", std::vector<int64_t>{6}, "a: 1\n", 6);
    writer.add("scalar", "<f4", {}, values.data(), 4);
    writer.commit();
    return in_folder(name);
  };
  const std::vector<uint8_t> bytes = read_file(write("a.npz"), kAnyBytes);
  const NpzFile file(bytes, "a.npz");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"matrix", "special:model.yml", "scalar"}));
  const NpzArray matrix = file.read("matrix");
  EXPECT_EQ(matrix.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(matrix.type, "<f4");
  EXPECT_FALSE(matrix.fortran_order);
  EXPECT_EQ(std::memcmp(matrix.data.data(), values.data(), 24), 0);
  EXPECT_EQ(file.read("special:model.yml").data.size(), 6U);
  EXPECT_TRUE(file.read("scalar").shape.empty());
  EXPECT_FALSE(file.contains("none"));
  message_of(ErrorKind::kBadData, [&] { file.read("none"); });
  EXPECT_EQ(bytes_of(in_folder("a.npz")), bytes_of(write("b.npz")));
}

TEST_F(Npz, ThatIsTruncatedOrChangedIsRefusedOrReadAsItWas) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  NpzWriter writer(in_folder("a.npz"));
  writer.add("x", "<f4", std::vector<int64_t>{6}, values.data(), 24);
  writer.commit();
  const std::vector<uint8_t> whole = read_file(in_folder("a.npz"), kAnyBytes);
  for (size_t length = 0; length < whole.size(); ++length) {
    refusal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<uint8_t> changed = whole;
    changed[i] ^= 0x11;
    try {
      // What is left: bytes that nobody reads, such as times.
      EXPECT_EQ(std::memcmp(read_one(changed).data.data(), values.data(), 24), 0) << i;
    } catch (const DataError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    }
  }
}

TEST_F(Npz, WhoseNamesWereChangedIsRefused) {
  const std::vector<float> values = {1, 2};
  NpzWriter writer(in_folder("a.npz"));
  writer.add("first", "<f4", std::vector<int64_t>{2}, values.data(), 8);
  writer.add("other", "<f4", std::vector<int64_t>{2}, values.data(), 8);
  writer.commit();
  const std::vector<uint8_t> whole = read_file(in_folder("a.npz"), kAnyBytes);
  const std::string text(whole.begin(), whole.end());
  const size_t local = text.find("other.npy");
  const size_t central = text.find("other.npy", local + 1);
  ASSERT_NE(central, std::string::npos);
  for (const size_t at : {local, central}) {
    for (size_t i = at; i < at + 5; ++i) {
      std::vector<uint8_t> changed = whole;
      changed[i] ^= 1;
      // Also if the array is never read.
      const std::string said =
          message_of(ErrorKind::kBadData, [&] { NpzFile(changed, "a.npz").read("first"); });
      EXPECT_TRUE(contains(said, "the archive cannot be opened")) << said;
    }
  }
}

TEST(NpzArchive, OfStoredAndDeflatedEntriesIsRead) {
  for (const uint16_t method : {0, 8}) {
    for (const char version : {1, 2, 3}) {
      const NpzArray array =
          read_one(Archive{.content = npy(kTwoFloats, "01234567", version), .method = method}.bytes());
      EXPECT_EQ(std::string(array.data.begin(), array.data.end()), "01234567");
      EXPECT_EQ(array.shape, std::vector<int64_t>{2});
    }
  }
  const NpzArray columns = read_one(
      Archive{.content = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 1)}", "ab")}.bytes());
  EXPECT_TRUE(columns.fortran_order);
  EXPECT_EQ(columns.type, "|u1");
}

TEST(NpzArchive, WithFalseNumbersIsRefused) {
  const std::string content = npy(kTwoFloats, "01234567");
  EXPECT_TRUE(contains(refusal(Archive{.name = "x.txt", .content = content}.bytes()), "not an npy file"));
  for (const Archive& other :
       {Archive{.content = content, .method = 12}, Archive{.content = content, .flags = 1},
        Archive{.content = content, .more_bytes = 1},
        Archive{.content = content, .method = 8, .more_bytes = 1}}) {
    EXPECT_TRUE(contains(refusal(other.bytes()), "changed or damaged, or is not stored or deflated"));
  }
  EXPECT_TRUE(contains(refusal(Archive{.content = content, .method = 8, .more_bytes = 4000000000}.bytes()),
                       "times the"));
  EXPECT_TRUE(contains(refusal(Archive{.content = content, .count = 2}.bytes()), "cannot be opened"));
}

TEST(NpzArchive, OfCompressedZerosIsRefusedBeforeMemoryIsTaken) {
  const std::string zeros(1 << 20, '\0');
  const std::string dictionary = "{'descr': '|i1', 'fortran_order': False, 'shape': (1048576,), }";
  EXPECT_TRUE(
      contains(refusal(Archive{.content = npy(dictionary, zeros), .method = 8}.bytes()), "times the"));
}

TEST(NpyHeader, OfAnyOtherFormIsRefused) {
  for (const char* header : {
           "",
           "{",
           "{}",
           "[]",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
           "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
           "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
       }) {
    EXPECT_FALSE(refusal(Archive{.content = npy(header, "01234567")}.bytes()).empty()) << header;
  }
  EXPECT_FALSE(refusal(Archive{.content = "no npy file at all"}.bytes()).empty());
  EXPECT_FALSE(refusal(Archive{.content = npy(kTwoFloats, "01234567", 9)}.bytes()).empty());
}

}  // namespace
}  // namespace ventris::data
