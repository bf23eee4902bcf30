// SPDX-License-Identifier: Apache-2.0
// The whole model against PyTorch, on the CPU; tests/emulation runs the same on CUDA.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/golden_model.h"

namespace ventris {
namespace {

class TransformerGolden : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(TransformerGolden, LogitsLossGradientsAndTenStepsAgreeWithPyTorch) {
  const auto [name, dtype] = GetParam();
  testing::check_golden_model(name, dtype, {});
}

INSTANTIATE_TEST_SUITE_P(Models, TransformerGolden,
                         ::testing::Combine(::testing::Values("post_norm", "pre_norm", "two_tables",
                                                              "three_tables", "gelu", "swish", "head_32",
                                                              "head_64"),
                                            ::testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param)) + "_" +
                                  name_of(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace ventris
