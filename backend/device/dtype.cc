// SPDX-License-Identifier: Apache-2.0
#include "backend/device/dtype.h"

namespace ventris {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "f64";
  }
  return "unknown";
}

}  // namespace ventris
