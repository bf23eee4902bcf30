// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <filesystem>

#include "data/error.h"
#include "data/io/digest.h"
#include "data/io/element_type.h"
#include "data/io/hdf5_handle.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

/// HDF5 files that other programs wrote, changed or have open.
class ForeignHdf5Test : public FolderTest {
 protected:
  std::string path() const { return in_folder("foreign.h5"); }

  /// A new file with room for a user block, in the newest layout.
  Hdf5Handle created() const {
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
    const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    H5Pset_userblock(creation.id(), kUserBlockBytes);
    H5Pset_link_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    return {H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose};
  }

  /// Gives it a user block of ours with the right digest.
  void seal() const {
    std::string bytes = bytes_of(path());
    const auto length = static_cast<uint64_t>(bytes.size() - kUserBlockBytes);
    Digest digest;
    digest.add(bytes.data() + kUserBlockBytes, length);
    const XXH128_canonical_t value = digest.value();
    std::memcpy(bytes.data(), kUserBlockMagic, 8);
    std::memcpy(bytes.data() + 8, &length, sizeof(length));
    std::memcpy(bytes.data() + 16, &value, sizeof(value));
    put("foreign.h5", bytes);
  }

  /// A file of ours.
  void write(FileDigest kind) const {
    const std::vector<int32_t> tokens(5000, 7);
    const int64_t size = std::ssize(tokens);
    Hdf5Writer writer(path(), 0, kind);
    writer.write("/tokens", ElementType::kI32, {&size, 1}, tokens.data());
    writer.commit();
  }

  std::string refusal() const {
    return message_of(ErrorKind::kBadData, [&] { const Hdf5Reader reader(path()); });
  }
};

TEST_F(ForeignHdf5Test, TheLibraryLoadsNoPlugIns) {
  const Hdf5Lock lock;
  unsigned loaded = ~0U;
  ASSERT_GE(H5PLget_loading_state(&loaded), 0);
  EXPECT_EQ(loaded, 0u);
}

TEST_F(ForeignHdf5Test, ADatasetWithoutElementsIsToldByWhatIsExpected) {
  {
    const Hdf5Lock lock;
    const Hdf5Handle file = created();
    const Hdf5Handle space(H5Screate(H5S_NULL), H5Sclose);
    const Hdf5Handle dataset(
        H5Dcreate2(file.id(), "bias", H5T_IEEE_F32LE, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose);
    ASSERT_TRUE(dataset.valid());
  }
  seal();
  const Hdf5Reader reader(path());
  EXPECT_EQ(reader.datasets("/"), std::vector<std::string>{"/bias"});
  const int64_t size = 256;
  std::vector<float> values(256);
  const std::string prefix = path() + ": dataset /bias has a null dataspace (no elements), where ";
  const auto told = [&](const auto& call) { return message_of(ErrorKind::kBadData, call); };
  EXPECT_EQ(told([&] {
              reader.read("/bias", ElementType::kF32, {&size, 1}, values.data());
            }),
            prefix + "an array of f32 [256] is expected");
  EXPECT_EQ(told([&] { reader.read("/bias", ElementType::kF32, {}, values.data()); }),
            prefix + "an array of f32 [] is expected");
  EXPECT_EQ(told([&] { reader.dimensions("/bias"); }), prefix + "an array is expected");
  EXPECT_EQ(told([&] { reader.read_bytes("/bias"); }), prefix + "a row of bytes is expected");
}

TEST_F(ForeignHdf5Test, AnotherLengthIsToldAsWhatItIs) {
  for (const FileDigest kind : {FileDigest::kFlat, FileDigest::kTree}) {
    write(kind);
    const std::string whole = bytes_of(path());
    for (const std::string& other : {whole + "x", whole.substr(0, whole.size() - 1)}) {
      put("foreign.h5", other);
      EXPECT_TRUE(contains(refusal(), fmt::format("its length is {} bytes, but {} were written: it was "
                                                  "changed, or cut, after ventris wrote it",
                                                  other.size(), whole.size())))
          << refusal();
    }
    // Of a damaged record only the first number is of use.
    std::string damaged = whole;
    std::memset(damaged.data() + 8, 0xFF, sizeof(uint64_t));
    put("foreign.h5", damaged);
    EXPECT_TRUE(contains(refusal(), fmt::format("its length is {} bytes, but 1844", whole.size())))
        << refusal();
  }
}

}  // namespace
}  // namespace ventris::data
