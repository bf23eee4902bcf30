// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace ventris::data {

/// Element types of datasets. bf16 is the upper half of an f32.
enum class ElementType { kF32, kF64, kI32, kI64, kU8, kI8, kBF16, kU16 };

const char* name_of(ElementType type);
size_t size_of(ElementType type);

inline constexpr ElementType kElementTypes[] = {ElementType::kF32,  ElementType::kF64, ElementType::kI32,
                                                ElementType::kI64,  ElementType::kU8,  ElementType::kI8,
                                                ElementType::kBF16, ElementType::kU16};

/// Element types by C++ type.
template <typename T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
  static constexpr ElementType value = ElementType::kF32;
};
template <>
struct ElementTypeOf<double> {
  static constexpr ElementType value = ElementType::kF64;
};
template <>
struct ElementTypeOf<int32_t> {
  static constexpr ElementType value = ElementType::kI32;
};
template <>
struct ElementTypeOf<int64_t> {
  static constexpr ElementType value = ElementType::kI64;
};
template <>
struct ElementTypeOf<uint8_t> {
  static constexpr ElementType value = ElementType::kU8;
};
template <>
struct ElementTypeOf<uint16_t> {
  static constexpr ElementType value = ElementType::kU16;
};

}  // namespace ventris::data
