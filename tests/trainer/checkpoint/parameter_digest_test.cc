// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/parameter_digest.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <map>

#include "backend/device/error.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

using testing::cpu_context;
using testing::expect_failure;
using testing::small_config;
using testing::small_tokenizer_models;
using testing::SmallModel;

using ParameterDigest = testing::FolderTest;

TEST_F(ParameterDigest, IsThatOfNamesShapesAndValuesInOrderOfNames) {
  const SmallModel model(small_config(), 8);
  const ModelArrays arrays(cpu_context(), model.store, ChannelOrder::kPairs);
  std::map<std::string, Array> by_name;
  for (const LogicalParameter& parameter : model.store.logical()) {
    by_name[parameter.name] = arrays.get(parameter.name);
  }
  std::string bytes;
  for (const auto& [name, array] : by_name) {
    bytes += name + '\0';
    for (const int64_t size : {array.rows, array.cols}) bytes.append(reinterpret_cast<const char*>(&size), 8);
    bytes.append(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(float));
  }
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  EXPECT_EQ(parameter_digest(cpu_context(), model.store),
            fmt::format("{:016x}{:016x}", hash.high64, hash.low64));
}

TEST_F(ParameterDigest, ChangesWithEveryBitAndNotWithPadding) {
  SmallModel model(small_config(), 8);
  const std::string digest = parameter_digest(cpu_context(), model.store);
  EXPECT_EQ(parameter_digest(cpu_context(), SmallModel(small_config(), 8).store), digest);
  EXPECT_NE(parameter_digest(cpu_context(), SmallModel(small_config(), 9).store), digest);
  for (const LogicalParameter& parameter : model.store.logical()) {
    const Tensor block = model.store.logical_value(parameter);
    float& last = block.row<float>(block.rows - 1)[block.cols - 1];
    const float before = last;
    for (const uint32_t bit : {0U, 31U}) {
      uint32_t bits = 0;
      std::memcpy(&bits, &before, sizeof(bits));
      bits ^= uint32_t{1} << bit;
      std::memcpy(&last, &bits, sizeof(bits));
      EXPECT_NE(parameter_digest(cpu_context(), model.store), digest) << parameter.name << " bit " << bit;
    }
    last = before;
  }
  EXPECT_EQ(parameter_digest(cpu_context(), model.store), digest);
}

TEST_F(ParameterDigest, OfAFileMustBeThatOfItsParameters) {
  SmallModel model(small_config(), 8);
  const std::string file = path("weights.h5");
  save_weights(cpu_context(), file, model.config, model.store, small_tokenizer_models(), "");
  {
    const data::Hdf5Reader reader(file);
    EXPECT_EQ(reader.string_attribute("/", kDigestAttribute), parameter_digest(cpu_context(), model.store));
  }
  // A file that is sound as such, with the parameters of one model and the digest of another.
  const std::string mixed = path("mixed.h5");
  const std::string other = parameter_digest(cpu_context(), SmallModel(small_config(), 9).store);
  {
    data::Hdf5Writer writer(mixed);
    write_parameters(writer, kModelGroup, ModelArrays(cpu_context(), model.store, ChannelOrder::kPairs));
    writer.write_attribute("/", kDigestAttribute, other);
    writer.commit();
  }
  SmallModel read(small_config(), 10);
  const data::Hdf5Reader reader(mixed);
  expect_failure<Error>([&] { read_model(cpu_context(), reader, read.store); }, ExitCode::kBadData,
                        {mixed, other, parameter_digest(cpu_context(), model.store)});
}

}  // namespace
}  // namespace ventris
