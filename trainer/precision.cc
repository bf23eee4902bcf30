// SPDX-License-Identifier: Apache-2.0
#include "trainer/precision.h"

#include <fmt/core.h>

#include "backend/device/error.h"

namespace ventris {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kAuto:
      return "auto";
    case Precision::kF32:
      return "f32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBF16:
      return "bf16";
  }
  fail(ExitCode::kInternal, "precision {} has no name", static_cast<int>(precision));
}

Precision precision_named(const std::string& name) {
  for (const Precision precision : {Precision::kF32, Precision::kTf32, Precision::kBF16}) {
    if (name == name_of(precision)) return precision;
  }
  return Precision::kAuto;
}

DType dtype_of(Precision precision) {
  VENTRIS_CHECK(precision != Precision::kAuto, "the precision is not resolved");
  return precision == Precision::kBF16 ? DType::kBF16 : DType::kF32;
}

Precision default_precision(Device device) {
  return device == Device::kCuda ? Precision::kBF16 : Precision::kF32;
}

Precision resolved_precision(Precision given, Precision recorded, Device device) {
  const Precision wanted = given != Precision::kAuto ? given : recorded;
  if (wanted == Precision::kTf32 && device == Device::kCpu) {
    fail(ExitCode::kUsage,
         "--precision tf32{} computes only with CUDA; use --device cuda on a machine with a GPU, {}",
         given == wanted ? "" : ", that of the checkpoint,",
         given == wanted ? "or --precision f32 or bf16"
                         : "or begin a new run with --precision f32 or bf16 in another --model-dir");
  }
  return wanted != Precision::kAuto ? wanted : default_precision(device);
}

std::string describe_precision(Precision given, Precision recorded, Device device) {
  const Precision taken = resolved_precision(given, recorded, device);
  const Precision usual = default_precision(device);
  const char* where = device == Device::kCuda ? "on CUDA" : "on the CPU";
  std::string text = name_of(taken);
  if (given != Precision::kAuto) {
    text += ", as --precision says";
  } else if (recorded != Precision::kAuto) {
    text += ", that of the checkpoint";
    if (taken != usual) text += fmt::format("; a new run {} would have {}", where, name_of(usual));
  } else {
    text += fmt::format(", the default {}", where);
  }
  if (taken == Precision::kTf32) text += "; TF32 in matrix products, f32 in attention and all else";
  return text;
}

}  // namespace ventris
