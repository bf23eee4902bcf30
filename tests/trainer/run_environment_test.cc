// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_environment.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/gemm_cache.h"
#include "comm/communicator.h"
#include "data/files/json_text.h"

namespace ventris {
namespace {

TEST(RunEnvironment, NamesEveryLibraryAndTheInstructions) {
  const auto self = make_self_communicator();
  const nlohmann::json environment = data::read_json(run_environment(*self));
  ASSERT_EQ(environment.size(), 6U);
  for (const char* key : {"instruction_set", "kernels", "onednn", "compiler", "mpi", "cuda"}) {
    EXPECT_FALSE(environment.at(key).get<std::string>().empty()) << key;
  }
  EXPECT_EQ("oneDNN " + environment.at("onednn").get<std::string>() + ", " +
                environment.at("instruction_set").get<std::string>(),
            gemm_library());
}

TEST(RunEnvironment, TellsWhatChanged) {
  const std::string before =
      R"({"instruction_set": "AVX2", "kernels": "avx2", "onednn": "2.6.3", "mpi": "Open MPI 4.1.4"})";
  const std::string now =
      R"({"instruction_set": "AVX-512", "kernels": "avx512", "onednn": "2.6.3", "mpi": "no", "cuda": "12"})";
  EXPECT_EQ(
      environment_changes(before, now),
      "instruction set from AVX2 to AVX-512; kernels from avx2 to avx512; MPI from Open MPI 4.1.4 to no");
  EXPECT_EQ(environment_changes(now, now), "");
  for (const char* unknown : {"", "{}", "[1]", "no JSON", R"({"mpi": 4})"}) {
    EXPECT_EQ(environment_changes(unknown, now), "") << unknown;
  }
}

}  // namespace
}  // namespace ventris
