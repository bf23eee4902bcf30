// SPDX-License-Identifier: Apache-2.0
#include "trainer/precision.h"

#include <gtest/gtest.h>

#include <string>

#include "backend/error.h"
#include "trainer/resume_signature.h"

namespace ventris {
namespace {

constexpr Precision kAll[] = {Precision::kF32, Precision::kTf32, Precision::kBF16};
constexpr Device kDevices[] = {Device::kCpu, Device::kCuda};

TEST(Precision, WhatIsGivenComesFirstThenTheCheckpointThenTheDevice) {
  EXPECT_EQ(resolved_precision(Precision::kAuto, Precision::kAuto, Device::kCpu), Precision::kF32);
  EXPECT_EQ(resolved_precision(Precision::kAuto, Precision::kAuto, Device::kCuda), Precision::kBF16);
  for (const Precision given : kAll) {
    for (const Precision recorded : kAll) {
      EXPECT_EQ(resolved_precision(given, recorded, Device::kCuda), given);
      EXPECT_EQ(resolved_precision(Precision::kAuto, recorded, Device::kCuda), recorded);
    }
  }
  EXPECT_EQ(resolved_precision(Precision::kAuto, Precision::kBF16, Device::kCpu), Precision::kBF16);
  EXPECT_EQ(resolved_precision(Precision::kF32, Precision::kTf32, Device::kCpu), Precision::kF32);
}

TEST(Precision, Tf32IsRefusedOnTheCpuWhoeverAsksForIt) {
  for (const bool given : {true, false}) {
    try {
      resolved_precision(given ? Precision::kTf32 : Precision::kAuto, Precision::kTf32, Device::kCpu);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      const std::string message = error.what();
      EXPECT_NE(message.find("--precision tf32"), std::string::npos) << message;
      EXPECT_EQ(message.find("of the checkpoint") == std::string::npos, given) << message;
    }
  }
}

TEST(Precision, IsFoundAgainByItsNameAndInASignature) {
  for (const Precision precision : kAll) {
    EXPECT_EQ(precision_named(name_of(precision)), precision);
    TrainOptions options;
    options.precision = precision;
    EXPECT_EQ(precision_of_signature(resume_signature(options)), precision);
    EXPECT_EQ(dtype_of(precision), precision == Precision::kBF16 ? DType::kBF16 : DType::kF32);
  }
  EXPECT_EQ(precision_named("f8"), Precision::kAuto);
  EXPECT_EQ(precision_of_signature("seed: 1\nprecision: f8\n"), Precision::kAuto);
  EXPECT_EQ(precision_of_signature(""), Precision::kAuto);
  EXPECT_THROW(static_cast<void>(dtype_of(Precision::kAuto)), Error);
}

TEST(Precision, IsDescribedWithWhereItIsFrom) {
  constexpr Precision kAuto = Precision::kAuto;
  for (const Device device : kDevices) {
    const bool cpu = device == Device::kCpu;
    EXPECT_EQ(describe_precision(kAuto, kAuto, device),
              cpu ? "f32, the default on the CPU" : "bf16, the default on CUDA");
    EXPECT_EQ(describe_precision(Precision::kF32, Precision::kF32, device), "f32, as --precision says");
    EXPECT_EQ(describe_precision(kAuto, Precision::kF32, device),
              cpu ? "f32, that of the checkpoint"
                  : "f32, that of the checkpoint; a new run on CUDA would have bf16");
  }
}

}  // namespace
}  // namespace ventris
