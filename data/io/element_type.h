// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ventris::data {

/// Element types of datasets. bf16 is the upper half of an f32.
enum class ElementType { kF32, kF64, kI32, kI64, kU8, kI8, kBF16, kU16 };

inline constexpr ElementType kElementTypes[] = {ElementType::kF32,  ElementType::kF64, ElementType::kI32,
                                                ElementType::kI64,  ElementType::kU8,  ElementType::kI8,
                                                ElementType::kBF16, ElementType::kU16};

constexpr const char* name_of(ElementType type) {
  constexpr const char* kNames[] = {"f32", "f64", "i32", "i64", "u8", "i8", "bf16", "u16"};
  return kNames[static_cast<size_t>(type)];
}

constexpr size_t size_of(ElementType type) {
  constexpr size_t kSizes[] = {4, 8, 4, 8, 1, 1, 2, 2};
  return kSizes[static_cast<size_t>(type)];
}

/// Element types by C++ type.
template <typename T>
struct ElementTypeOf {
  static_assert(std::is_arithmetic_v<T>);
  static constexpr ElementType value = std::is_same_v<T, float>     ? ElementType::kF32
                                       : std::is_same_v<T, double>  ? ElementType::kF64
                                       : std::is_same_v<T, int32_t> ? ElementType::kI32
                                       : std::is_same_v<T, int64_t> ? ElementType::kI64
                                       : std::is_same_v<T, uint8_t> ? ElementType::kU8
                                                                    : ElementType::kU16;
  static_assert(sizeof(T) == size_of(value));
};

}  // namespace ventris::data
