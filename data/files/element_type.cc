// SPDX-License-Identifier: Apache-2.0
#include "data/files/element_type.h"

namespace ventris::data {

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return "f32";
    case ElementType::kF64:
      return "f64";
    case ElementType::kI32:
      return "i32";
    case ElementType::kI64:
      return "i64";
    case ElementType::kU8:
      return "u8";
    case ElementType::kI8:
      return "i8";
    case ElementType::kBF16:
      return "bf16";
    case ElementType::kU16:
      return "u16";
  }
  return "?";
}

size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
      return 8;
    case ElementType::kF32:
    case ElementType::kI32:
      return 4;
    case ElementType::kBF16:
    case ElementType::kU16:
      return 2;
    case ElementType::kU8:
    case ElementType::kI8:
      return 1;
  }
  return 0;
}

}  // namespace ventris::data
