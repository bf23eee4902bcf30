#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <filesystem>

#include "data/error.h"
#include "data/files/digest.h"
#include "data/files/digest_tree.h"
#include "data/files/element_type.h"
#include "data/files/hdf5_handle.h"
#include "data/files/hdf5_reader.h"
#include "data/files/hdf5_writer.h"
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

size_t pass_through(unsigned, size_t, const unsigned*, size_t bytes, size_t*, void**) {
  return bytes;
}

TEST_F(ForeignHdf5Test, TheFilterOfAGroupIsNamed) {
  constexpr H5Z_filter_t kFilter = 300;  // which the process that reads files does not know
  {
    const Hdf5Lock lock;
    const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kFilter, 1, 1, "through", nullptr, nullptr, pass_through};
    ASSERT_GE(H5Zregister(&filter), 0);
    {
      const Hdf5Handle file = created();
      const Hdf5Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
      H5Pset_link_creation_order(properties.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
      H5Pset_link_phase_change(properties.id(), 0, 0);  // the heap from the first link on
      ASSERT_GE(H5Pset_filter(properties.id(), kFilter, H5Z_FLAG_MANDATORY, 0, nullptr), 0);
      const Hdf5Handle group(H5Gcreate2(file.id(), "model", H5P_DEFAULT, properties.id(), H5P_DEFAULT),
                             H5Gclose);
      const Hdf5Handle member(H5Gcreate2(group.id(), "inner", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                              H5Gclose);
      ASSERT_TRUE(member.valid());
    }
    H5Zunregister(kFilter);
  }
  seal();
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, path() + ": the links of group /model")) << message;
  EXPECT_TRUE(contains(message, "filter 300 (through), which this program does not read")) << message;
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

}  // namespace
}  // namespace ventris::data
